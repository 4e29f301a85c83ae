"""Races: of many calls that want the same, one wins and the others are told so."""

import asyncio
import itertools
from contextlib import suppress
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    assert_holds,
    assert_labels,
    batches_of,
    by_turns,
    deltas,
    fork,
    header,
    is_gone,
    load,
    read_messages,
    sides,
    start_run,
    turn,
)
from stores_core import Backend, InvalidRequestError

AMID = "others"

# Races for one id


@pytest.mark.parametrize("round_", range(3))
@proves(
    "RUN-C3", "ALL-7", needs=("runs",), look_at="whether create_run looks first and claims later"
)
async def test_of_racing_creates_one_is_told_created(lab: Lab, round_: int) -> None:
    run_id = lab.new_id("run")
    answers = await asyncio.gather(
        *(
            client.runs.create_run(run_id=run_id, labels={"of": str(n)})
            for n, client in enumerate(sides(lab, 32))
        )
    )
    winners = [n for n, answer in enumerate(answers) if answer.created]
    assert len(winners) == 1, f"{len(winners)} of 32 creates were told created"
    await assert_labels(lab.reader, run_id, {"of": str(winners[0])})


@proves("RUN-C3", "RUN-F8", needs=("runs",), look_at="whether creates and forks claim ids alike")
async def test_of_racing_creates_and_forks_one_is_told_created(lab: Lab) -> None:
    sources = [await start_run(lab, turn(n + 1, f"s{n}")) for n in range(8)]
    run_id = lab.new_id("run")
    creates = [client.runs.create_run(run_id=run_id) for client in sides(lab, 8)]
    forks = [
        client.runs.fork_run(run_id=source, new_run_id=run_id)
        for client, source in zip(sides(lab, 8), sources, strict=True)
    ]
    mixed = [call for pair in zip(creates, forks, strict=True) for call in pair]
    answers: list[Any] = await asyncio.gather(*mixed)
    winners = [n for n, answer in enumerate(answers) if answer.created]
    assert len(winners) == 1, f"{len(winners)} of 16 were told created"
    if winners[0] % 2 == 0:
        await assert_holds(lab.reader, run_id, [])
    else:
        n = winners[0] // 2
        assert (await header(lab.reader, run_id)).parent_id == sources[n]
        await assert_holds(lab.reader, run_id, turn(n + 1, f"s{n}"))


@pytest.mark.parametrize("round_", range(3))
@proves(
    "RUN-F8", "RUN-F5", needs=("runs",), look_at="whether fork_run claims and copies in one step"
)
async def test_of_racing_forks_one_wins_and_the_run_holds_that_fork_alone(
    lab: Lab, round_: int
) -> None:
    sources = [await start_run(lab, turn(9, f"s{n}"), deltas(3, f"s{n}")) for n in range(4)]
    run_id = lab.new_id("fork")
    cuts = [(source, at) for source in sources for at in (0, 2, 5, 9)]
    answers = await asyncio.gather(
        *(
            client.runs.fork_run(run_id=source, new_run_id=run_id, at_message=at)
            for client, (source, at) in zip(sides(lab, len(cuts)), cuts, strict=True)
        )
    )
    winners = [n for n, answer in enumerate(answers) if answer.created]
    assert len(winners) == 1, f"{len(winners)} of {len(cuts)} forks were told created"
    source, at = cuts[winners[0]]
    by, taken = f"s{sources.index(source)}", at or 9
    assert {(a.parent_id, a.fork_point) for a in answers} == {(source, taken)}
    await assert_holds(lab.reader, run_id, turn(taken, by), deltas(3, by) if taken == 9 else [])


@proves("RUN-D1", needs=("runs",), look_at="whether delete_run looks first and deletes later")
async def test_of_racing_deletes_one_is_told_deleted(lab: Lab) -> None:
    for _ in range(4):
        run_id = await start_run(lab, turn(20), deltas(20))
        answers = await asyncio.gather(
            *(client.runs.delete_run(run_id=run_id) for client in sides(lab, 16))
        )
        assert sum(answer.deleted for answer in answers) == 1
        assert await is_gone(lab.reader, run_id)


# Expected counts and keys


@proves(
    "RUN-A6",
    "ALL-7",
    needs=("runs",),
    look_at="whether the length is compared in the step that writes",
)
async def test_of_racing_appends_that_expect_one_length_one_wins(lab: Lab) -> None:
    run_id = await start_run(lab)
    for round_ in range(6):
        answers = await asyncio.gather(
            *(
                client.runs.append_messages(
                    run_id=run_id, messages=turn(2, f"{round_}/{n}"), expected_count=2 * round_
                )
                for n, client in enumerate(sides(lab, 16))
            )
        )
        winners = [n for n, answer in enumerate(answers) if answer.applied]
        assert len(winners) == 1, f"{len(winners)} of 16 appends expected one length and won"
        assert all(answer.conflict for n, answer in enumerate(answers) if n != winners[0])
        assert {answer.message_count for answer in answers} == {2 * round_ + 2}
        newest = (await load(lab.reader, run_id)).messages[-2:]
        assert_same(list(newest), turn(2, f"{round_}/{winners[0]}"), "the winner's batch")
    events = await asyncio.gather(
        *(
            client.runs.append_events(run_id=run_id, events=deltas(1), expected_count=0)
            for client in sides(lab, 16)
        )
    )
    assert sum(answer.applied for answer in events) == 1


@proves("RUN-A6", needs=("runs",), look_at="whether a conflict tells the length that was found")
async def test_writers_that_take_the_length_from_conflicts_all_get_through(lab: Lab) -> None:
    run_id = await start_run(lab)

    async def write(client: Backend, writer: int) -> None:
        expected = 0
        async for n in by_turns(range(6)):
            for _ in range(1_000):
                answer = await client.runs.append_messages(
                    run_id=run_id, messages=turn(3, f"{writer}/{n}"), expected_count=expected
                )
                expected = answer.message_count
                if answer.applied:
                    break
            else:
                raise AssertionError("the lengths that conflicts tell never become right")

    await asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, 6))))
    names = batches_of(await read_messages(lab.reader, run_id), 3)
    assert len(names) == len(set(names)) == 36


@proves(
    "RUN-A7",
    "ALL-7",
    needs=("runs",),
    look_at="whether the key is looked up in the step that writes",
)
async def test_one_batch_sent_many_times_at_once_is_written_once(lab: Lab) -> None:
    run_id = await start_run(lab)
    for round_ in range(6):
        batch = {"messages": turn(2, str(round_)), "events": deltas(1, str(round_))}
        send: dict[str, Any] = {"run_id": run_id, "idempotency_key": f"key {round_}", **batch}
        answers = await asyncio.gather(
            *(client.runs.append_messages(**send) for client in sides(lab, 12))
        )
        assert sum(answer.applied for answer in answers) == 1
        assert all(answer.found and not answer.conflict for answer in answers)
        counts = {(answer.message_count, answer.event_count) for answer in answers}
        assert counts == {(2 * round_ + 2, round_ + 1)}
    info = await header(lab.reader, run_id)
    assert (info.message_count, info.event_count) == (12, 6)


@proves("RUN-A7", needs=("runs",), look_at="whether keys of many writers are kept apart")
async def test_writers_that_send_all_twice_write_all_once(lab: Lab) -> None:
    run_id = await start_run(lab)

    async def write(client: Backend, writer: int) -> None:
        async for n in by_turns(range(10)):
            by = f"{writer}/{n}"
            send: dict[str, Any] = {"run_id": run_id, "idempotency_key": by}
            both = await asyncio.gather(
                client.runs.append_messages(**send, messages=turn(3, by)),
                client.runs.append_messages(**send, messages=turn(3, by)),
            )
            assert sorted(answer.applied for answer in both) == [False, True]
            assert both[0].message_count == both[1].message_count

    await asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, 8))))
    names = batches_of(await read_messages(lab.reader, run_id), 3)
    assert sorted(names) == sorted(f"{writer}/{n}" for writer in range(8) for n in range(10))


@proves("RUN-A7", needs=("runs",), look_at="whether digests are compared when two batches race")
async def test_of_two_batches_that_race_with_one_key_one_is_refused(lab: Lab) -> None:
    for _ in range(6):
        run_id = await start_run(lab)
        answers = await asyncio.gather(
            *(
                client.runs.append_messages(
                    run_id=run_id, messages=turn(2, str(n)), idempotency_key="a key"
                )
                for n, client in enumerate(sides(lab, 6))
            ),
            return_exceptions=True,
        )
        faults = [answer for answer in answers if isinstance(answer, BaseException)]
        assert len(faults) == 5, f"{6 - len(faults)} batches were taken under one key"
        assert all(isinstance(fault, InvalidRequestError) for fault in faults), faults
        winner = next(n for n, one in enumerate(answers) if not isinstance(one, BaseException))
        await assert_holds(lab.reader, run_id, turn(2, str(winner)))


# Deletions among writers


@pytest.mark.parametrize("round_", range(3))
@proves(
    "RUN-D4",
    "RUN-D1",
    needs=("runs",),
    look_at="whether an append checks its run in the step that writes",
)
async def test_an_append_that_races_a_delete_comes_before_it_or_finds_nothing(
    lab: Lab, round_: int
) -> None:
    run_id = await start_run(lab, turn(1))
    gone = asyncio.Event()

    async def write(client: Backend, n: int) -> None:
        async for m in by_turns(range(8)):
            late = gone.is_set()
            answer = await client.runs.append_messages(
                run_id=run_id, messages=turn(2, f"{n}/{m}"), events=deltas(1)
            )
            if late:
                assert not answer.found, "an append after the delete was told found"
            assert answer.applied == answer.found
            assert not answer.conflict

    async def delete() -> bool:
        async for _ in by_turns(range(3 * round_)):
            pass
        deleted = (await lab.reader.runs.delete_run(run_id=run_id)).deleted
        gone.set()
        return deleted

    async def look() -> None:
        while not gone.is_set():  # who is told that the run is gone may rely on it at once
            if not (await lab.backend.runs.get_run(run_id=run_id)).found:
                gone.set()
            await asyncio.sleep(0)

    *_, deleted, _ = await asyncio.gather(
        *(write(client, n) for n, client in enumerate(sides(lab, 8))), delete(), look()
    )
    assert deleted, "the one delete of a run that was there found nothing"
    assert await is_gone(lab.reader, run_id), "a late append revived the run"
    assert await is_gone(lab.backend, run_id)
    assert (await lab.backend.runs.create_run(run_id=run_id)).created
    await assert_holds(lab.reader, run_id, [])


@proves(
    "RUN-D4",
    "RUN-D3",
    needs=("runs",),
    look_at="whether an append may land in the next run of its id",
)
async def test_what_was_acknowledged_is_in_one_generation_or_none(lab: Lab) -> None:
    run_id = await start_run(lab)
    acknowledged: list[int] = []

    async def write() -> None:
        async for n in by_turns(range(60)):
            answer = await lab.backend.runs.append_messages(run_id=run_id, messages=turn(1, str(n)))
            if answer.applied:
                acknowledged.append(answer.message_count)

    async def recreate() -> None:
        async for _ in by_turns(range(15)):
            await lab.reader.runs.delete_run(run_id=run_id)
            assert (await lab.reader.runs.create_run(run_id=run_id)).created

    await asyncio.gather(write(), recreate())
    run = await load(lab.reader, run_id)
    for before, after in itertools.pairwise([0, *acknowledged]):
        assert after in (before + 1, 1), f"after {before} messages an append made {after}"
    assert run.message_count in (0, *acknowledged[-1:]), (
        f"the run holds {run.message_count} messages; the last answer was {acknowledged[-1:]}"
    )


@proves(
    "RUN-D2",
    "RUN-F9",
    needs=("runs",),
    thorough=True,
    look_at="what a fork holds on to while its source is deleted",
)
async def test_a_fork_that_races_the_delete_of_its_source_is_whole_or_absent(lab: Lab) -> None:
    for _ in range(8):
        source = await start_run(lab, turn(30), deltas(30))
        made = [lab.new_id("fork") for _ in range(8)]
        *answers, deleted = await asyncio.gather(
            *(
                client.runs.fork_run(run_id=source, new_run_id=new_id)
                for client, new_id in zip(sides(lab, 8), made, strict=True)
            ),
            lab.backend.runs.delete_run(run_id=source),
        )
        answered: list[Any] = answers
        assert deleted
        for new_id, answer in zip(made, answered, strict=True):
            assert answer.found == answer.created
            if answer.created:
                await assert_holds(lab.reader, new_id, turn(30), deltas(30), page=30)
            else:
                assert await is_gone(lab.reader, new_id)


@proves(
    "RUN-D2", needs=("runs",), look_at="what is counted or locked when a family is deleted at once"
)
async def test_a_family_may_be_deleted_all_at_once(lab: Lab) -> None:
    root = await start_run(lab, turn(10), deltas(10))
    children = [await fork(lab, root, n) for n in range(1, 9)]
    leaves = [await fork(lab, child) for child in children]
    doomed = [root, *children, *leaves[1:]]
    answers = await asyncio.gather(
        *(
            client.runs.delete_run(run_id=run_id)
            for client, run_id in zip(sides(lab, len(doomed)), doomed, strict=True)
        )
    )
    assert all(answer.deleted for answer in answers)
    await assert_holds(lab.reader, leaves[0], turn(1))
    for run_id in doomed:
        assert await is_gone(lab.reader, run_id)


# Cancellation


@proves("ALL-9", "RUN-A7", needs=("runs",), look_at="what a cancelled append leaves behind")
async def test_a_cancelled_append_that_is_sent_again_is_written_once(lab: Lab) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    for n in range(20):
        send: dict[str, Any] = {"run_id": run_id, "idempotency_key": f"key {n}"}
        call = asyncio.ensure_future(runs.append_messages(**send, messages=turn(2, first=2 * n)))
        for _ in range(n % 7):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        again = await runs.append_messages(**send, messages=turn(2, first=2 * n))
        assert again.found
        assert not again.conflict
    await assert_holds(lab.reader, run_id, turn(40))


@proves(
    "ALL-9",
    "RUN-F7",
    "RUN-F5",
    needs=("runs",),
    thorough=True,
    look_at="what a cancelled fork leaves behind",
)
async def test_a_cancelled_fork_that_is_sent_again_converges(lab: Lab) -> None:
    source = await start_run(lab, turn(50), deltas(50))
    for n in range(20):
        new_id = lab.new_id("fork")
        call = asyncio.ensure_future(lab.backend.runs.fork_run(run_id=source, new_run_id=new_id))
        for _ in range(n % 7):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        again = await lab.reader.runs.fork_run(run_id=source, new_run_id=new_id)
        assert (again.found, again.parent_id, again.fork_point) == (True, source, 50)
        await assert_holds(lab.reader, new_id, turn(50), deltas(50), page=50)
