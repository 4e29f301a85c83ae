"""Many readers and writers at once: what holds whatever comes first."""

import asyncio

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    WRITTEN,
    assert_holds,
    assert_labels,
    batches_of,
    by_turns,
    deltas,
    fork,
    header,
    ids,
    is_gone,
    load,
    read_messages,
    said,
    sides,
    start_run,
    turn,
    until_done,
    walk,
)
from stores_core import Backend, Message, Run

AMID = "others"

# Writers


@pytest.mark.parametrize("size", [1, 3, 25])
@proves(
    "RUN-A4",
    "RUN-A1",
    "RUN-A5",
    "ALL-7",
    needs=("runs",),
    look_at="what holds a run while a batch lands",
)
async def test_many_writers_on_one_run_lose_tear_and_reorder_nothing(lab: Lab, size: int) -> None:
    run_id = await start_run(lab)
    writers, rounds = 8, 6 if lab.quick else 12

    async def write(client: Backend, writer: int) -> list[int]:
        ends: list[int] = []
        async for n in by_turns(range(rounds)):
            by = f"{writer}/{n}"
            answer = await client.runs.append_messages(
                run_id=run_id, messages=turn(size, by), events=deltas(size, by)
            )
            assert said(answer) == WRITTEN
            assert answer.message_count == answer.event_count, "the two logs grow apart"
            ends.append(answer.message_count)
        return ends

    ends = await asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, writers))))
    run = await load(lab.reader, run_id)
    names = batches_of(list(run.messages), size)
    assert len(names) == len(set(names)) == writers * rounds
    for writer in range(writers):
        own = [name for name in names if name.startswith(f"{writer}/")]
        assert own == [f"{writer}/{n}" for n in range(rounds)], "a writer's batches are reordered"
        assert [(names.index(name) + 1) * size for name in own] == ends[writer], (
            "an answer counts another place than the batch has"
        )
    expected = [delta for name in names for delta in deltas(size, name)]
    assert_same(list(run.events), expected, "the events beside the messages")
    assert_same(await read_messages(lab.reader, run_id), list(run.messages), "by pages")


@proves(
    "RUN-A4", "ALL-7", needs=("runs",), look_at="what runs have in common while they are written"
)
async def test_writers_on_many_runs_do_not_meet(lab: Lab) -> None:
    count = 20 if lab.quick else 60
    made = await asyncio.gather(*(start_run(lab) for _ in range(count)))

    async def write(client: Backend, run_id: str) -> None:
        async for n in by_turns(range(5)):
            answer = await client.runs.append_messages(
                run_id=run_id, messages=turn(2, run_id, 2 * n), expected_count=2 * n
            )
            assert said(answer) == WRITTEN

    await asyncio.gather(
        *(write(client, run_id) for client, run_id in zip(sides(lab, count), made, strict=True))
    )
    for run_id in made:
        await assert_holds(lab.reader, run_id, turn(10, run_id))


@proves(
    "RUN-A9",
    "RUN-A4",
    needs=("runs",),
    look_at="whether appends to one log undo those to the other",
)
async def test_writers_on_the_two_logs_lose_nothing(lab: Lab) -> None:
    run_id = await start_run(lab)

    async def messages(client: Backend) -> None:
        async for n in by_turns(range(20)):
            await client.runs.append_messages(run_id=run_id, messages=turn(2, first=2 * n))

    async def events(client: Backend) -> None:
        async for n in by_turns(range(20)):
            await client.runs.append_events(run_id=run_id, events=deltas(3, first=3 * n))

    await asyncio.gather(messages(lab.backend), events(lab.reader))
    await assert_holds(lab.reader, run_id, turn(40), deltas(60))


# Readers among writers


@proves("RUN-L1", "ALL-6", needs=("runs",), look_at="whether a load is one step of the storage")
async def test_a_load_among_writers_shows_whole_batches(lab: Lab) -> None:
    run_id = await start_run(lab)

    async def write(client: Backend, writer: int) -> None:
        async for n in by_turns(range(15)):
            by = f"{writer}/{n}"
            await client.runs.append_messages(
                run_id=run_id, messages=turn(5, by), events=deltas(5, by)
            )

    seen: list[str] = []

    async def look() -> None:
        run = await load(lab.reader, run_id)
        assert (run.message_count, run.event_count) == (len(run.messages), len(run.events))
        names = batches_of(list(run.messages), 5)
        assert names[: len(seen)] == seen, "a load has lost or changed what an earlier one showed"
        expected = [delta for name in names for delta in deltas(5, name)]
        assert_same(list(run.events), expected, "the events of one instant")
        seen[:] = names

    writers = asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, 4))))
    await until_done(writers, look)
    assert len(seen) == 60


@pytest.mark.parametrize("page", [1, 7, 100])
@proves(
    "RUN-L3",
    "ALL-6",
    needs=("runs",),
    look_at="whether positions are given out before they are visible",
)
async def test_a_tail_among_writers_passes_over_nothing(lab: Lab, page: int) -> None:
    run_id = await start_run(lab)

    async def write(client: Backend, writer: int) -> None:
        async for n in by_turns(range(12)):
            await client.runs.append_messages(run_id=run_id, messages=turn(2, f"{writer}/{n}"))

    tail: list[Message] = []

    async def look() -> None:
        answer = await lab.reader.runs.read_messages(run_id=run_id, start=len(tail), limit=page)
        assert answer.next == len(tail) + len(answer.entries) <= answer.count
        tail.extend(answer.entries)

    writers = asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, 4))))
    await until_done(writers, look)
    tail += await read_messages(lab.reader, run_id, page, start=len(tail))
    assert len(batches_of(tail, 2)) == 48
    assert_same(tail, list((await load(lab.reader, run_id)).messages), "what the tail has seen")


@proves(
    "RUN-L1", "RUN-D3", needs=("runs",), look_at="whether header and entries are read in one step"
)
async def test_a_load_never_mixes_two_runs_that_bore_one_id(lab: Lab) -> None:
    run_id = lab.new_id("run")
    runs = lab.backend.runs
    source = await start_run(lab, turn(5, "fork"), deltas(3, "fork"), labels={"of": "fork"})

    async def live_and_die() -> None:
        async for n in by_turns(range(30)):
            if n % 3:
                await runs.create_run(run_id=run_id, labels={"of": str(n)})
                async for first in by_turns(range(0, 4, 2)):
                    await runs.append_messages(
                        run_id=run_id, messages=turn(2, str(n), first), events=deltas(1, str(n))
                    )
            else:
                await runs.fork_run(run_id=source, new_run_id=run_id)
            await runs.delete_run(run_id=run_id)

    async def look() -> None:
        answer = await lab.reader.runs.load_run(run_id=run_id)
        if answer.run is None:
            assert not answer.found
            return
        by = answer.run.labels["of"]
        _assert_one_generation(answer.run, by)

    assert await until_done(live_and_die(), look) > 1
    assert await is_gone(lab.reader, run_id)


def _assert_one_generation(run: Run, by: str) -> None:
    said_by = {(entry.text or "").split(" ")[0] for entry in (*run.messages, *run.events)}
    assert said_by <= {by}, f"a run labelled {by} holds entries of {said_by}"
    if by == "fork":
        assert (len(run.messages), len(run.events)) == (5, 3), "a fork was seen before it was whole"
    else:
        assert (len(run.messages), len(run.events)) in {(0, 0), (2, 1), (4, 2)}


# Forks among writers


@pytest.mark.parametrize("at_message", [0, 500], ids=["all", "beyond the end"])
@proves(
    "RUN-F9", "RUN-F2", needs=("runs",), look_at="whether a fork takes both logs at one instant"
)
async def test_a_fork_among_writers_is_a_prefix_of_whole_batches(lab: Lab, at_message: int) -> None:
    source = await start_run(lab)

    async def write(client: Backend, writer: int) -> None:
        async for n in by_turns(range(15)):
            by = f"{writer}/{n}"
            await client.runs.append_messages(
                run_id=source, messages=turn(5, by), events=deltas(5, by)
            )

    forks: list[tuple[str, int, int, int]] = []

    async def look() -> None:
        before = (await header(lab.reader, source)).message_count
        new_id = lab.new_id("fork")
        answer = await lab.reader.runs.fork_run(
            run_id=source, new_run_id=new_id, at_message=at_message
        )
        after = (await header(lab.reader, source)).message_count
        forks.append((new_id, answer.fork_point, before, after))

    writers = asyncio.gather(*(write(client, n) for n, client in enumerate(sides(lab, 4))))
    await until_done(writers, look)
    whole = await load(lab.reader, source)
    batches_of(list(whole.messages), 5)
    for new_id, point, before, after in forks:
        assert before <= point <= after, f"a fork of {point} while the source had {before}-{after}"
        assert point % 5 == 0, f"a fork at {point} cuts a batch of 5"
        await assert_holds(
            lab.reader, new_id, list(whole.messages[:point]), list(whole.events[:point]), page=500
        )


@proves(
    "RUN-F7", "RUN-F8", needs=("runs",), look_at="whether a fork is claimed before it is filled"
)
async def test_a_fork_is_seen_whole_or_not_at_all(lab: Lab) -> None:
    length = 100
    source = await start_run(lab, turn(length), deltas(length))
    labels = {"of": lab.new_id("label")}
    made = [lab.new_id("fork") for _ in range(8 if lab.quick else 16)]
    current = [made[0]]

    async def make() -> None:
        async for new_id in by_turns(made):
            current[0] = new_id
            await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id, labels=labels)

    async def look() -> None:
        new_id = current[0]
        info = await lab.reader.runs.get_run(run_id=new_id)
        loaded = await lab.reader.runs.load_run(run_id=new_id, last_messages=1)
        page = await lab.reader.runs.read_events(run_id=new_id, start=0, limit=1)
        for answer in (info.info, loaded.run):
            if answer is not None:
                assert (answer.message_count, answer.event_count) == (length, length)
        if page.found:
            assert page.count == length
        for listed in (await lab.reader.runs.list_runs(labels=labels)).runs:
            assert listed.message_count == length, "a half-made fork is listed"
            assert (listed.parent_id, listed.fork_point) == (source, length)

    assert await until_done(make(), look) > 1
    for new_id in made:
        await assert_holds(lab.reader, new_id, turn(length), deltas(length), page=100)


@proves(
    "RUN-F6",
    "RUN-F12",
    needs=("runs",),
    look_at="what parent and forks share while all are written",
)
async def test_parent_and_forks_may_be_written_at_once(lab: Lab) -> None:
    parent = await start_run(lab, turn(6), deltas(6))
    family = [parent, *[await fork(lab, parent) for _ in range(7)]]

    async def write(client: Backend, run_id: str) -> None:
        async for n in by_turns(range(10)):
            await client.runs.append_messages(
                run_id=run_id, messages=turn(2, run_id, 2 * n), events=deltas(1, run_id, n)
            )

    await asyncio.gather(
        *(write(client, run_id) for client, run_id in zip(sides(lab, 8), family, strict=True))
    )
    for run_id in family:
        await assert_holds(
            lab.reader, run_id, turn(6) + turn(20, run_id), deltas(6) + deltas(10, run_id)
        )


# Labels and listings


@proves(
    "RUN-U1",
    "ALL-7",
    needs=("runs",),
    look_at="whether update_run reads labels, changes them and writes them back",
)
async def test_concurrent_updates_of_different_labels_all_survive(lab: Lab) -> None:
    run_id = await start_run(lab, labels={f"old {n}": "x" for n in range(20)})
    await asyncio.gather(
        *(
            client.runs.update_run(run_id=run_id, labels={f"new {n}": str(n), f"old {n}": None})
            for n, client in enumerate(sides(lab, 20))
        ),
        lab.backend.runs.append_messages(run_id=run_id, messages=turn(3)),
    )
    await assert_labels(lab.reader, run_id, {f"new {n}": str(n) for n in range(20)})
    await assert_holds(lab.reader, run_id, turn(3))


@proves(
    "RUN-U1", "RUN-A4", needs=("runs",), look_at="whether a label update writes back a whole header"
)
async def test_label_updates_among_appends_lose_neither(lab: Lab) -> None:
    run_id = await start_run(lab)

    async def label(client: Backend) -> None:
        async for n in by_turns(range(20)):
            assert (await client.runs.update_run(run_id=run_id, labels={f"l{n}": "x"})).found

    async def write(client: Backend) -> None:
        async for n in by_turns(range(20)):
            answer = await client.runs.append_messages(
                run_id=run_id, messages=turn(1, first=n), expected_count=n
            )
            assert said(answer) == WRITTEN

    await asyncio.gather(label(lab.backend), write(lab.reader))
    await assert_labels(lab.reader, run_id, {f"l{n}": "x" for n in range(20)})
    await assert_holds(lab.reader, run_id, turn(20))


@pytest.mark.parametrize("page", [1, 7])
@proves("RUN-Q2", needs=("runs",), look_at="whether a cursor is a place or a number of runs")
async def test_a_walk_while_runs_come_and_go_gives_the_rest_once(lab: Lab, page: int) -> None:
    label = {"of": lab.new_id("label")}
    made = [await start_run(lab, labels=label) for _ in range(30)]
    kept, passing = set(made[::2]), made[1::2]

    async def come_and_go() -> None:
        async for run_id in by_turns(passing):
            await start_run(lab, labels=label)
            await lab.backend.runs.delete_run(run_id=run_id)

    async def look() -> None:
        seen = ids(await walk(lab.reader, page, labels=label))
        assert len(seen) == len(set(seen)), "a run was given twice"
        assert kept <= set(seen), "a run that was there throughout was passed over"

    await until_done(come_and_go(), look)
