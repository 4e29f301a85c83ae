"""Idempotency keys: a batch that is sent again is written once."""

from typing import Any

import pytest

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    CONFLICT,
    UNKNOWN,
    UNTOUCHED,
    WRITTEN,
    StoppedClock,
    assert_holds,
    deltas,
    fork,
    header,
    said,
    start_run,
    turn,
)
from stores_core import InvalidRequestError, Message


@pytest.mark.parametrize(
    "batch",
    [
        {"messages": turn(3)},
        {"messages": turn(2), "events": deltas(4)},
        {"messages": [], "events": deltas(2)},
    ],
    ids=["messages", "both", "events"],
)
@proves("RUN-A7", "RUN-A5", needs=("runs",), look_at="what an append does with a key that it knows")
async def test_a_batch_sent_again_is_written_once(lab: Lab, batch: dict[str, Any]) -> None:
    run_id = await start_run(lab, turn(1), deltas(1))
    send: dict[str, Any] = {"run_id": run_id, "idempotency_key": lab.new_id("key"), **batch}
    first = await lab.backend.runs.append_messages(**send)
    before = await header(lab.reader, run_id)
    assert said(first) == WRITTEN
    for client in (lab.reader, lab.backend):
        again = await client.runs.append_messages(**send)
        assert said(again) == UNTOUCHED
        assert (again.message_count, again.event_count) == (
            first.message_count,
            first.event_count,
        )
    assert_same(await header(lab.reader, run_id), before, "the header after two duplicates")
    events = batch.get("events", [])
    await assert_holds(lab.reader, run_id, turn(1) + batch["messages"], deltas(1) + events)


@proves("RUN-A7", needs=("runs",), look_at="whether append_events looks at its key")
async def test_events_sent_again_are_written_once(lab: Lab) -> None:
    run_id = await start_run(lab, turn(2))
    for expected in (WRITTEN, UNTOUCHED, UNTOUCHED):
        answer = await lab.backend.runs.append_events(
            run_id=run_id, events=deltas(3), idempotency_key="a key"
        )
        assert said(answer) == expected
        assert (answer.message_count, answer.event_count) == (2, 3)
    await assert_holds(lab.reader, run_id, turn(2), deltas(3))


@proves("RUN-A7", needs=("runs",), look_at="which counts are stored with a key")
async def test_a_duplicate_answers_with_the_counts_of_the_first_time(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    send: dict[str, Any] = {"run_id": run_id, "messages": turn(2), "idempotency_key": "a key"}
    await runs.append_messages(**send)
    await runs.append_messages(run_id=run_id, messages=turn(5), events=deltas(6))
    again = await lab.reader.runs.append_messages(**send)
    assert said(again) == UNTOUCHED
    assert (again.message_count, again.event_count) == (2, 0), "the counts are those of now"


@pytest.mark.parametrize("expected", [None, 0, 2, 9])
@proves("RUN-A7", needs=("runs",), look_at="whether the key is looked up before expected_count")
async def test_a_duplicate_is_one_whatever_expected_count_says(
    lab: Lab, expected: int | None
) -> None:
    run_id = await start_run(lab)
    first = await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(2), expected_count=0, idempotency_key="a key"
    )
    assert said(first) == WRITTEN
    again = await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(2), expected_count=expected, idempotency_key="a key"
    )
    assert said(again) == UNTOUCHED
    await assert_holds(lab.reader, run_id, turn(2))


@proves("RUN-A7", needs=("runs", "clock"), look_at="whether the digest is taken before stamping")
async def test_a_batch_sent_again_later_is_the_same_batch(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    run_id = await start_run(lab, client=client)
    for expected in (WRITTEN, UNTOUCHED):
        answer = await client.runs.append_messages(
            run_id=run_id, messages=[Message(role="user", text="hi")], idempotency_key="a key"
        )
        assert said(answer) == expected
        clock.move(60)


_others: dict[str, dict[str, Any]] = {
    "other text": {"messages": turn(2, "other"), "events": deltas(2)},
    "one message more": {"messages": turn(3), "events": deltas(2)},
    "one message fewer": {"messages": turn(1), "events": deltas(2)},
    "other order": {"messages": turn(2)[::-1], "events": deltas(2)},
    "other events": {"messages": turn(2), "events": deltas(2, "other")},
    "no events": {"messages": turn(2)},
    "no messages": {"messages": [], "events": deltas(2)},
    "a further field": {
        "messages": [*turn(1), turn(2)[1].model_copy(update={"mood": "calm"})],
        "events": deltas(2),
    },
}


@pytest.mark.parametrize("other", _others.values(), ids=_others)
@proves("RUN-A7", needs=("runs",), look_at="whether the digest of the batch is stored with its key")
async def test_a_key_with_another_batch_is_refused(lab: Lab, other: dict[str, Any]) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    key = lab.new_id("key")
    send: dict[str, Any] = {
        "run_id": run_id,
        "messages": turn(2),
        "events": deltas(2),
        "idempotency_key": key,
    }
    await runs.append_messages(**send)
    with pytest.raises(InvalidRequestError):
        await runs.append_messages(run_id=run_id, idempotency_key=key, **other)
    with pytest.raises(InvalidRequestError):
        await runs.append_events(run_id=run_id, events=deltas(3, "x"), idempotency_key=key)
    assert said(await runs.append_messages(**send)) == UNTOUCHED, "the refusal cost the key"
    await assert_holds(lab.reader, run_id, turn(2), deltas(2))


@proves("RUN-A7", needs=("runs",), look_at="whether the two operations keep their keys apart")
async def test_the_two_operations_share_one_space_of_keys(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    await runs.append_events(run_id=run_id, events=deltas(1), idempotency_key="a key")
    with pytest.raises(InvalidRequestError):
        await runs.append_messages(run_id=run_id, messages=turn(1), idempotency_key="a key")
    await runs.append_messages(run_id=run_id, messages=turn(1), idempotency_key="b key")
    with pytest.raises(InvalidRequestError):
        await runs.append_events(run_id=run_id, events=deltas(1), idempotency_key="b key")
    await assert_holds(lab.reader, run_id, turn(1), deltas(1))


@proves("RUN-A7", needs=("runs",), look_at="whether keys are kept per run")
async def test_another_run_knows_nothing_of_a_key(lab: Lab) -> None:
    for n in range(3):
        run_id = await start_run(lab)
        same = await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(2), idempotency_key="same batch"
        )
        other = await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(n + 1), idempotency_key="other batch"
        )
        assert (said(same), said(other)) == (WRITTEN, WRITTEN)
        await assert_holds(lab.reader, run_id, turn(2) + turn(n + 1))


@pytest.mark.parametrize("at_message", [0, 1, 2], ids=["all", "before the batch", "with the batch"])
@proves("RUN-A7", "RUN-F6", needs=("runs",), look_at="whether a fork copies the source's keys")
async def test_a_fork_starts_without_the_keys_of_its_source(lab: Lab, at_message: int) -> None:
    source = await start_run(lab, turn(1))
    send: dict[str, Any] = {"messages": turn(1, first=1), "idempotency_key": "a key"}
    await lab.backend.runs.append_messages(run_id=source, **send)
    run_id = await fork(lab, source, at_message)
    length = (await header(lab.reader, run_id)).message_count
    answer = await lab.backend.runs.append_messages(run_id=run_id, **send)
    assert said(answer) == WRITTEN, "the fork knows a key of its source"
    assert answer.message_count == length + 1
    assert said(await lab.backend.runs.append_messages(run_id=source, **send)) == UNTOUCHED
    assert said(await lab.backend.runs.append_messages(run_id=run_id, **send)) == UNTOUCHED
    await assert_holds(lab.reader, source, turn(2))


@proves("RUN-A7", needs=("runs",), look_at="whether a conflict is remembered under its key")
async def test_a_conflict_uses_no_key_up(lab: Lab) -> None:
    run_id = await start_run(lab, turn(1))
    runs = lab.backend.runs
    send: dict[str, Any] = {"run_id": run_id, "messages": turn(2), "idempotency_key": "a key"}
    assert said(await runs.append_messages(**send, expected_count=0)) == CONFLICT
    assert said(await runs.append_messages(**send, expected_count=1)) == WRITTEN
    assert said(await runs.append_messages(**send, expected_count=0)) == UNTOUCHED
    await assert_holds(lab.reader, run_id, turn(1) + turn(2))
    other = await start_run(lab, turn(1))
    await runs.append_messages(
        run_id=other, messages=turn(1), expected_count=9, idempotency_key="a key"
    )
    changed = await runs.append_messages(
        run_id=other, messages=turn(3), expected_count=1, idempotency_key="a key"
    )
    assert said(changed) == WRITTEN, "a conflict binds its key to its batch"


@proves("RUN-A7", needs=("runs",), look_at="whether a key outlives an append to an unknown run")
async def test_an_unknown_run_uses_no_key_up(lab: Lab) -> None:
    run_id = lab.new_id("run")
    runs = lab.backend.runs
    send: dict[str, Any] = {"run_id": run_id, "messages": turn(2), "idempotency_key": "a key"}
    assert said(await runs.append_messages(**send)) == UNKNOWN
    await runs.create_run(run_id=run_id)
    assert said(await runs.append_messages(**send)) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(2))


@proves("RUN-A7", "RUN-A8", needs=("runs",), look_at="whether an empty batch is remembered")
async def test_an_empty_batch_uses_no_key_up(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    empty = await runs.append_messages(run_id=run_id, messages=[], idempotency_key="a key")
    also = await runs.append_events(run_id=run_id, events=[], idempotency_key="a key")
    assert (said(empty), said(also)) == (UNTOUCHED, UNTOUCHED)
    wrote = await runs.append_messages(run_id=run_id, messages=turn(2), idempotency_key="a key")
    assert said(wrote) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(2))


@proves(
    "RUN-A7",
    needs=("runs",),
    thorough=True,
    look_at="how many keys of a run are kept, and which go first",
)
async def test_the_latest_128_keyed_batches_are_remembered(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    total = 150

    def batch(n: int) -> dict[str, Any]:
        return {"run_id": run_id, "idempotency_key": f"key {n}"}

    for n in range(total):
        if n % 2:
            await runs.append_messages(**batch(n), messages=turn(1, first=n))
        else:
            await runs.append_events(**batch(n), events=deltas(1, first=n))
    for n in range(total - 128, total):
        if n % 2:
            again = await runs.append_messages(**batch(n), messages=turn(1, first=n))
        else:
            again = await runs.append_events(**batch(n), events=deltas(1, first=n))
        assert said(again) == UNTOUCHED, f"key {n} of {total} is forgotten"
        assert again.message_count == (n + 1) // 2
        assert again.event_count == n // 2 + 1
    info = await header(lab.reader, run_id)
    assert (info.message_count, info.event_count) == (total // 2, total // 2)


@proves("RUN-A7", needs=("runs",), look_at="what makes a run forget a key")
async def test_a_key_outlives_all_that_is_no_keyed_batch(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    send: dict[str, Any] = {"run_id": run_id, "messages": turn(1), "idempotency_key": "a key"}
    await runs.append_messages(**send)
    for n in range(130):
        await runs.append_messages(run_id=run_id, messages=turn(1, first=n + 1))
        conflict = await runs.append_messages(
            run_id=run_id, messages=turn(1), expected_count=0, idempotency_key=f"conflict {n}"
        )
        assert said(conflict) == CONFLICT
    await runs.append_messages(run_id=run_id, messages=[], idempotency_key="empty")
    await runs.update_run(run_id=run_id, labels={"a": "b"})
    await fork(lab, run_id)
    again = await lab.reader.runs.append_messages(**send)
    assert said(again) == UNTOUCHED
    assert again.message_count == 1
    await assert_holds(lab.reader, run_id, turn(131), page=50)


@pytest.mark.parametrize("sample", samples.ids, ids=samples.name_of)
@proves("RUN-A7", needs=("runs",), look_at="how keys are compared")
async def test_any_id_will_do_as_a_key_and_is_compared_exactly(
    lab: Lab, sample: samples.Sample
) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    keys = ["k", "K", "k ", " k", "k\n", sample.value]
    keys = list(dict.fromkeys(keys))
    for n, key in enumerate(keys):
        wrote = await runs.append_messages(
            run_id=run_id, messages=turn(1, first=n), idempotency_key=key
        )
        assert said(wrote) == WRITTEN, f"key {n} was taken for another one"
    for n, key in enumerate(keys):
        again = await runs.append_messages(
            run_id=run_id, messages=turn(1, first=n), idempotency_key=key
        )
        assert said(again) == UNTOUCHED
        assert again.message_count == n + 1
    await assert_holds(lab.reader, run_id, turn(len(keys)))


@proves("RUN-A7", "RUN-A1", needs=("runs",), look_at="whether batches are told apart by content")
async def test_one_batch_under_two_keys_or_none_is_two_batches(lab: Lab) -> None:
    run_id = await start_run(lab)
    for key in ("one", "two", "", ""):
        wrote = await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(1), events=deltas(1), idempotency_key=key
        )
        assert said(wrote) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(1) * 4, deltas(1) * 4)
