"""``import``: archives of `export`, and the sessions of other tools, into a backend."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from stores_cli import archive
from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.moving import show_copied, tally_report
from stores_cli.options import Json, Tenant, pairs
from stores_cli.output import Output
from stores_cli.target import Target
from stores_cli.transfer import Piece, Tally, move
from stores_cli.urls import is_url, opened, shown, url_or_default
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError

commands = group()


def _formats(begun: str) -> list[str]:
    """The names of formats that begin so, for a shell."""
    from stores_cli.importing.registry import AUTO, FORMATS

    return [name for name in (AUTO, *(one.name for one in FORMATS)) if name.startswith(begun)]


@command(commands, "import", example="import --from claude-code session.jsonl sqlite:agent.db")
async def import_(
    files: Annotated[
        list[str],
        Argument(metavar="FILE... [URL]", help="What to read; at the end, the backend."),
    ],
    from_: Annotated[
        str,
        Option(
            "--from",
            metavar="FORMAT",
            help="Sessions of another tool; `auto` recognises it.",
            autocompletion=_formats,
        ),
    ] = "",
    label: Annotated[
        list[str] | None,
        Option("--label", metavar="KEY=VALUE", help="For runs of --from; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="With --from: read and count, write nothing.")
    ] = False,
    tenant: Tenant = "",
    json: Json = False,
) -> int:
    """Bring in archives, or with --from the sessions of other tools.

    Repeat the command after an interruption: what is there already is passed over. With --from, a
    session that grew since brings only what is new, folders are read with all that is below, and
    databases are named by URL. Formats: docs/importing.md.

    Ends with 1 where something was damaged, refused or stood there already as something else.
    """
    output = Output(json=json)
    *names, last = files
    places, url = (names, last) if names and is_url(last) else (files, "")
    if from_:
        labels = pairs(label, "--label")
        if dry_run:
            return await _sessions(output, None, places, from_, labels)
        async with opened(url, tenant=tenant, create=True) as target:
            return await _sessions(output, target, places, from_, labels)
    if label or dry_run:
        raise InvalidRequestError(
            field="--label" if label else "--dry-run", found="no --from", allowed="both, or neither"
        )
    url_or_default(url)
    return await _archives(output, [*map(Path, places)], url, tenant)


async def _archives(output: Output, paths: Sequence[Path], url: str, tenant: str) -> int:
    named = set[str | None]().union(*map(archive.check, paths))
    if tenant and named - {None}:
        raise InvalidRequestError(
            field="--tenant", found="an archive that names its tenants", allowed="no --tenant"
        )
    tallies: dict[str, Tally] = {}
    with output.progress("importing") as step:
        for path in paths:
            for name, pieces in groupby(archive.pieces(path), key=itemgetter(0)):
                into = tenant if name is None else name
                tally = tallies.setdefault(into, Tally())
                async with opened(url, tenant=into, create=True) as target:
                    await move(_each(pieces), Target(target, tally), step)
    show_copied(output, [tally_report(name, tally) for name, tally in tallies.items()])
    return Exit.FOUND if any(tally.conflicts.count for tally in tallies.values()) else Exit.FINE


async def _each(pieces: Iterable[tuple[str | None, Piece]]) -> AsyncGenerator[Piece]:
    for _, piece in pieces:
        yield piece


async def _sessions(
    output: Output,
    target: Backend | None,
    places: Sequence[str],
    format: str,
    labels: dict[str, str],
) -> int:
    # Dozens of formats, which no other command needs.
    from stores_cli.importing import import_sessions

    with output.progress("importing") as step:
        report = await import_sessions(
            target, places, format=format, labels=labels, shown=shown, progress=step
        )
    if output.json:
        output.document(report.as_json())
    else:
        for line in report.lines():
            output.line(line)
    return Exit.FINE if report.fine else Exit.FOUND
