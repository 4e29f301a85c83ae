"""Appending: order, whole batches, counts, empty batches."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    SPOKEN,
    UNKNOWN,
    UNTOUCHED,
    WRITTEN,
    StoppedClock,
    assert_holds,
    deltas,
    header,
    is_gone,
    load,
    said,
    start_run,
    turn,
)
from stores_core import Event, InvalidRequestError, Message, Signal, ToolCall

# Order


@pytest.mark.parametrize("size", [1, 2, 7, 128, 1_000])
@proves("RUN-A1", needs=("runs",), look_at="how positions are given to the entries of a batch")
async def test_order_is_kept_inside_a_batch(lab: Lab, size: int) -> None:
    run_id = await start_run(lab)
    wrote = await lab.backend.runs.append_messages(run_id=run_id, messages=turn(size))
    assert said(wrote) == WRITTEN
    also = await lab.backend.runs.append_events(run_id=run_id, events=deltas(size))
    assert said(also) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(size), deltas(size), page=97)


@proves("RUN-A1", needs=("runs",), look_at="what reads are ordered by")
async def test_order_is_kept_between_batches(lab: Lab) -> None:
    run_id = await start_run(lab)
    count = 0
    for size in (1, 3, 1, 10, 2, 30, 1, 1, 5):
        batch, events = turn(size, first=count), deltas(size, first=count)
        await lab.backend.runs.append_messages(run_id=run_id, messages=batch, events=events)
        count += size
        await assert_holds(lab.reader, run_id, turn(count), deltas(count))
    await assert_holds(lab.reader, run_id, turn(count), deltas(count), page=1)


@pytest.mark.parametrize("seconds", [0, -3_600, 3_600], ids=["stops", "runs back", "runs on"])
@proves("RUN-A1", needs=("runs", "clock"), look_at="whether order comes from a clock")
async def test_order_owes_nothing_to_the_clock(lab: Lab, seconds: int) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    run_id = await start_run(lab, client=client)
    for n in range(12):
        await client.runs.append_messages(
            run_id=run_id,
            messages=[Message(role="user", text=f"{n} a"), Message(role="user", text=f"{n} b")],
            events=deltas(1, first=n),
        )
        clock.move(seconds)
    run = await load(client, run_id)
    assert [message.text for message in run.messages] == [
        f"{n} {x}" for n in range(12) for x in "ab"
    ]
    assert_same(list(run.events), deltas(12), "events")


@proves("RUN-A1", "RUN-A3", needs=("runs",), look_at="whether messages are sorted by timestamp")
async def test_order_owes_nothing_to_the_timestamps(lab: Lab) -> None:
    moments = [SPOKEN + timedelta(seconds=n) for n in (2, 0, 1, -1, 3, -2)]
    messages = [
        Message(role="user", text=str(n), timestamp=moment) for n, moment in enumerate(moments)
    ]
    run_id = await start_run(lab, messages[:4])
    await lab.backend.runs.append_messages(run_id=run_id, messages=messages[4:])
    await assert_holds(lab.reader, run_id, messages, page=2)


@proves("RUN-A1", "RUN-A4", needs=("runs",), look_at="whether entries are told apart by content")
async def test_equal_entries_are_all_kept(lab: Lab) -> None:
    run_id = await start_run(lab)
    ok, tick = turn(1, "ok"), deltas(1, "tick")
    for _ in range(3):
        wrote = await lab.backend.runs.append_messages(
            run_id=run_id, messages=ok + ok, events=tick + tick
        )
        assert said(wrote) == WRITTEN
    await assert_holds(lab.reader, run_id, ok * 6, tick * 6)


@proves("ALL-5", "RUN-A1", needs=("runs",), look_at="whether the caller's own objects are kept")
async def test_what_was_appended_is_no_longer_the_callers_to_change(lab: Lab) -> None:
    run_id = await start_run(lab)
    args: dict[str, Any] = {"path": ["a", "b"]}
    data: dict[str, Any] = {"deep": [1]}
    messages = [Message(role="assistant", tool_calls=[ToolCall(id="1", name="read", args=args)])]
    events = [Event(kind="signal", signal=Signal(kind="timer", data=data))]
    await lab.backend.runs.append_messages(run_id=run_id, messages=messages, events=events)
    before = await load(lab.reader, run_id)
    args["path"].append("c")
    args["more"] = True
    data["deep"].clear()
    messages.clear()
    events.clear()
    after = await load(lab.reader, run_id)
    assert_same(after, before, "the run after what was passed in had changed")
    assert_same(
        after.messages[0].tool_calls,
        [ToolCall(id="1", name="read", args={"path": ["a", "b"]})],
        "the call",
    )
    assert_same(after.events[0].signal, Signal(kind="timer", data={"deep": [1]}), "the signal")
    assert before.message_count == before.event_count == 1


# Unknown runs


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": turn(2)},
        {"messages": turn(1), "events": deltas(1)},
        {"messages": [], "events": deltas(1)},
        {"messages": []},
        {"messages": turn(2), "expected_count": 0},
        {"messages": turn(2), "expected_count": 7},
        {"messages": turn(2), "idempotency_key": "a key"},
    ],
    ids=["messages", "both", "events", "nothing", "expected 0", "expected 7", "key"],
)
@proves("RUN-A2", needs=("runs",), look_at="whether an append creates the run it wants")
async def test_an_append_to_an_unknown_run_brings_none_to_life(
    lab: Lab, fields: dict[str, Any]
) -> None:
    run_id = lab.new_id("run")
    answer = await lab.backend.runs.append_messages(run_id=run_id, **fields)
    assert said(answer) == UNKNOWN
    assert (answer.message_count, answer.event_count) == (0, 0)
    events = {**fields, "events": fields.get("events", deltas(2))}
    del events["messages"]
    assert said(await lab.backend.runs.append_events(run_id=run_id, **events)) == UNKNOWN
    assert await is_gone(lab.reader, run_id)
    assert (await lab.backend.runs.create_run(run_id=run_id)).created
    await assert_holds(lab.reader, run_id, [])


# Timestamps


@proves("RUN-A3", needs=("runs", "clock"), look_at="where messages are stamped")
async def test_a_message_without_a_timestamp_gets_the_clocks(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    run_id = await start_run(lab, client=client)
    times: list[datetime] = []
    for seconds in (0.000001, 59.5, -10):
        times += [clock.move(seconds)] * 2
        bare = [Message(role="user", text="a"), Message(role="tool", text="b")]
        await client.runs.append_messages(run_id=run_id, messages=bare)
    run = await load(client, run_id)
    assert [message.timestamp for message in run.messages] == times


@proves("RUN-A3", needs=("runs",), look_at="where messages are stamped")
async def test_a_stamp_is_aware_and_stays_the_same(lab: Lab) -> None:
    run_id = await start_run(lab)
    await lab.backend.runs.append_messages(run_id=run_id, messages=[Message(role="user")])
    first = (await load(lab.reader, run_id)).messages[0].timestamp
    assert first is not None, "the message was not stamped"
    assert first.utcoffset() == timedelta(0), "the stamp is not in UTC"
    assert (await load(lab.backend, run_id)).messages[0].timestamp == first


_times = {
    "microseconds": datetime(2024, 2, 29, 12, 30, 1, 999999, tzinfo=UTC),
    "no fraction": datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC),
    "before 1970": datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    "the far past": datetime(1, 1, 2, tzinfo=UTC),
    "the far future": datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC),
    "another zone": datetime(
        2024, 7, 1, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=5, minutes=45))
    ),
}


@pytest.mark.parametrize("moment", _times.values(), ids=_times)
@proves("RUN-A3", needs=("runs",), look_at="whether a timestamp that was given is kept")
async def test_a_given_timestamp_is_kept(lab: Lab, moment: datetime) -> None:
    run_id = await start_run(lab, [Message(role="user", timestamp=moment)])
    assert (await load(lab.reader, run_id)).messages[0].timestamp == moment


# Whole batches

_unfit: dict[str, dict[str, Any]] = {
    "NaN": {"extra": [1.0, float("nan")]},
    "infinity": {"extra": {"a": float("-inf")}},
    "lone surrogate": {"text": "ok \udb8d end"},
    "bytes": {"extra": b"\x89P"},
    "set": {"extra": {1, 2}},
    "integer keys": {"extra": {1: "int", "1": "str"}},
    "naive time": {"extra": datetime(2024, 1, 1)},  # noqa: DTZ001 - naive is what is refused
}


@pytest.mark.parametrize("place", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("bad", _unfit.values(), ids=_unfit)
@proves(
    "RUN-A4", "RUN-A10", needs=("runs",), look_at="whether a batch is checked before it is written"
)
async def test_a_batch_with_one_bad_entry_writes_nothing(
    lab: Lab, bad: dict[str, Any], place: int
) -> None:
    run_id = await start_run(lab, turn(2), deltas(1))
    good = {"role": "user", "text": "fine", "timestamp": turn(1)[0].timestamp}
    messages: Any = [dict(good) for _ in range(5)]
    messages[place] |= bad
    events: Any = [{"kind": "text-delta"} for _ in range(5)]
    events[place] |= bad
    batches: list[dict[str, Any]] = [
        {"messages": messages},
        {"messages": turn(5), "events": events},
        {"messages": messages, "idempotency_key": "a key"},
    ]
    for batch in batches:
        with pytest.raises(InvalidRequestError):
            await lab.backend.runs.append_messages(run_id=run_id, **batch)
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_events(run_id=run_id, events=events, idempotency_key="a key")
    await assert_holds(lab.reader, run_id, turn(2), deltas(1))
    wrote = await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(1, first=2), idempotency_key="a key"
    )
    assert said(wrote) == WRITTEN, "a refused batch has used its key up"
    assert wrote.message_count == 3


@proves("RUN-A4", needs=("runs",), look_at="where the size of a batch is checked")
async def test_a_batch_of_too_many_entries_writes_nothing(lab: Lab) -> None:
    run_id = await start_run(lab)
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_messages(run_id=run_id, messages=turn(1_001))
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_events(run_id=run_id, events=deltas(1_001))
    await assert_holds(lab.reader, run_id, [])


# Counts


@proves("RUN-A5", "RUN-A9", needs=("runs",), look_at="which counts an append answers with")
async def test_the_answer_counts_both_logs_after_the_append(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    messages = events = 0
    for more_messages, more_events in [(1, 0), (3, 2), (0, 4), (10, 0), (0, 0), (2, 7), (1, 1)]:
        messages, events = messages + more_messages, events + more_events
        answer = await runs.append_messages(
            run_id=run_id, messages=turn(more_messages), events=deltas(more_events)
        )
        assert (answer.message_count, answer.event_count) == (messages, events)
        events += more_events
        also = await runs.append_events(run_id=run_id, events=deltas(more_events))
        assert (also.message_count, also.event_count) == (messages, events)
        info = await header(lab.reader, run_id)
        assert (info.message_count, info.event_count) == (messages, events)


@proves(
    "ALL-6", "RUN-A5", needs=("runs",), look_at="whether a read answers from what was read before"
)
async def test_every_read_follows_every_append(lab: Lab) -> None:
    run_id = await start_run(lab)
    for n in range(3):
        await assert_holds(lab.reader, run_id, turn(n), deltas(2 * n))
        await lab.backend.runs.append_events(run_id=run_id, events=deltas(1, first=2 * n))
        await assert_holds(lab.reader, run_id, turn(n), deltas(2 * n + 1))
        await lab.reader.runs.append_messages(
            run_id=run_id, messages=turn(1, first=n), events=deltas(1, first=2 * n + 1)
        )
        await assert_holds(lab.backend, run_id, turn(n + 1), deltas(2 * n + 2))


# Empty batches


@pytest.mark.parametrize("length", [0, 3], ids=["an empty run", "a run with entries"])
@proves("RUN-A8", needs=("runs",), look_at="what an append does with no entries")
async def test_an_empty_batch_changes_nothing_and_still_counts(lab: Lab, length: int) -> None:
    run_id = await start_run(lab, turn(length), deltas(length * 2))
    before = await header(lab.reader, run_id)
    for expected in (None, length, length + 1):
        answer = await lab.backend.runs.append_messages(
            run_id=run_id,
            messages=[],
            events=[],
            expected_count=expected,
            expected_events=expected,
        )
        also = await lab.backend.runs.append_events(
            run_id=run_id, events=[], expected_count=expected, expected_messages=expected
        )
        for told in (answer, also):
            assert said(told) == UNTOUCHED
            assert (told.message_count, told.event_count) == (length, length * 2)
    assert_same(await header(lab.reader, run_id), before, "the header after empty batches")
    await assert_holds(lab.reader, run_id, turn(length), deltas(length * 2))


# Two logs, one commit


@proves("RUN-A9", needs=("runs",), look_at="whether the two logs share a counter or a key")
async def test_the_two_logs_go_their_own_ways(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    for n in range(6):
        await runs.append_events(run_id=run_id, events=deltas(n, first=sum(range(n))))
        await runs.append_messages(run_id=run_id, messages=turn(1, first=n))
    await assert_holds(lab.reader, run_id, turn(6), deltas(15))
    await assert_holds(lab.reader, run_id, turn(6), deltas(15), page=1)


@proves("RUN-A10", needs=("runs",), look_at="whether events given with messages are written at all")
async def test_events_given_with_messages_land_with_them(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    both = await runs.append_messages(run_id=run_id, messages=turn(2), events=deltas(3))
    assert said(both) == WRITTEN
    assert (both.message_count, both.event_count) == (2, 3)
    events_only = await runs.append_messages(
        run_id=run_id, messages=[], events=deltas(2, first=3), expected_count=2
    )
    assert said(events_only) == WRITTEN
    assert (events_only.message_count, events_only.event_count) == (2, 5)
    await assert_holds(lab.reader, run_id, turn(2), deltas(5))
