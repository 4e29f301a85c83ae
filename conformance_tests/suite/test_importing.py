"""Imports that are cut, repeated, late, or meet another run."""

import asyncio

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.cargo import (
    MOVING,
    Cargo,
    assert_same_cargo,
    bring,
    furnish,
    outcomes,
    steps_of,
    take,
    take_log,
    take_runs,
    tenants,
)
from conformance_tests.suite.steps import (
    StoppedClock,
    assert_holds,
    by_turns,
    bytes_held,
    deltas,
    ids,
    is_gone,
    load,
    start_run,
    sweep_all,
    turn,
    until_done,
    walk,
)
from stores_core import (
    ImportOutcome,
    InvalidRequestError,
)


@pytest.mark.parametrize("part", [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0])
@proves(
    "MOVE-2",
    "MOVE-1",
    needs=MOVING,
    look_at="whether an import that is repeated adds to what is there",
)
async def test_an_import_that_was_cut_converges_when_it_is_repeated(lab: Lab, part: float) -> None:
    source, target = await tenants(lab)
    await furnish(lab, source)
    cargo = await take(source)
    steps = steps_of(target, cargo)
    for step in steps[: int(part * len(steps))]:
        await step()
    for info in await walk(target, 7):
        run = await load(source, info.id)
        await assert_holds(target, info.id, run.messages, run.events, page=50)
    await bring(target, cargo)
    assert_same_cargo(await take(target), cargo)
    await bring(target, cargo, piece=3)
    assert_same_cargo(await take(target), cargo)
    assert await outcomes(target, cargo) == {ImportOutcome.SAME}


@proves("MOVE-2", needs=MOVING, look_at="what makes an imported run visible")
async def test_nothing_is_visible_before_its_run_is_imported(lab: Lab) -> None:
    source, target = await tenants(lab)
    await furnish(lab, source)
    cargo = await take(source)
    await bring(target, Cargo(logs=cargo.logs))
    assert await walk(target, 7) == []
    assert await take_runs(target) == []
    for run in cargo.runs:
        assert await is_gone(target, run.info.id)
        answer = await target.moving.import_run(run=run)
        assert answer.outcome is ImportOutcome.CREATED
        theirs = await load(source, run.info.id)
        assert_same(await load(target, run.info.id), theirs, f"run {run.info.id}")


@proves("MOVE-2", "ALL-6", needs=MOVING, look_at="an import that claims first and fills later")
async def test_a_reader_sees_a_run_whole_or_not_at_all_while_it_is_imported(lab: Lab) -> None:
    source, target = await tenants(lab)
    made = [await start_run(lab, turn(5), deltas(5), client=source) for _ in range(20)]
    cargo = await take(source)
    await bring(target, Cargo(logs=cargo.logs))

    async def bring_runs() -> None:
        async for run in by_turns(cargo.runs):
            answer = await target.moving.import_run(run=run)
            assert answer.outcome is ImportOutcome.CREATED

    async def look() -> None:
        for run_id in made:
            answer = await target.runs.load_run(run_id=run_id)
            if answer.run is not None:
                counts = len(answer.run.messages), len(answer.run.events)
                assert counts == (5, 5), "a run that is being imported is seen in part"
        await asyncio.sleep(0)

    assert await until_done(bring_runs(), look) > 1


@proves("MOVE-2", needs=MOVING, look_at="whether an import looks for the logs that it refers to")
async def test_a_run_whose_entries_are_not_all_there_is_refused(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(9), deltas(9), client=source)
    one = await start_run(lab, turn(1), client=source)
    cargo = await take(source)
    (record,) = (run for run in cargo.runs if run.info.id == one)
    with pytest.raises(InvalidRequestError):
        await target.moving.import_run(run=record)
    await source.runs.delete_run(run_id=one)
    cargo = await take(source)
    steps = steps_of(target, cargo, piece=3)
    for step in steps[:-1]:
        with pytest.raises(InvalidRequestError):
            await target.moving.import_run(run=cargo.runs[0])
        assert await is_gone(target, run_id)
        await step()
    assert (await target.moving.import_run(run=cargo.runs[0])).outcome is ImportOutcome.CREATED
    await assert_holds(target, run_id, turn(9), deltas(9))


@proves("MOVE-2", needs=MOVING, look_at="where start is compared with the entries that are there")
async def test_pieces_of_a_log_may_overlap_and_a_gap_adds_nothing(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(9), client=source)
    cargo = await take(source)
    (log, entries), moving = next(iter(cargo.logs.items())), target.moving
    for start, stop, length in ((2, 5, 0), (0, 3, 3), (4, 9, 3), (1, 3, 3), (2, 6, 6), (0, 9, 9)):
        piece = entries[start:stop]
        answer = await moving.import_entries(log=log, start=start, entries=piece)
        assert answer.length == length, f"entries {start} to {stop} make {answer.length}"
    assert await take_log(target, log, 4) == entries
    await moving.import_run(run=cargo.runs[0])
    await assert_holds(target, run_id, turn(9))


@proves("MOVE-2", needs=MOVING, look_at="how an unknown log is exported")
async def test_an_unknown_log_is_empty(lab: Lab) -> None:
    source, target = await tenants(lab)
    await start_run(lab, turn(3), client=source)
    log = next(iter((await take(source)).logs))
    for client, name in ((source, lab.new_id("log")), (target, log)):
        answer = await client.moving.export_entries(log=name)
        assert (len(answer.entries), answer.length) == (0, 0)


@proves("MOVE-2", needs=MOVING, look_at="whether an import knows what stands at an id")
async def test_a_later_import_brings_a_run_up_to_date(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(3), deltas(1), labels={"old": "one"}, client=source)
    other = await start_run(lab, turn(2), client=source)
    await bring(target, await take(source))
    await source.runs.append_messages(
        run_id=run_id, messages=turn(4, first=3), idempotency_key="a key"
    )
    await source.runs.update_run(run_id=run_id, labels={"new": "label", "old": None})
    cargo = await take(source)
    await bring(target, Cargo(logs=cargo.logs))
    await assert_holds(target, run_id, turn(3), deltas(1))
    answers = {run.info.id: (await target.moving.import_run(run=run)).outcome for run in cargo.runs}
    assert answers == {run_id: ImportOutcome.UPDATED, other: ImportOutcome.SAME}
    assert_same_cargo(await take(target), cargo)
    await assert_holds(target, run_id, turn(7), deltas(1))
    assert ids(await walk(target, 7, labels={"new": "label"})) == [run_id]
    assert await walk(target, 7, labels={"old": "one"}) == []


@proves(
    "MOVE-2",
    "RUN-D2",
    needs=(*MOVING, "admin"),
    look_at="what an import that brings a run up to date leaves of the one that stood there",
)
async def test_a_run_that_was_brought_up_to_date_is_deleted_whole(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(200, "w" * 200), client=source)
    empty = await bytes_held(lab, target)
    await bring(target, await take(source, page=100), piece=100)
    await source.runs.append_messages(run_id=run_id, messages=turn(1, first=200))
    await bring(target, await take(source, page=100), piece=100)
    full = await bytes_held(lab, target) - empty
    assert (await target.runs.delete_run(run_id=run_id)).deleted
    await sweep_all(target)
    left = await bytes_held(lab, target) - empty
    assert left <= full // 20, f"{left} of {full} bytes are held for no run"


@pytest.mark.parametrize(
    "change", ["messages", "events", "labels", "created here", "deleted and created here"]
)
@proves("MOVE-2", needs=MOVING, look_at="how an import tells a run that was changed here")
async def test_a_run_that_is_another_here_is_left_alone(lab: Lab, change: str) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(3), labels={"of": "source"}, client=source)
    cargo = await take(source)
    runs = target.runs
    if change != "created here":
        await bring(target, cargo)
    if change == "deleted and created here":
        await runs.delete_run(run_id=run_id)
    if change in ("created here", "deleted and created here"):
        await runs.create_run(run_id=run_id)
        await runs.append_messages(run_id=run_id, messages=turn(1, "here"))
    elif change == "messages":
        await runs.append_messages(run_id=run_id, messages=turn(1, "here"))
    elif change == "events":
        await runs.append_events(run_id=run_id, events=deltas(1, "here"))
    else:
        await runs.update_run(run_id=run_id, labels={"here": "x"})
    before = await load(target, run_id)
    await source.runs.append_messages(run_id=run_id, messages=turn(2, first=3))
    for later in (cargo, await take(source)):
        await bring(target, Cargo(logs=later.logs))
        assert await outcomes(target, later) == {ImportOutcome.CONFLICT}
        assert_same(await load(target, run_id), before, "the run that stands here")


@proves(
    "MOVE-2", needs=MOVING, look_at="whether an import may add to a log that a run here writes to"
)
async def test_an_import_to_where_it_came_from_changes_nothing(lab: Lab) -> None:
    source, _ = await tenants(lab)
    made = await furnish(lab, source)
    cargo = await take(source)
    await bring(source, cargo)
    assert await outcomes(source, cargo) == {ImportOutcome.SAME}
    assert_same_cargo(await take(source), cargo)
    before = await load(source, made[0])
    for log, entries in cargo.logs.items():
        await source.moving.import_entries(log=log, start=len(entries), entries=entries[:1])
    wrote = await source.runs.append_messages(run_id=made[0], messages=turn(1, "later"))
    assert wrote.message_count == before.message_count + 1
    expected = [*before.messages, *turn(1, "later")]
    await assert_holds(source, made[0], expected, before.events, page=50)


@proves(
    *("MOVE-2", "RUN-D2"),
    needs=(*MOVING, "admin"),
    look_at="the logs that an imported run read before it was imported anew",
)
async def test_a_run_that_is_imported_anew_leaves_nothing_of_what_it_was(lab: Lab) -> None:
    source, target = await tenants(lab)
    kept, replaced = [await start_run(lab, turn(3), deltas(2), client=source) for _ in range(2)]
    await bring(target, await take(source))
    for client in (source, target):
        assert (await client.runs.delete_run(run_id=kept)).deleted
    assert (await source.runs.delete_run(run_id=replaced)).deleted
    assert (await source.runs.create_run(run_id=replaced)).created
    await source.runs.append_messages(run_id=replaced, messages=turn(2, "other"))
    cargo = await take(source)
    await bring(target, cargo)
    assert_same_cargo(await take(target), cargo)
    await assert_holds(target, replaced, turn(2, "other"))
    await sweep_all(target)
    assert (await target.admin.verify()).problems == ()


@proves(
    "MOVE-2",
    needs=(*MOVING, "admin"),
    thorough=True,
    look_at="what sweep does to logs of an unfinished import",
)
async def test_an_import_converges_across_sweeps(lab: Lab) -> None:
    source, target = await tenants(lab)
    await furnish(lab, source)
    cargo = await take(source)
    await bring(target, Cargo(logs=cargo.logs))
    await sweep_all(target)
    await bring(target, cargo)
    await sweep_all(target)
    assert_same_cargo(await take(target), cargo)
    assert (await target.admin.verify()).problems == ()


@proves(
    "MOVE-2",
    needs=(*MOVING, "admin", "clock"),
    look_at="how long sweep leaves a log to an import that does not go on",
)
async def test_what_an_import_never_finished_is_freed_a_day_later_and_no_sooner(lab: Lab) -> None:
    source, _ = await tenants(lab)
    clock = StoppedClock()
    target = await lab.open(tenant=lab.new_id("target"), clock=clock)
    used = await start_run(lab, turn(3), client=source)
    given_up = await start_run(lab, turn(5), client=source)
    cargo = await take(source)
    records = {run.info.id: run for run in cargo.runs}
    await bring(target, Cargo(logs=cargo.logs))
    await sweep_all(target)
    await target.moving.import_run(run=records[used])
    clock.move(23 * 3_600)
    await sweep_all(target)
    log = records[given_up].messages[0].log
    assert await take_log(target, log, 7) == cargo.logs[log], "a log of today was freed"
    clock.move(2 * 3_600)
    await sweep_all(target)
    assert await take_log(target, log, 7) == []
    with pytest.raises(InvalidRequestError):
        await target.moving.import_run(run=records[given_up])
    await assert_holds(target, used, turn(3))
    await bring(target, cargo)
    await assert_holds(target, given_up, turn(5))


@proves("MOVE-2", "RUN-L1", needs=MOVING, look_at="whether a run record is one instant of its run")
async def test_what_is_written_during_an_export_is_whole_in_it_or_absent(lab: Lab) -> None:
    source, target = await tenants(lab)
    made = [await start_run(lab, client=source) for _ in range(4)]

    async def write(run_id: str) -> None:
        async for n in by_turns(range(30)):
            await source.runs.append_messages(
                run_id=run_id, messages=turn(3, run_id, 3 * n), events=deltas(3, run_id, 3 * n)
            )

    writers = asyncio.gather(*(write(run_id) for run_id in made))
    while not writers.done():
        cargo = await take(source, page=1_000)
        await asyncio.sleep(0)
    await writers
    cargo = await take(source)
    await bring(target, cargo)
    for run in cargo.runs:
        length = run.info.message_count
        assert (length % 3, run.info.event_count) == (0, length), "a batch is exported in part"
        await assert_holds(
            target, run.info.id, turn(length, run.info.id), deltas(length, run.info.id)
        )


@pytest.mark.parametrize("cursor", ["nope", "A" * 40, "7"])
@proves("MOVE-1", needs=MOVING, look_at="whether cursors of an export are checked")
async def test_a_cursor_that_no_export_made_is_refused(lab: Lab, cursor: str) -> None:
    source, target = await tenants(lab)
    for _ in range(3):
        await start_run(lab, client=source)
        await start_run(lab, client=target)
    theirs = (await target.moving.export_runs(limit=1)).next_cursor
    listed = (await source.runs.list_runs(limit=1)).next_cursor
    for wrong in (cursor, theirs, listed):
        with pytest.raises(InvalidRequestError):
            await source.moving.export_runs(limit=1, cursor=wrong)
