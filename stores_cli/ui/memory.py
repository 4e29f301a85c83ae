"""The namespaces with notes, the notes of one (all, or those that answer a query), one note."""

from stores_cli.output import moment
from stores_cli.ui.markup import Child, address, element, field_of, id_of, joined, link
from stores_cli.ui.page import (
    Page,
    Query,
    absent,
    fact_list,
    field,
    form,
    onward,
    stretch,
    table,
)
from stores_cli.ui.transcript import json_text
from stores_core.backend import Backend
from stores_core.memory import ScoredMemory

BEST = 50
"""So many notes answer a query at most."""

CUT = 1_000
"""So many characters of a value are shown beside others."""

SLICE = 50_000
"""So many characters of one value are on a page."""


async def namespaces(backend: Backend, query: Query) -> Page:
    """The namespaces with notes, in order."""
    prefix = query.text("prefix")
    found = await backend.memory.list_namespaces(prefix=prefix, cursor=query.text("cursor"))
    rows = [[link(_named(name), "/notes", id=name)] for name in found.namespaces]
    listed = table(("namespace",), rows, empty="No notes here.")
    asked = form("/namespaces", field("Begins with", "prefix", prefix))
    return Page(
        "Notes", joined(asked, listed, onward("/namespaces", found.next_cursor, query, "prefix"))
    )  # fmt: skip


async def notes(backend: Backend, query: Query) -> Page:
    """The notes of a namespace, oldest first; with a query the best of them, with scores."""
    namespace, words = query.id(), query.text("query")
    asked = form("/notes", field("Recall", "query", words), id=namespace)
    if words:
        found = await backend.memory.list_memories(query=words, namespace=namespace, limit=BEST)
        more = element("p", f"The best {BEST}.") if len(found.items) == BEST else None
    else:
        cursor = query.text("cursor")
        found = await backend.memory.list_memories(namespace=namespace, cursor=cursor, limit=BEST)
        more = onward("/notes", found.next_cursor, query, id=namespace)
    columns = [*(["score"] if words else []), "key", "value", "metadata", "updated", "version"]
    rows = [_row(namespace, one, scored=bool(words)) for one in found.items]
    listed = table(columns, rows, empty="No notes here.")
    return Page(f"Notes of {_named(namespace)}", joined(asked, listed, more))


async def note(backend: Backend, query: Query) -> Page:
    """One note; its value in slices."""
    namespace, key, offset = query.id(), id_of(query.text("key")), query.number("offset")
    item = (await backend.memory.get_memory(key=key, namespace=namespace)).item
    if item is None:
        return absent(f"note {key} in the namespace", _named(namespace))
    facts = {
        "namespace": link(_named(namespace), "/notes", id=namespace),
        "created": moment(item.created_at),
        "updated": moment(item.updated_at),
        "version": item.version,
        "metadata": element("pre", json_text(dict(item.metadata))) if item.metadata else None,
    }
    ways = stretch(
        "/note", "offset", offset, SLICE, len(item.value), id=namespace, key=field_of(key)
    )
    text = element("pre", item.value[offset : offset + SLICE])
    return Page(f"Note {key}", joined(fact_list(facts), ways, text, ways))


def _named(namespace: str) -> str:
    return namespace or '""'


def _row(namespace: str, note: ScoredMemory, *, scored: bool) -> list[Child]:
    item = note.item
    whole = address("/note", id=namespace, key=field_of(item.key))
    left = len(item.value) - CUT
    value = element("pre", item.value if left <= 0 else f"{item.value[:CUT]} ...")
    metadata = element("pre", json_text(dict(item.metadata))[:CUT]) if item.metadata else None
    return [
        *([f"{note.score:.3f}"] if scored else []), element("a", item.key, href=whole), value,
        metadata, moment(item.updated_at), item.version,
    ]  # fmt: skip
