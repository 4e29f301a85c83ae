"""What stands in a store of a session: compared entry by entry."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

from stores_cli.importing.sessions import STATE, Session
from stores_core import Backend, Event, Message, RunInfo
from stores_core.codec import canonical
from stores_core.limits import PAGE_ENTRIES
from stores_core.shape import replaced


@dataclass(frozen=True)
class Standing:
    """What stands in the store: ``told`` of the session's events, and the latest ``state``.

    Where ``why`` says something, run and session are not alike: they part at message
    ``parts_at``, or at 0 such that no fork can hold both.
    """

    told: int = 0
    state: Event | None = None
    parts_at: int = 0
    why: str = ""


def equal(one: Event, two: Event) -> bool:
    """Whether two events are equal in type and text."""
    return canonical(one) == canonical(two)


@dataclass(frozen=True)
class Told:
    """The events of a run beside those of a session: how many there are but states, how many
    first ones are the session's, and the latest state."""

    count: int = 0
    equal: int = 0
    state: Event | None = None


async def told_of(backend: Backend, info: RunInfo, events: Iterable[Event]) -> Told:
    """The events that the run had when ``info`` was taken, beside ``events`` of a session."""
    told, ours = Told(), iter(events)
    async for event in _events_of(backend, info):
        if event.kind == STATE:
            told = replace(told, state=event)
            continue
        mine = next(ours, None)
        goes_on = told.equal == told.count and mine is not None and equal(mine, event)
        told = replace(told, count=told.count + 1, equal=told.equal + goes_on)
    return told


async def look(backend: Backend, session: Session, info: RunInfo, known: int = 0) -> Standing:
    """What the run holds of the session, and where they part if they do.

    The first ``known`` messages are equal for sure, so they are not read.
    """
    messages, events = len(session.messages), len(session.events)
    both = min(info.message_count, messages)
    at = await first_difference(backend, info.id, session.messages, known, both)
    if at is not None:
        return Standing(parts_at=at, why=f"message {at} is another one")
    told = await told_of(backend, info, session.events)
    if told.equal < min(told.count, events):
        return Standing(why="its events are others")
    ahead = info.message_count > messages or told.count > events
    if ahead and (info.message_count < messages or told.count < events):
        return Standing(why="it went on both in the store and in the session")
    return Standing(told.count, told.state)


async def _events_of(backend: Backend, info: RunInfo) -> AsyncIterator[Event]:
    """The events that the run had when ``info`` was taken."""
    start = 0
    while start < info.event_count:
        page = await backend.runs.read_events(run_id=info.id, start=start, limit=PAGE_ENTRIES)
        for event in page.entries[: info.event_count - start]:
            yield event
        if not page.entries:
            return
        start = page.next


async def first_difference(
    backend: Backend, run_id: str, messages: Sequence[Message], start: int, end: int
) -> int | None:
    """The first position from ``start`` to ``end`` at which the run holds another message."""
    while start < end:
        limit = min(end - start, PAGE_ENTRIES)
        page = await backend.runs.read_messages(run_id=run_id, start=start, limit=limit)
        pairs = zip(page.entries, messages[start : start + limit], strict=False)
        for at, (stored, wanted) in enumerate(pairs, start):
            if not _same(stored, wanted):
                return at
        if not page.entries:
            return start
        start = page.next
    return None


def _same(stored: Message, wanted: Message) -> bool:
    if wanted.timestamp is None:  # the store stamped it
        stored, wanted = _unstamped(stored), _unstamped(wanted)
    return canonical(stored) == canonical(wanted)


def _unstamped(message: Message) -> Message:
    copy = replaced(message, {})
    copy.model_fields_set.discard("timestamp")
    return copy
