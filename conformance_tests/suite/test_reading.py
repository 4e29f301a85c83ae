"""Loading a run and reading its logs by pages."""

from contextlib import suppress
from typing import Any, cast

import pytest

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    assert_holds,
    deltas,
    entries_read,
    fork,
    header,
    load,
    read_events,
    read_messages,
    start_run,
    turn,
)
from stores_core import InvalidRequestError, Message, Run, ToolCall

# Loading


@proves("RUN-L1", needs=("runs",), look_at="what load_run puts together")
async def test_a_load_is_the_header_with_all_entries(lab: Lab) -> None:
    run_id = await start_run(lab, turn(12), deltas(31), labels={"a": "b"})
    run = await load(lab.reader, run_id)
    info = await header(lab.reader, run_id)
    fields = {name: getattr(run, name) for name in type(info).model_fields}
    assert_same(fields, info.__dict__, "the header within a load")
    assert_same(list(run.messages), turn(12), "messages")
    assert_same(list(run.events), deltas(31), "events")


@proves("RUN-L1", needs=("runs",), look_at="what load_run gives for a run without entries")
async def test_an_empty_run_loads_empty(lab: Lab) -> None:
    run_id = await start_run(lab)
    for last in (None, 0, 5):
        answer = await lab.reader.runs.load_run(run_id=run_id, last_messages=last, last_events=last)
        assert answer.found
        assert answer.run is not None
        assert (answer.run.message_count, answer.run.event_count) == (0, 0)
        assert (len(answer.run.messages), len(answer.run.events)) == (0, 0)


@pytest.mark.parametrize("last", [0, 1, 2, 7, 19, 20, 21, 1_000, 2**53])
@proves("RUN-L2", needs=("runs",), look_at="how load_run finds the newest entries")
async def test_the_newest_entries_come_in_order(lab: Lab, last: int) -> None:
    run_id = await start_run(lab, turn(20), deltas(33))
    both = await lab.reader.runs.load_run(run_id=run_id, last_messages=last, last_events=last)
    _assert_newest(both.run, turn(20)[max(0, 20 - last) :], deltas(33)[max(0, 33 - last) :])
    messages = await lab.reader.runs.load_run(run_id=run_id, last_messages=last)
    _assert_newest(messages.run, turn(20)[max(0, 20 - last) :], [])
    events = await lab.reader.runs.load_run(run_id=run_id, last_events=last)
    _assert_newest(events.run, turn(20), deltas(33)[max(0, 33 - last) :])


def _assert_newest(run: Run | None, messages: Any, events: Any) -> None:
    assert run is not None
    assert (run.message_count, run.event_count) == (20, 33), "the counts are not the true ones"
    assert_same(list(run.messages), messages, "the newest messages")
    assert_same(list(run.events), events, "the newest events")


@pytest.mark.parametrize("last", range(1, 13))
@proves(
    "RUN-L2", "RUN-F11", needs=("runs",), look_at="how the newest entries cross ranges of a log"
)
async def test_the_newest_entries_of_a_fork_reach_into_its_past(lab: Lab, last: int) -> None:
    root = await start_run(lab, turn(6), deltas(6))
    child = await fork(lab, root)
    await lab.backend.runs.append_messages(
        run_id=child, messages=turn(3, first=6), events=deltas(3, first=6)
    )
    leaf = await fork(lab, child)
    await lab.backend.runs.append_messages(
        run_id=leaf, messages=turn(2, first=9), events=deltas(2, first=9)
    )
    answer = await lab.reader.runs.load_run(run_id=leaf, last_messages=last, last_events=last)
    assert answer.run is not None
    assert_same(list(answer.run.messages), turn(11)[-last:], "the newest messages")
    assert_same(list(answer.run.events), deltas(11)[-last:], "the newest events")


@proves(
    "RUN-L2",
    needs=("runs", "admin"),
    thorough=True,
    look_at="whether a load of the newest reads from the start",
)
async def test_a_load_of_the_newest_costs_the_newest(lab: Lab) -> None:
    run_id = await start_run(lab)
    for first in range(0, 3_000, 500):
        await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(500, first=first), events=deltas(500, first=first)
        )
    before = await entries_read(lab, lab.backend)
    await lab.backend.runs.load_run(run_id=run_id, last_messages=5, last_events=5)
    cost = await entries_read(lab, lab.backend) - before
    assert cost <= 200, f"5 of 3,000 messages and events were had by looking at {cost} entries"


@pytest.mark.parametrize("sample", samples.unfit_limits, ids=samples.name_of)
@proves("RUN-L2", "ALL-11", needs=("runs",), look_at="what the request accepts as a count")
async def test_a_number_of_newest_that_is_no_count_is_refused(
    lab: Lab, sample: samples.Sample
) -> None:
    run_id = await start_run(lab, turn(3))
    for field in ("last_messages", "last_events"):
        unfit: Any = {field: sample.value}
        with pytest.raises(InvalidRequestError):
            await lab.backend.runs.load_run(run_id=run_id, **unfit)


# Pages


@pytest.mark.parametrize("page", [1, 2, 7, 20, 33, 100, 1_000])
@proves("RUN-L3", needs=("runs",), look_at="how start and limit become a range of positions")
async def test_pages_of_any_size_give_every_entry_once(lab: Lab, page: int) -> None:
    run_id = await start_run(lab, turn(20), deltas(33))
    assert_same(await read_messages(lab.reader, run_id, page), turn(20), f"pages of {page}")
    assert_same(await read_events(lab.reader, run_id, page), deltas(33), f"pages of {page}")


@pytest.mark.parametrize("start", [0, 1, 6, 7, 19, 20])
@proves("RUN-L3", needs=("runs",), look_at="what start counts")
async def test_start_is_the_number_of_entries_already_seen(lab: Lab, start: int) -> None:
    run_id = await start_run(lab, turn(20), deltas(20))
    for page in (1, 7, 1_000):
        messages = await read_messages(lab.reader, run_id, page, start)
        assert_same(messages, turn(20)[start:], f"messages from {start}")
        events = await read_events(lab.reader, run_id, page, start)
        assert_same(events, deltas(20)[start:], f"events from {start}")
    first = await lab.reader.runs.read_messages(run_id=run_id, start=start, limit=3)
    assert (first.next, first.count) == (min(20, start + 3), 20)


@proves(
    "RUN-L3",
    needs=("runs",),
    thorough=True,
    look_at="what limit 0 means, and the most that a page gives",
)
async def test_a_page_is_100_entries_unless_asked_and_1_000_at_most(lab: Lab) -> None:
    run_id = await start_run(lab, turn(1_000), [])
    runs = lab.backend.runs
    await runs.append_messages(run_id=run_id, messages=turn(50, first=1_000))
    await runs.append_events(run_id=run_id, events=deltas(1_000))
    await runs.append_events(run_id=run_id, events=deltas(50, first=1_000))
    for limit, most in [(0, 100), (1_000, 1_000), (1_001, 1_000), (2**31, 1_000), (2**63, 1_000)]:
        messages = await lab.reader.runs.read_messages(run_id=run_id, limit=limit)
        events = await lab.reader.runs.read_events(run_id=run_id, limit=limit)
        assert (len(messages.entries), messages.next, messages.count) == (most, most, 1_050)
        assert (len(events.entries), events.next, events.count) == (most, most, 1_050)


@proves("RUN-L3", needs=("runs",), look_at="how read_messages answers at the end of the log")
async def test_at_the_end_there_is_nothing_more_yet(lab: Lab) -> None:
    for length in (0, 5):
        run_id = await start_run(lab, turn(length), deltas(length))
        messages = await lab.reader.runs.read_messages(run_id=run_id, start=length)
        events = await lab.reader.runs.read_events(run_id=run_id, start=length)
        assert messages.found
        assert events.found
        assert (len(messages.entries), messages.next, messages.count) == (0, length, length)
        assert (len(events.entries), events.next, events.count) == (0, length, length)


@pytest.mark.parametrize("beyond", [1, 2, 2**31, 2**53, 2**63, 10**30])
@proves("RUN-L3", needs=("runs",), look_at="where start is compared with the length of the log")
async def test_a_start_beyond_the_end_is_refused(lab: Lab, beyond: int) -> None:
    for length in (0, 5):
        run_id = await start_run(lab, turn(length), deltas(length + 2))
        with pytest.raises(InvalidRequestError) as refused:
            await lab.reader.runs.read_messages(run_id=run_id, start=length + beyond)
        assert refused.value.field == "start", "it is the start that is refused"
        with pytest.raises(InvalidRequestError) as refused:
            await lab.reader.runs.read_events(run_id=run_id, start=length + 2 + beyond)
        assert refused.value.field == "start", "it is the start that is refused"


@proves("RUN-L3", "RUN-D3", needs=("runs",), look_at="whether a re-created run has its own length")
async def test_a_tail_of_the_run_before_is_refused_by_the_next_one(lab: Lab) -> None:
    run_id = await start_run(lab, turn(5))
    seen = (await lab.reader.runs.read_messages(run_id=run_id)).next
    await lab.backend.runs.delete_run(run_id=run_id)
    await lab.backend.runs.create_run(run_id=run_id)
    await lab.backend.runs.append_messages(run_id=run_id, messages=turn(2, "new"))
    with pytest.raises(InvalidRequestError):
        await lab.reader.runs.read_messages(run_id=run_id, start=seen)


@proves(
    "RUN-L3", "ALL-6", needs=("runs",), look_at="what next counts, and when an append is visible"
)
async def test_a_reader_that_comes_back_gets_just_what_it_missed(lab: Lab) -> None:
    run_id = await start_run(lab)
    seen_messages = seen_events = 0
    for size in (1, 4, 0, 2, 9):
        await lab.backend.runs.append_messages(
            run_id=run_id,
            messages=turn(size, first=seen_messages),
            events=deltas(size + 1, first=seen_events),
        )
        missed = await lab.reader.runs.read_messages(run_id=run_id, start=seen_messages)
        assert_same(list(missed.entries), turn(size, first=seen_messages), "the messages missed")
        missed_events = await lab.reader.runs.read_events(run_id=run_id, start=seen_events)
        expected = deltas(size + 1, first=seen_events)
        assert_same(list(missed_events.entries), expected, "the events missed")
        seen_messages, seen_events = missed.next, missed_events.next


@pytest.mark.parametrize("sample", samples.unfit_limits, ids=samples.name_of)
@proves("RUN-L3", "ALL-11", needs=("runs",), look_at="what the request accepts as start and limit")
async def test_a_start_or_limit_that_is_no_count_is_refused(
    lab: Lab, sample: samples.Sample
) -> None:
    run_id = await start_run(lab, turn(3), deltas(3))
    for field in ("start", "limit"):
        unfit: Any = {field: sample.value}
        with pytest.raises(InvalidRequestError):
            await lab.backend.runs.read_messages(run_id=run_id, **unfit)
        with pytest.raises(InvalidRequestError):
            await lab.backend.runs.read_events(run_id=run_id, **unfit)


# Ownership


@proves(
    "ALL-5", "RUN-L1", needs=("runs",), look_at="whether reads give out the store's own objects"
)
async def test_what_was_read_is_the_callers_to_change(lab: Lab) -> None:
    args = {"path": ["a", "b"], "deep": {"n": 1}}
    message = Message(role="assistant", tool_calls=[ToolCall(id="1", name="f", args=args)])
    run_id = await start_run(lab, [message], labels={"a": "b"})
    before = (await load(lab.reader, run_id)).model_copy(deep=True)
    loaded = await load(lab.reader, run_id)
    page = await lab.reader.runs.read_messages(run_id=run_id)
    listed = await lab.reader.runs.get_run(run_id=run_id)
    for entry in (loaded.messages[0], page.entries[0]):
        assert entry.tool_calls
        entry.tool_calls[0].args["path"].append("c")
        entry.tool_calls[0].args["deep"].clear()
    assert listed.info is not None
    for changed in cast("list[Any]", [loaded.labels, listed.info.labels]):
        with suppress(TypeError):  # a mapping that cannot be changed is as good
            changed["c"] = "d"
    after = await load(lab.reader, run_id)
    assert_same(after, before, "the run after what was read had changed")
    child = await fork(lab, run_id)
    assert_same(dict((await header(lab.reader, child)).labels), {"a": "b"}, "labels of a fork")
    await assert_holds(lab.reader, child, list(before.messages))
