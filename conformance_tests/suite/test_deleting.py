"""Deleting runs, and the id that is free again."""

from collections.abc import Mapping

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    StoppedClock,
    assert_holds,
    deltas,
    fork,
    header,
    ids,
    is_gone,
    start_run,
    turn,
    walk,
)
from stores_core import Backend


async def _found(client: Backend, run_id: str) -> Mapping[str, bool]:
    """What each operation says of whether the run is there."""
    runs = client.runs
    return {
        "get_run": (await runs.get_run(run_id=run_id)).found,
        "load_run": (await runs.load_run(run_id=run_id)).found,
        "load_run, newest": (await runs.load_run(run_id=run_id, last_messages=1)).found,
        "read_messages": (await runs.read_messages(run_id=run_id)).found,
        "read_messages, later": (await runs.read_messages(run_id=run_id, start=3)).found,
        "read_events": (await runs.read_events(run_id=run_id)).found,
        "update_run": (await runs.update_run(run_id=run_id, labels={"a": "b"})).found,
        "append_messages": (await runs.append_messages(run_id=run_id, messages=turn(1))).found,
        "append_events": (await runs.append_events(run_id=run_id, events=deltas(1))).found,
        "an empty append": (await runs.append_messages(run_id=run_id, messages=[])).found,
        "fork_run": (await runs.fork_run(run_id=run_id)).found,
        "delete_run": (await runs.delete_run(run_id=run_id)).deleted,
    }


@pytest.mark.parametrize("state", ["never there", "deleted"])
@proves("RUN-D1", needs=("runs",), look_at="how each operation finds out that a run is not there")
async def test_a_run_that_is_not_there_is_unknown_to_every_operation(lab: Lab, state: str) -> None:
    run_id = lab.new_id("run")
    if state == "deleted":
        run_id = await start_run(lab, turn(5), deltas(5))
        assert (await lab.backend.runs.delete_run(run_id=run_id)).deleted
    for client in (lab.reader, lab.backend):
        said = await _found(client, run_id)
        assert not any(said.values()), [name for name, found in said.items() if found]


@proves("RUN-D1", needs=("runs",), look_at="what delete_run answers")
async def test_delete_says_whether_the_run_was_there(lab: Lab) -> None:
    run_id = await start_run(lab, turn(2), deltas(3))
    empty = await start_run(lab)
    for gone in (run_id, empty):
        first = await lab.backend.runs.delete_run(run_id=gone)
        second = await lab.reader.runs.delete_run(run_id=gone)
        assert (first.deleted, second.deleted) == (True, False)
    assert not (await lab.backend.runs.delete_run(run_id=lab.new_id("run"))).deleted


@proves("RUN-D1", needs=("runs",), look_at="whether delete_run clears every listing index")
async def test_a_deleted_run_is_in_no_listing(lab: Lab) -> None:
    label = {"of": lab.new_id("label")}
    parent = await start_run(lab, turn(2), labels=label)
    child = await fork(lab, parent)
    assert set(ids(await walk(lab.reader, 7, labels=label))) == {parent, child}
    await lab.backend.runs.delete_run(run_id=child)
    assert ids(await walk(lab.reader, 7, labels=label)) == [parent]
    assert await walk(lab.reader, 7, parent_id=parent) == []


@pytest.mark.parametrize("tail", ["0", ":", "/", "*", " ", "%", ":messages", "é", "\x01"])
@proves("RUN-D1", needs=("runs",), look_at="whether delete_run matches ids by their beginning")
async def test_a_delete_takes_no_other_run_along(lab: Lab, tail: str) -> None:
    stem = lab.new_id("run")
    kept = [stem + tail, stem + tail + tail, "x" + stem, stem.upper() + "X"]
    for run_id in (stem, *kept):
        assert (await lab.backend.runs.create_run(run_id=run_id)).created
        await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(2, run_id), events=deltas(1, run_id)
        )
    assert (await lab.backend.runs.delete_run(run_id=stem)).deleted
    assert await is_gone(lab.reader, stem)
    for run_id in kept:
        await assert_holds(lab.reader, run_id, turn(2, run_id), deltas(1, run_id))


@proves(
    "RUN-D3", needs=("runs",), look_at="what delete_run leaves behind for the next run of that id"
)
async def test_a_run_created_again_starts_empty(lab: Lab) -> None:
    run_id = await start_run(lab, turn(5), deltas(4), labels={"old": "label"})
    for generation in range(3):
        assert (await lab.backend.runs.delete_run(run_id=run_id)).deleted
        assert (await lab.reader.runs.create_run(run_id=run_id)).created
        assert not (await header(lab.backend, run_id)).labels
        await assert_holds(lab.backend, run_id, [])
        wrote = await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(2, f"again {generation}"), events=deltas(1)
        )
        assert (wrote.message_count, wrote.event_count) == (2, 1)
        await assert_holds(lab.reader, run_id, turn(2, f"again {generation}"), deltas(1))


@proves("RUN-D3", needs=("runs",), look_at="whether idempotency keys go with their run")
async def test_a_run_created_again_knows_no_old_keys(lab: Lab) -> None:
    run_id = await start_run(lab)
    for again in (False, True):
        if again:
            await lab.backend.runs.delete_run(run_id=run_id)
            await lab.backend.runs.create_run(run_id=run_id)
        same = await lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(2), idempotency_key="same batch"
        )
        other = await lab.backend.runs.append_events(
            run_id=run_id, events=deltas(1, str(again)), idempotency_key="other batch"
        )
        assert (same.applied, other.applied) == (True, True), "a key of the old run is known"


@proves("RUN-D3", needs=("runs",), look_at="whether lineage goes with the run that had it")
async def test_a_fork_created_again_is_no_fork(lab: Lab) -> None:
    parent = await start_run(lab, turn(3), labels={"of": lab.new_id("label")})
    run_id = await fork(lab, parent, 2)
    await lab.backend.runs.delete_run(run_id=run_id)
    assert (await lab.backend.runs.create_run(run_id=run_id)).created
    info = await header(lab.reader, run_id)
    assert (info.parent_id, info.fork_point, dict(info.labels)) == ("", 0, {})
    assert await walk(lab.reader, 7, parent_id=parent) == []
    await assert_holds(lab.reader, run_id, [])


@proves(
    "RUN-D3", needs=("runs", "clock"), look_at="where created_at of a re-created run comes from"
)
async def test_a_run_created_again_has_times_of_its_own(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    run_id = await start_run(lab, turn(1), client=client)
    await client.runs.delete_run(run_id=run_id)
    now = clock.move(60)
    await client.runs.create_run(run_id=run_id)
    info = await header(client, run_id)
    assert (info.created_at, info.updated_at) == (now, now)


@proves(
    "RUN-D3", "RUN-F6", needs=("runs",), look_at="whether an id in use stands for one generation"
)
async def test_forks_of_a_run_do_not_follow_the_next_run_of_its_id(lab: Lab) -> None:
    parent = await start_run(lab, turn(4, "old"), deltas(2, "old"))
    child = await fork(lab, parent)
    await lab.backend.runs.delete_run(run_id=parent)
    assert (await lab.backend.runs.create_run(run_id=parent)).created
    await lab.backend.runs.append_messages(
        run_id=parent, messages=turn(6, "new"), events=deltas(3, "new")
    )
    await assert_holds(lab.reader, child, turn(4, "old"), deltas(2, "old"))
    await assert_holds(lab.reader, parent, turn(6, "new"), deltas(3, "new"))


@pytest.mark.parametrize("key", ["", "a key"], ids=["without a key", "with a key"])
@proves(
    "RUN-D4", "RUN-A2", needs=("runs",), look_at="whether an append checks that its run is there"
)
async def test_an_append_after_a_delete_revives_nothing(lab: Lab, key: str) -> None:
    run_id = await start_run(lab)
    runs = lab.backend.runs
    await runs.append_messages(run_id=run_id, messages=turn(2), idempotency_key=key)
    assert (await lab.reader.runs.delete_run(run_id=run_id)).deleted
    late = await runs.append_messages(run_id=run_id, messages=turn(2), idempotency_key=key)
    assert (late.found, late.applied, late.conflict) == (False, False, False)
    also = await runs.append_events(run_id=run_id, events=deltas(2), idempotency_key=key)
    assert (also.found, also.applied, also.conflict) == (False, False, False)
    assert await is_gone(lab.reader, run_id)
    assert (await runs.create_run(run_id=run_id)).created
    await assert_holds(lab.reader, run_id, [])
