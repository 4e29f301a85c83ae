"""Steps that tests of runs share: what to say, how to read a run back, how to walk a listing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from stores_core import AppendResponse, Backend, Event, Message, Run, RunInfo

Answer = TypeVar("Answer")
Item = TypeVar("Item")

SPOKEN = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC)
"""The timestamp of every message that `turn` makes, so that it comes back as it went in."""

MOST_PAGES = 10_000

WRITTEN = (True, True, False)
UNTOUCHED = (True, False, False)
CONFLICT = (True, False, True)
UNKNOWN = (False, False, False)


def said(answer: AppendResponse) -> tuple[bool, bool, bool]:
    """What became of a batch: found, applied, conflict."""
    return answer.found, answer.applied, answer.conflict


class StoppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2030, 1, 1, 12, 0, 0, 654321, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> datetime:
        """Move on, or back where ``seconds`` is negative; the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now


def turn(count: int, by: str = "m", first: int = 0) -> list[Message]:
    """``count`` messages that say who they are by, and their position from ``first`` on."""
    return [
        Message(role="user" if n % 2 == 0 else "assistant", text=f"{by} {n}", timestamp=SPOKEN)
        for n in range(first, first + count)
    ]


def deltas(count: int, by: str = "e", first: int = 0) -> list[Event]:
    """``count`` events that say who they are by, and their position from ``first`` on."""
    return [Event(kind="text-delta", text=f"{by} {n}") for n in range(first, first + count)]


async def start_run(
    lab: Lab,
    messages: Sequence[Message] = (),
    events: Sequence[Event] = (),
    labels: Mapping[str, str] | None = None,
    client: Backend | None = None,
) -> str:
    """A new run that holds these entries; its id."""
    runs = (client or lab.backend).runs
    run_id = lab.new_id("run")
    made = await runs.create_run(run_id=run_id, labels=labels or {})
    assert made.created, f"the new id {run_id!r} was taken"
    if messages or events:
        wrote = await runs.append_messages(run_id=run_id, messages=messages, events=events)
        assert wrote.applied, "the first append to a new run was not applied"
    return run_id


async def fork(lab: Lab, run_id: str, at_message: int = 0, client: Backend | None = None) -> str:
    """A new run forked from ``run_id``; its id."""
    new_id = lab.new_id("fork")
    made = await (client or lab.backend).runs.fork_run(
        run_id=run_id, new_run_id=new_id, at_message=at_message
    )
    assert (made.found, made.created) == (True, True), f"a fork to a new id answered {made!r}"
    return new_id


async def header(client: Backend, run_id: str) -> RunInfo:
    """The header of a run that must be there."""
    answer = await client.runs.get_run(run_id=run_id)
    assert answer.info is not None, f"run {run_id!r} is not there"
    assert answer.found
    return answer.info


async def load(client: Backend, run_id: str) -> Run:
    """The whole of a run that must be there."""
    answer = await client.runs.load_run(run_id=run_id)
    assert answer.run is not None, f"run {run_id!r} is not there"
    assert answer.found
    return answer.run


async def is_gone(client: Backend, run_id: str) -> bool:
    """Whether neither header nor entries of the run can be had."""
    got = await client.runs.get_run(run_id=run_id)
    loaded = await client.runs.load_run(run_id=run_id)
    read = await client.runs.read_messages(run_id=run_id)
    return not (got.found or loaded.found or read.found)


async def read_messages(
    client: Backend, run_id: str, page: int = 7, start: int = 0
) -> list[Message]:
    """All messages from ``start`` on, by pages; each page must add up."""
    entries: list[Message] = []
    for _ in range(MOST_PAGES):
        answer = await client.runs.read_messages(run_id=run_id, start=start, limit=page)
        assert answer.found, f"run {run_id!r} is not there"
        _check_page(len(answer.entries), start, page, answer.next, answer.count)
        entries += answer.entries
        start = answer.next
        if start == answer.count:
            return entries
    raise AssertionError("the pages of the message log never end")


async def read_events(client: Backend, run_id: str, page: int = 7, start: int = 0) -> list[Event]:
    """All events from ``start`` on, by pages; each page must add up."""
    entries: list[Event] = []
    for _ in range(MOST_PAGES):
        answer = await client.runs.read_events(run_id=run_id, start=start, limit=page)
        assert answer.found, f"run {run_id!r} is not there"
        _check_page(len(answer.entries), start, page, answer.next, answer.count)
        entries += answer.entries
        start = answer.next
        if start == answer.count:
            return entries
    raise AssertionError("the pages of the event log never end")


def _check_page(given: int, start: int, page: int, following: int, count: int) -> None:
    assert given == min(page, count - start), (
        f"a page of {page} from {start} of {count} entries gave {given}"
    )
    assert following == start + given, f"next is {following} after {given} entries from {start}"


async def assert_holds(
    client: Backend,
    run_id: str,
    messages: Sequence[Message],
    events: Sequence[Event] = (),
    page: int = 7,
) -> None:
    """The run holds exactly these entries, by header, by load and by pages."""
    info = await header(client, run_id)
    counts = (info.message_count, info.event_count)
    assert counts == (len(messages), len(events)), f"the header of {run_id!r} counts {counts}"
    run = await load(client, run_id)
    assert (run.message_count, run.event_count) == counts, "load and header count differently"
    assert_same(list(run.messages), list(messages), f"messages loaded of {run_id}")
    assert_same(list(run.events), list(events), f"events loaded of {run_id}")
    paged = await read_messages(client, run_id, page)
    assert_same(paged, list(messages), f"messages of {run_id} by pages of {page}")
    assert_same(
        await read_events(client, run_id, page), list(events), f"events of {run_id} by pages"
    )


async def walk(
    client: Backend,
    limit: int,
    *,
    labels: Mapping[str, str] | None = None,
    parent_id: str | None = None,
    updated_before: datetime | None = None,
) -> list[RunInfo]:
    """Every run of a listing, by following cursors."""
    found: list[RunInfo] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.runs.list_runs(
            limit=limit,
            cursor=cursor,
            labels=labels or {},
            parent_id=parent_id,
            updated_before=updated_before,
        )
        assert len(page.runs) <= limit, f"a page of {limit} gave {len(page.runs)} runs"
        found += page.runs
        cursor = page.next_cursor
        if not cursor:
            return found
    raise AssertionError("the cursors of the listing never end")


async def assert_labels(client: Backend, run_id: str, expected: Mapping[str, str]) -> None:
    """The run has exactly these labels, in any order."""
    found = (await header(client, run_id)).labels
    assert_same(dict(sorted(found.items())), dict(sorted(expected.items())), f"labels of {run_id}")


def ids(runs: Iterable[RunInfo]) -> list[str]:
    return [run.id for run in runs]


async def side_by_side(work: Iterable[Awaitable[Answer]], at_once: int = 32) -> list[Answer]:
    """The answers of many calls in order, never more than ``at_once`` of them under way."""
    gate = asyncio.Semaphore(at_once)

    async def one(call: Awaitable[Answer]) -> Answer:
        async with gate:
            return await call

    return await asyncio.gather(*(one(call) for call in work))


async def sweep_all(client: Backend, **budget: int) -> None:
    """Sweep until nothing is left to free, each time with this ``budget``, or the usual one."""
    for _ in range(1_000):
        if not (await client.admin.sweep(**budget)).more:
            return
    raise AssertionError("sweep says after 1,000 calls that there is more to free")


async def entries_read(lab: Lab, client: Backend) -> int:
    """Entries and headers that the client has looked at so far."""
    count = (await client.admin.measure()).entries_read
    if count is None:
        lab.not_applicable("the backend cannot tell how many entries it looks at")
    return count


async def bytes_held(lab: Lab, client: Backend) -> int:
    """Bytes that the data of the client's tenant takes."""
    count = (await client.admin.measure()).bytes
    if count is None:
        lab.not_applicable("the backend cannot tell how many bytes it holds")
    return count


def sides(lab: Lab, count: int) -> list[Backend]:
    """``count`` clients to act with, the two of the lab by turns."""
    return [(lab.backend, lab.reader)[n % 2] for n in range(count)]


async def by_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    """The items one by one; before each, other tasks get a turn, which a fast store never gives."""
    for item in items:
        await asyncio.sleep(0)
        yield item


async def until_done(work: Awaitable[Any], look: Callable[[], Awaitable[None]]) -> int:
    """Look again and again until the work is done, and once more; how often it looked."""
    task = asyncio.ensure_future(work)
    looks = 0
    while not task.done():
        await look()
        looks += 1
        await asyncio.sleep(0)
    await task
    await look()
    return looks + 1


def batches_of(messages: list[Message], size: int) -> list[str]:
    """The writers of a log's batches in order; each batch must be whole and in one piece."""
    assert len(messages) % size == 0, f"{len(messages)} messages are no whole batches of {size}"
    names: list[str] = []
    for first in range(0, len(messages), size):
        texts = [message.text or "" for message in messages[first : first + size]]
        name = texts[0].rpartition(" ")[0]
        assert texts == [f"{name} {n}" for n in range(size)], f"a batch is torn: {texts}"
        names.append(name)
    return names
