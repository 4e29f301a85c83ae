"""``results list | show | grep | delete``: tool results from the shell."""

from typing import Annotated

from typer import Argument, Option

from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, LabelFilter, Limit, Tenant, Url, pairs
from stores_cli.output import Output, json_of, moment
from stores_cli.paging import PAGE, first_of
from stores_cli.urls import opened
from stores_core.codec import decode_json, encode
from stores_core.walking import pages

commands = group("results", "Tool results: list, read, search, delete.")

Ref = Annotated[str, Argument(metavar="REF", help="The ref of a tool result.")]

SLICE = 1_000_000
"""Characters that are read at a time, so that memory stays flat."""


@command(commands, "list", example="results list sqlite:agent.db --label tool=search")
async def list_(
    url: Url = "",
    tenant: Tenant = "",
    label: LabelFilter = None,
    limit: Limit = 50,
    json: Json = False,
) -> int:
    """List tool results, newest first."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        listing = pages(
            backend.tool_results.list_tool_results,
            limit=min(limit, PAGE),
            labels=pairs(label, "--label"),
        )
        infos, more = await first_of(listing, lambda page: page.infos, limit)
    if json:
        output.document({"infos": [json_of(info) for info in infos], "more": more})
        return Exit.FINE
    rows = [
        (
            info.ref, moment(info.created_at), info.bytes, info.characters,
            " ".join(f"{key}={value}" for key, value in info.labels.items()),
        )
        for info in infos
    ]  # fmt: skip
    output.table(("ref", "created", "bytes", "characters", "labels"), rows)
    if more:
        output.beside("there are more; raise --limit")
    return Exit.FINE


def _absent(output: Output, ref: str) -> int:
    output.beside(f"there is no result {ref}")
    return Exit.FOUND


@command(commands, "show", example="results show r-12 sqlite:agent.db --limit 4000")
async def show(
    ref: Ref,
    url: Url = "",
    tenant: Tenant = "",
    offset: Annotated[int, Option("--offset", min=0, metavar="N", help="From character N on.")] = 0,
    limit: Annotated[
        int | None, Option("--limit", min=1, metavar="N", help="At most N characters.")
    ] = None,
    json: Json = False,
) -> int:
    """Print the text of a result, or with --json the whole result as it was put."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        results = backend.tool_results
        if json:
            result = (await results.get_tool_result(ref=ref)).result
            if result is None:
                return _absent(output, ref)
            output.document(decode_json(encode(result)))
            return Exit.FINE
        end = None if limit is None else offset + limit
        while True:
            most = SLICE if end is None else min(SLICE, end - offset)
            piece = await results.read_tool_result(ref=ref, offset=offset, limit=most)
            if not piece.found:
                return _absent(output, ref)
            offset += len(piece.text)
            output.text(piece.text)
            if not piece.text or offset >= min(piece.characters, end or piece.characters):
                break
        output.line()
    return Exit.FINE


@command(commands, "grep", example="results grep r-12 timeout sqlite:agent.db --ignore-case")
async def grep(
    ref: Ref,
    pattern: Annotated[str, Argument(metavar="PATTERN", help="Literal text; see --regex.")],
    url: Url = "",
    tenant: Tenant = "",
    ignore_case: Annotated[bool, Option("--ignore-case", "-i", help="By case folding.")] = False,
    regex: Annotated[
        bool, Option("--regex", help="A regular expression; needs the extra `regex`.")
    ] = False,
    limit: Limit = 100,
    json: Json = False,
) -> int:
    """Print the lines of a result that match, with the position of each match in the text.

    With --json a line for each match. Ends with 1 where nothing matches.
    """
    output, start, count = Output(json=json), 0, 0
    async with opened(url, tenant=tenant) as backend:
        while count < limit:
            found = await backend.tool_results.search_tool_result(
                ref=ref,
                pattern=pattern,
                ignore_case=ignore_case,
                regex=regex,
                start=start,
                limit=min(PAGE, limit - count),
            )
            if not found.found:
                return _absent(output, ref)
            for match in found.matches:
                if json:
                    output.document(json_of(match))
                else:
                    output.line(f"{match.offset}: {match.text}")
            count += len(found.matches)
            start = found.next
            if start >= found.characters:
                break
    return Exit.FINE if count else Exit.FOUND


@command(commands, "delete", example="results delete r-12 sqlite:agent.db")
async def delete(ref: Ref, url: Url = "", tenant: Tenant = "", json: Json = False) -> int:
    """Delete a result. Ends with 1 where there is none."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        deleted = (await backend.tool_results.delete_tool_result(ref=ref)).deleted
    if json:
        output.document({"deleted": deleted})
    elif not deleted:
        return _absent(output, ref)
    return Exit.FINE if deleted else Exit.FOUND
