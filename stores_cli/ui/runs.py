"""The runs, one run, and one entry of a run."""

from stores_cli.output import moment
from stores_cli.reading import length_of, page_of
from stores_cli.ui import transcript
from stores_cli.ui.markup import Markup, element, joined, link
from stores_cli.ui.page import (
    Page,
    Query,
    absent,
    fact_list,
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
from stores_core.errors import InvalidRequestError
from stores_core.runs import RunInfo

ENTRIES = 100
"""So many messages or events are on a page."""

SLICE = 50_000
"""So many characters of one text are on a page."""

FILTERS = ("label", "parent")


async def list_(backend: Backend, query: Query) -> Page:
    """The runs, newest first, in pages."""
    labels, parent = query.labels(), query.text("parent")
    found = await backend.runs.list_runs(
        cursor=query.text("cursor"), labels=labels, parent_id=parent or None
    )
    filters = form("/", *label_fields(query.texts("label")), field("Forks of", "parent", parent))
    columns = ("run", "created", "updated", "messages", "events", "labels", "forked from")
    empty = none_of("runs", found.next_cursor)
    rows = table(columns, [_row(info) for info in found.runs], empty=empty)
    return Page("Runs", joined(filters, rows, onward("/", found.next_cursor, query, *FILTERS)))


def _row(info: RunInfo) -> list[Markup | str | int | None]:
    return [
        link(info.id, "/run", id=info.id), moment(info.created_at), moment(info.updated_at),
        info.message_count, info.event_count, labels_of(info.labels), _origin(info),
    ]  # fmt: skip


def _origin(info: RunInfo) -> Markup | None:
    if not info.parent_id:
        return None
    parent = link(info.parent_id, "/run", id=info.parent_id)
    return joined(parent, f" at {info.fork_point}")


def log_of(query: Query) -> str:
    """Which log is asked for. Raises InvalidRequestError."""
    log = query.text("log") or transcript.LOGS[0]
    if log not in transcript.LOGS:
        allowed = " or ".join(transcript.LOGS)
        raise InvalidRequestError(field="log", found="another word", allowed=allowed)
    return log


async def show(backend: Backend, query: Query) -> Page:
    """One run: what it is, and a page of its messages or events."""
    id, log, start = query.id(), log_of(query), query.number("start")
    info = (await backend.runs.get_run(run_id=id)).info
    if info is None:
        return absent("run", id)
    start = min(start, length_of(info, log))
    page = await page_of(backend.runs, id, log, start, ENTRIES)
    entries = (
        transcript.article(id, log, place, one) for place, one in enumerate(page.entries, start)
    )
    ways = stretch("/run", "start", start, ENTRIES, page.count, id=id, log=log)
    return Page(f"Run {id}", joined(_facts(info), _tabs(info, log), ways, *entries, ways))


def _facts(info: RunInfo) -> Markup:
    facts = {
        "created": moment(info.created_at),
        "updated": moment(info.updated_at),
        "labels": labels_of(info.labels) if info.labels else None,
        "forked from": _origin(info),
    }
    return fact_list(facts)


def _tabs(info: RunInfo, log: str) -> Markup:
    tabs: list[Markup] = []
    for name in transcript.LOGS:
        text = f"{length_of(info, name):,} {name}"
        here = element("b", text)
        tabs.append(here if name == log else link(text, "/run", id=info.id, log=name))
    tabs.append(link("family", "/family", id=info.id))
    return element("nav", *tabs, class_="tabs")


async def entry(backend: Backend, query: Query) -> Page:
    """One message or event; of its parts one is shown, in slices."""
    id, log, at, number = query.id(), log_of(query), query.number("at"), query.number("part")
    info = (await backend.runs.get_run(run_id=id)).info
    if info is None or at >= length_of(info, log):
        return absent(f"{log.removesuffix('s')} {at} in a run", id)
    (one, *_) = (await page_of(backend.runs, id, log, at, 1)).entries
    found = transcript.parts(one)
    title = f"{log.removesuffix('s').title()} {at} of {id}"
    start = at - at % ENTRIES
    back = element("p", link("the run there", "/run", id=id, log=log, start=start))
    if number == 0:
        return Page(title, joined(back, transcript.article(id, log, at, one)))
    if number > len(found):
        return absent(f"part {number} of {log.removesuffix('s')} {at} in the run", id)
    part, offset = found[number - 1], query.number("offset")
    ways = stretch(
        "/entry", "offset", offset, SLICE, len(part.text), id=id, log=log, at=at, part=number
    )
    text = element("pre", part.text[offset : offset + SLICE])
    return Page(title, joined(back, element("h2", part.name, class_="text"), ways, text, ways))
