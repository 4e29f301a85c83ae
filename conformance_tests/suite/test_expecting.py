"""Writes that expect the length of a log, or of both: appends, and deletes."""

import pytest

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    CONFLICT,
    UNTOUCHED,
    WRITTEN,
    assert_holds,
    deltas,
    fork,
    header,
    is_gone,
    said,
    side_by_side,
    sides,
    start_run,
    turn,
)
from stores_core import AppendResponse, Backend, Event, InvalidRequestError, Message

DUPLICATE = UNTOUCHED
LENGTHS = [(None, None), (3, None), (None, 5), (3, 5), (3, 4), (2, 5), (2, 4), (None, 6), (0, 0)]

# The log that the operation is for


@proves("RUN-A6", needs=("runs",), look_at="which log expected_count is compared with")
async def test_expected_count_speaks_of_the_log_that_the_operation_is_for(lab: Lab) -> None:
    run_id = await start_run(lab, turn(3), deltas(5))
    runs = lab.backend.runs
    wrote = await runs.append_messages(
        run_id=run_id, messages=turn(1, first=3), events=deltas(1, first=5), expected_count=3
    )
    assert said(wrote) == WRITTEN
    also = await runs.append_events(run_id=run_id, events=deltas(1, first=6), expected_count=6)
    assert said(also) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(4), deltas(7))


@pytest.mark.parametrize("expected", [0, 1, 2, 4, 5, 2**31, 2**53 + 1])
@proves("RUN-A6", needs=("runs",), look_at="where expected_count is compared with the length")
async def test_another_length_than_expected_is_a_conflict(lab: Lab, expected: int) -> None:
    run_id = await start_run(lab, turn(3), deltas(5))
    before = await header(lab.reader, run_id)
    answer = await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(2), events=deltas(2), expected_count=expected
    )
    assert said(answer) == CONFLICT
    assert (answer.message_count, answer.event_count) == (3, 5), "the counts are not those found"
    also = await lab.backend.runs.append_events(
        run_id=run_id, events=deltas(1), expected_count=expected if expected != 5 else 3
    )
    assert said(also) == CONFLICT
    assert (also.message_count, also.event_count) == (3, 5), "the counts are not those found"
    assert_same(await header(lab.reader, run_id), before, "the header after two conflicts")
    await assert_holds(lab.reader, run_id, turn(3), deltas(5))


@proves("RUN-A6", needs=("runs",), look_at="whether expected_count 0 is taken for none")
async def test_an_expected_count_of_zero_means_an_empty_log(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    first = await runs.append_messages(run_id=run_id, messages=turn(1), expected_count=0)
    second = await runs.append_messages(run_id=run_id, messages=turn(1), expected_count=0)
    assert (said(first), said(second)) == (WRITTEN, CONFLICT)
    first_events = await runs.append_events(run_id=run_id, events=deltas(1), expected_count=0)
    second_events = await runs.append_events(run_id=run_id, events=deltas(1), expected_count=0)
    assert (said(first_events), said(second_events)) == (WRITTEN, CONFLICT)
    await assert_holds(lab.reader, run_id, turn(1), deltas(1))


@proves("RUN-A6", needs=("runs",), look_at="whether a fork counts what it took over")
async def test_a_fork_expects_the_length_that_it_has_now(lab: Lab) -> None:
    run_id = await fork(lab, await start_run(lab, turn(9), deltas(4)), 5)
    runs = lab.backend.runs
    for wrong in (0, 4, 9):
        answer = await runs.append_messages(run_id=run_id, messages=turn(1), expected_count=wrong)
        assert said(answer) == CONFLICT
        assert answer.message_count == 5
    right = await runs.append_messages(run_id=run_id, messages=turn(1, first=5), expected_count=5)
    assert said(right) == WRITTEN
    events = await runs.append_events(run_id=run_id, events=deltas(1), expected_count=0)
    assert said(events) == WRITTEN
    await assert_holds(lab.reader, run_id, turn(6), deltas(1))


@pytest.mark.parametrize("sample", samples.unfit_limits, ids=samples.name_of)
@proves("RUN-A6", needs=("runs",), look_at="what the request accepts as expected_count")
async def test_an_expected_count_that_is_no_count_is_refused(
    lab: Lab, sample: samples.Sample
) -> None:
    run_id = await start_run(lab, turn(1), deltas(1))
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(1), expected_count=sample.value
        )
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_events(
            run_id=run_id, events=deltas(1), expected_count=sample.value
        )
    await assert_holds(lab.reader, run_id, turn(1), deltas(1))


# Both logs


@pytest.mark.parametrize(("messages", "events"), LENGTHS)
@proves("RUN-A11", needs=("runs",), look_at="which log each expected length is compared with")
async def test_a_batch_is_written_where_every_length_given_is_the_one_found(
    lab: Lab, messages: int | None, events: int | None
) -> None:
    fits = messages in (None, 3) and events in (None, 5)
    first, second = (
        await start_run(lab, turn(3), deltas(5)),
        await start_run(lab, turn(3), deltas(5)),
    )
    runs = lab.backend.runs
    answer: AppendResponse = await runs.append_messages(
        run_id=first,
        messages=turn(2, first=3),
        events=deltas(1, first=5),
        expected_count=messages,
        expected_events=events,
    )
    assert said(answer) == (WRITTEN if fits else CONFLICT)
    assert (answer.message_count, answer.event_count) == ((5, 6) if fits else (3, 5))
    await assert_holds(lab.reader, first, turn(5 if fits else 3), deltas(6 if fits else 5))
    answer = await runs.append_events(
        run_id=second,
        events=deltas(2, first=5),
        expected_count=events,
        expected_messages=messages,
    )
    assert said(answer) == (WRITTEN if fits else CONFLICT)
    assert (answer.message_count, answer.event_count) == (3, 7 if fits else 5)
    await assert_holds(lab.reader, second, turn(3), deltas(7 if fits else 5))


@proves("RUN-A11", "RUN-A7", needs=("runs",), look_at="whether keys are looked up first")
async def test_a_known_key_is_a_duplicate_whatever_other_length_is_expected(lab: Lab) -> None:
    run_id, runs = await start_run(lab, turn(1), deltas(1)), lab.backend.runs
    first = await runs.append_messages(
        run_id=run_id, messages=turn(1, first=1), expected_events=1, idempotency_key="k"
    )
    await runs.append_events(run_id=run_id, events=deltas(1, first=1))
    again = await runs.append_messages(
        run_id=run_id, messages=turn(1, first=1), expected_events=9, idempotency_key="k"
    )
    assert (said(first), said(again)) == (WRITTEN, DUPLICATE)
    assert (again.message_count, again.event_count) == (2, 1)
    await assert_holds(lab.reader, run_id, turn(2), deltas(2))


@proves("RUN-A11", "RUN-A7", needs=("runs",), look_at="whether a conflict uses the key up")
async def test_a_conflict_over_the_other_log_leaves_its_key_unused(lab: Lab) -> None:
    run_id, runs = await start_run(lab), lab.backend.runs
    for expected, outcome in ((4, CONFLICT), (0, WRITTEN)):
        answer = await runs.append_events(
            run_id=run_id, events=deltas(1), expected_messages=expected, idempotency_key="k"
        )
        assert said(answer) == outcome


@proves("RUN-A11", needs=("runs",), look_at="whether both lengths are compared in one atomic step")
async def test_of_writers_that_saw_one_state_one_gets_through(lab: Lab) -> None:
    for round_ in range(3 if lab.quick else 9):
        run_id = await start_run(lab, turn(2), deltas(2))

        def written(number: int, round_: int = round_) -> tuple[list[Message], list[Event]]:
            """One writes events, the next messages, the third both; each kind is first at times."""
            by, kind = f"w{number}", (number + round_) % 3
            return ([], turn(1, by))[kind > 0], ([], deltas(1, by))[kind != 1]

        async def write(client: Backend, number: int, run_id: str = run_id) -> AppendResponse:
            messages, events = written(number)
            if not messages:
                return await client.runs.append_events(
                    run_id=run_id, events=events, expected_count=2, expected_messages=2
                )
            return await client.runs.append_messages(
                run_id=run_id, messages=messages, events=events, expected_count=2, expected_events=2
            )

        clients = sides(lab, 20)
        answers = await side_by_side(write(client, n) for n, client in enumerate(clients))
        winners = [number for number, answer in enumerate(answers) if answer.applied]
        assert len(winners) == 1
        assert all(said(answer) == CONFLICT for answer in answers if not answer.applied)
        messages, events = written(winners[0])
        await assert_holds(lab.reader, run_id, turn(2) + messages, deltas(2) + events)


@pytest.mark.parametrize(("messages", "events"), LENGTHS)
@proves("RUN-D5", needs=("runs",), look_at="what a delete compares before it removes the run")
async def test_a_delete_leaves_a_run_of_other_lengths_alone(
    lab: Lab, messages: int | None, events: int | None
) -> None:
    fits = messages in (None, 3) and events in (None, 5)
    run_id = await start_run(lab, turn(3), deltas(5))
    before = await header(lab.reader, run_id)
    answer = await lab.backend.runs.delete_run(
        run_id=run_id, expected_messages=messages, expected_events=events
    )
    assert (answer.deleted, answer.conflict) == (fits, not fits)
    assert await is_gone(lab.reader, run_id) == fits
    if not fits:
        assert await header(lab.reader, run_id) == before
        await assert_holds(lab.reader, run_id, turn(3), deltas(5))


@proves("RUN-D5", "RUN-D1", needs=("runs",), look_at="how an unknown run is told from a conflict")
async def test_an_unknown_run_is_no_conflict(lab: Lab) -> None:
    answer = await lab.backend.runs.delete_run(run_id=lab.new_id("run"), expected_messages=0)
    assert (answer.deleted, answer.conflict) == (False, False)


@proves("RUN-D5", "RUN-D4", needs=("runs",), look_at="whether the lengths are compared atomically")
async def test_a_conditional_delete_takes_nothing_unseen_along(lab: Lab) -> None:
    for round_ in range(3 if lab.quick else 9):
        run_id = await start_run(lab, turn(1))

        async def append(client: Backend, number: int, run_id: str = run_id) -> str:
            answer = await client.runs.append_messages(
                run_id=run_id, messages=turn(1, by=f"w{number}")
            )
            return "appended" if answer.applied else "gone"

        async def delete(client: Backend, run_id: str = run_id) -> str:
            answer = await client.runs.delete_run(run_id=run_id, expected_messages=1)
            return "deleted" if answer.deleted else "conflict"

        clients = sides(lab, 8)
        work = [append(client, number) for number, client in enumerate(clients)]
        work.insert(round_ % 3 * 4, delete(lab.reader))  # first, amid the others, last
        told = await side_by_side(work)
        if "deleted" in told:
            assert "appended" not in told
            assert await is_gone(lab.reader, run_id)
        else:
            assert told.count("appended") == len(clients)
            assert (await header(lab.reader, run_id)).message_count == 1 + len(clients)


@pytest.mark.parametrize("wrong", [-1, True, 1.0, "1"], ids=repr)
@proves("RUN-A11", "RUN-D5", needs=("runs",), look_at="what is accepted as an expected length")
async def test_an_expected_length_that_is_no_count_is_refused(lab: Lab, wrong: object) -> None:
    run_id, runs = await start_run(lab, turn(1)), lab.backend.runs
    unchecked: dict[str, object] = {"run_id": run_id}
    for call, fields in (
        (runs.append_messages, {"messages": turn(1), "expected_events": wrong}),
        (runs.append_events, {"events": deltas(1), "expected_messages": wrong}),
        (runs.delete_run, {"expected_messages": wrong}),
        (runs.delete_run, {"expected_events": wrong}),
    ):
        with pytest.raises(InvalidRequestError, match="expected_"):
            await call(**unchecked, **fields)  # type: ignore[call-arg]  # what is refused fits no type
    await assert_holds(lab.reader, run_id, turn(1))
