"""The tool results, and the text of one, page by page."""

from stores_cli.output import moment
from stores_cli.ui.markup import Child, Markup, element, joined, link
from stores_cli.ui.page import (
    Page,
    Query,
    absent,
    field,
    form,
    label_fields,
    labels_of,
    none_of,
    onward,
    stretch,
    table,
)
from stores_core.backend import Backend
from stores_core.tool_results import TextMatch, ToolResultInfo

SLICE = 20_000
"""So many characters of a text are on a page."""

MATCHES = 100
"""So many lines that match are shown at once."""


async def list_(backend: Backend, query: Query) -> Page:
    """The tool results, newest first, in pages."""
    found = await backend.tool_results.list_tool_results(
        labels=query.labels(), cursor=query.text("cursor")
    )
    filters = form("/results", *label_fields(query.texts("label")))
    columns = ("result", "created", "bytes", "characters", "labels")
    empty = none_of("tool results", found.next_cursor)
    rows = table(columns, [_row(info) for info in found.infos], empty=empty)
    return Page(
        "Tool results", joined(filters, rows, onward("/results", found.next_cursor, query, "label"))
    )


def _row(info: ToolResultInfo) -> list[Child]:
    return [
        link(info.ref, "/result", id=info.ref), moment(info.created_at), info.bytes,
        info.characters, labels_of(info.labels),
    ]  # fmt: skip


async def show(backend: Backend, query: Query) -> Page:
    """A slice of the text of one result, or the lines of it that hold a word."""
    ref, offset, word = query.id(), query.number("offset"), query.text("find")
    asked = form("/result", field("Find", "find", word), id=ref)
    if word:
        return await _matches(backend, ref, word, query.number("start"), asked)
    piece = await backend.tool_results.read_tool_result(ref=ref, offset=offset, limit=SLICE)
    if not piece.found:
        return absent("tool result", ref)
    ways = stretch("/result", "offset", offset, SLICE, piece.characters, id=ref)
    said = "Its text" if piece.characters else "It has no text"
    hint = element(
        "p", f"{said}; `agent-stores results show --json` shows all of it.", class_="dim"
    )
    text = element("pre", piece.text)
    return Page(
        f"Tool result {ref}", joined(asked, element("p", hint, class_="dim"), ways, text, ways)
    )


async def _matches(backend: Backend, ref: str, word: str, start: int, asked: Markup) -> Page:
    found = await backend.tool_results.search_tool_result(
        ref=ref, pattern=word, ignore_case=True, start=start, limit=MATCHES
    )
    if not found.found:
        return absent("tool result", ref)
    rows = table(
        ("at", "line"), [_match(ref, match) for match in found.matches], empty="No such line."
    )
    more = None
    if found.next < found.characters:
        more = link("more of them", "/result", id=ref, find=word, start=found.next)
    title = f"Lines of {ref}"
    return Page(title, joined(asked, rows, element("p", more, class_="pages")))


def _match(ref: str, match: TextMatch) -> list[Child]:
    place = link(match.offset, "/result", id=ref, offset=match.line_offset)
    return [place, element("pre", match.text)]
