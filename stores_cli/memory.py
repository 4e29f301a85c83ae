"""``memory list | recall | put | delete | namespaces | reembed``: notes from the shell."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

from typer import Argument, Option

from stores_cli.commands import command, group
from stores_cli.embedders import embedder_of
from stores_cli.exits import Exit
from stores_cli.options import Json, Limit, Namespace, Tenant, Url, pairs
from stores_cli.output import Output, json_of, moment
from stores_cli.paging import PAGE, first_of
from stores_cli.urls import opened
from stores_core.backend import Backend
from stores_core.codec import parse_json
from stores_core.errors import InvalidRequestError
from stores_core.memory import MemoryItem, ScoredMemory
from stores_core.walking import pages

commands = group("memory", "Notes in working memory: list, recall, put, delete.")

Key = Annotated[str, Argument(metavar="KEY", help="The key of a note.")]
Embedding = Annotated[
    str,
    Option(
        "--embedder",
        metavar="NAME",
        help="words, words:DIMENSIONS or openai:MODEL:DIMENSIONS (with OPENAI_API_KEY).",
    ),
]
Where = Annotated[
    list[str] | None,
    Option("--where", metavar="KEY=JSON", help="Metadata that a note must have; repeatable."),
]

CUT = 200


@asynccontextmanager
async def _opened(
    url: str, tenant: str, embedder: str, *, create: bool = False
) -> AsyncGenerator[Backend]:
    async with (
        embedder_of(embedder) as made,
        opened(url, tenant=tenant, embedder=made, create=create) as backend,
    ):
        yield backend


@command(commands, "list", example="memory list sqlite:agent.db --namespace user/ada")
async def list_(
    url: Url = "",
    namespace: Namespace = "",
    tenant: Tenant = "",
    where: Where = None,
    limit: Limit = 50,
    json: Json = False,
) -> int:
    """List the notes of a namespace, oldest first."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        fields = {"namespace": namespace, "where": _conditions(where)}
        listing = pages(backend.memory.list_memories, limit=min(limit, PAGE), **fields)
        notes, more = await first_of(listing, lambda page: page.items, limit)
    _show(output, notes, more=more, scored=False)
    return Exit.FINE


@command(commands, "recall", example='memory recall "tea or coffee" sqlite:agent.db -n user/ada')
async def recall(
    query: Annotated[str, Argument(metavar="QUERY", help="What to look for.")],
    url: Url = "",
    namespace: Namespace = "",
    tenant: Tenant = "",
    embedder: Embedding = "",
    where: Where = None,
    limit: Limit = 10,
    json: Json = False,
) -> int:
    """Recall notes, best first: by substring, or with --embedder by likeness.

    Ends with 1 where nothing was found.
    """
    output = Output(json=json)
    async with _opened(url, tenant, embedder) as backend:
        found = await backend.memory.list_memories(
            query=query, namespace=namespace, where=_conditions(where), limit=limit
        )
    _show(output, list(found.items), more=False, scored=True)
    return Exit.FINE if found.items else Exit.FOUND


def _conditions(where: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, text in pairs(where, "--where").items():
        try:
            found[key] = parse_json(text)
        except ValueError:  # a word without quotes is a string
            found[key] = text
    return found


def _show(output: Output, notes: list[ScoredMemory], *, more: bool, scored: bool) -> None:
    if output.json:
        output.document({"items": [json_of(note) for note in notes], "more": more})
        return
    rows: list[list[object]] = []
    for note in notes:
        item = note.item
        value = item.value if len(item.value) <= CUT else f"{item.value[:CUT]} ..."
        score = [f"{note.score:.3f}"] if scored else []
        rows.append([*score, item.key, value, moment(item.updated_at), item.version])
    output.table([*(["score"] if scored else []), "key", "value", "updated", "version"], rows)
    if more:
        output.beside("there are more; raise --limit")


@command(commands, "put", example='memory put drink "green tea" sqlite:agent.db -n user/ada')
async def put(
    key: Key,
    value: Annotated[str, Argument(metavar="VALUE", help="The text of the note.")],
    url: Url = "",
    namespace: Namespace = "",
    tenant: Tenant = "",
    metadata: Annotated[
        str, Option("--metadata", metavar="JSON", help="A JSON object; replaces what was there.")
    ] = "{}",
    expect: Annotated[
        int | None,
        Option("--expect", min=0, metavar="VERSION", help="Only over this version; 0: only new."),
    ] = None,
    embedder: Embedding = "",
    json: Json = False,
) -> int:
    """Put a note: a new one, or a new value for its key. Ends with 1 on a conflict."""
    output = Output(json=json)
    try:
        data = parse_json(metadata)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise InvalidRequestError(
            field="--metadata", found="no JSON object", allowed='as {"source": "mail"}'
        )
    async with _opened(url, tenant, embedder, create=True) as backend:
        item = MemoryItem(key=key, value=value, metadata=cast("dict[str, Any]", data))
        done = await backend.memory.put_memory(
            item=item, namespace=namespace, expected_version=expect
        )
    if json:
        output.document(json_of(done))
    elif done.conflict:
        output.beside(f"left alone: the note is of version {done.version}")
    else:
        output.line(f"{'created' if done.created else 'replaced'}, version {done.version}")
    return Exit.FOUND if done.conflict else Exit.FINE


@command(commands, "delete", example="memory delete drink sqlite:agent.db -n user/ada")
async def delete(
    key: Key, url: Url = "", namespace: Namespace = "", tenant: Tenant = "", json: Json = False
) -> int:
    """Delete a note. Ends with 1 where there is none."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        deleted = (await backend.memory.delete_memory(key=key, namespace=namespace)).deleted
    if json:
        output.document({"deleted": deleted})
    elif not deleted:
        output.beside("there is no such note")
    return Exit.FINE if deleted else Exit.FOUND


@command(commands, "namespaces", example="memory namespaces sqlite:agent.db --prefix user/")
async def namespaces(
    url: Url = "",
    tenant: Tenant = "",
    prefix: Annotated[str, Option("--prefix", metavar="TEXT", help="That begin so.")] = "",
    json: Json = False,
) -> int:
    """List the namespaces that hold notes. The namespace "" is the one without a name."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        names = [
            name
            async for page in pages(backend.memory.list_namespaces, prefix=prefix)
            for name in page.namespaces
        ]
    if json:
        output.document({"namespaces": names})
    else:
        output.table(("namespace",), [(name or '""',) for name in names])
    return Exit.FINE


@command(commands, "reembed", example="memory reembed sqlite:agent.db --embedder words:256")
async def reembed(
    embedder: Embedding, url: Url = "", tenant: Tenant = "", json: Json = False
) -> int:
    """Embed all notes for an embedder, beside the vectors in use, which they then replace.

    Readers and writers go on meanwhile. Repeat it after an interruption: it goes on from there.
    """
    output, count = Output(json=json), 0
    async with _opened(url, tenant, embedder) as backend:
        with output.progress("embedding") as step:
            done = False
            while not done:
                answer = await backend.admin.reembed()
                count += answer.embedded
                step(answer.embedded)
                done = answer.done
    if json:
        output.document({"embedded": count})
    else:
        output.line(f"{count} notes embedded")
    return Exit.FINE
