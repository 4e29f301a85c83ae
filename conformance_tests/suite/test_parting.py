"""After a fork: parent and fork go their own ways."""

from collections.abc import Sequence
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    assert_holds,
    assert_labels,
    deltas,
    fork,
    header,
    ids,
    is_gone,
    start_run,
    turn,
    walk,
)


async def _append(lab: Lab, run_id: str, by: str) -> tuple[Sequence[Any], Sequence[Any]]:
    messages, events = turn(3, by), deltas(2, by)
    wrote = await lab.backend.runs.append_messages(run_id=run_id, messages=messages, events=events)
    assert wrote.applied
    return messages, events


@pytest.mark.parametrize("at_message", [0, 2], ids=["all", "a part"])
@proves("RUN-F6", needs=("runs",), look_at="whether a fork writes to a log of its own")
async def test_parent_and_fork_go_their_own_ways(lab: Lab, at_message: int) -> None:
    parent = await start_run(lab, turn(4), deltas(3))
    child = await fork(lab, parent, at_message)
    messages = {parent: turn(4), child: turn(at_message or 4)}
    events = {parent: deltas(3), child: [] if at_message else deltas(3)}
    for turn_of in (parent, child, child, parent, child):
        more, more_events = await _append(lab, turn_of, f"after {len(messages[turn_of])}")
        messages[turn_of] += more
        events[turn_of] += more_events
        for run_id in (parent, child):
            await assert_holds(lab.reader, run_id, messages[run_id], events[run_id])


@proves("RUN-F6", needs=("runs",), look_at="whether two forks of one run share what they write")
async def test_forks_of_one_run_go_their_own_ways(lab: Lab) -> None:
    parent = await start_run(lab, turn(3), deltas(3))
    children = [await fork(lab, parent, at) for at in (0, 0, 1, 2, 3)]
    for child in children:
        await _append(lab, child, child)
    for child, taken in zip(children, (3, 3, 1, 2, 3), strict=True):
        events = (deltas(3) if taken == 3 else []) + deltas(2, child)
        await assert_holds(lab.reader, child, turn(taken) + turn(3, child), events)
    await assert_holds(lab.reader, parent, turn(3), deltas(3))


@proves(
    "RUN-F6", "RUN-U1", needs=("runs",), look_at="whether a fork shares its labels with its parent"
)
async def test_labels_of_parent_and_fork_go_their_own_ways(lab: Lab) -> None:
    parent = await start_run(lab, labels={"a": "1", "b": "2"})
    child = await fork(lab, parent)
    await lab.backend.runs.update_run(run_id=parent, labels={"a": None, "c": "parent"})
    await assert_labels(lab.reader, child, {"a": "1", "b": "2"})
    await lab.backend.runs.update_run(run_id=child, labels={"b": "child", "d": "child"})
    await assert_labels(lab.reader, parent, {"b": "2", "c": "parent"})
    await assert_labels(lab.reader, child, {"a": "1", "b": "child", "d": "child"})


@pytest.mark.parametrize("at_message", [0, 2], ids=["all", "a part"])
@pytest.mark.parametrize("first", ["parent", "fork"])
@proves(
    "RUN-F6", "RUN-D2", needs=("runs",), look_at="what delete_run frees, and who else refers to it"
)
async def test_deleting_one_of_two_leaves_the_other_whole(
    lab: Lab, first: str, at_message: int
) -> None:
    parent = await start_run(lab, turn(5), deltas(5))
    child = await fork(lab, parent, at_message)
    await _append(lab, child, "own")
    gone, left = (parent, child) if first == "parent" else (child, parent)
    assert (await lab.backend.runs.delete_run(run_id=gone)).deleted
    assert await is_gone(lab.reader, gone)
    messages, events = turn(5), deltas(5)
    if left == child:
        messages = turn(at_message or 5) + turn(3, "own")
        events = ([] if at_message else deltas(5)) + deltas(2, "own")
    await assert_holds(lab.reader, left, messages, events)
    await _append(lab, left, "later")
    await assert_holds(lab.reader, left, messages + turn(3, "later"), events + deltas(2, "later"))


@proves("RUN-F3", "RUN-D2", needs=("runs",), look_at="what a fork remembers of a deleted parent")
async def test_a_fork_keeps_its_lineage_when_the_parent_is_deleted(lab: Lab) -> None:
    parent = await start_run(lab, turn(5))
    child = await fork(lab, parent, 3)
    before = await header(lab.reader, child)
    await lab.backend.runs.delete_run(run_id=parent)
    assert_same(await header(lab.reader, child), before, "the header of the fork")
    assert ids(await walk(lab.reader, 7, parent_id=parent)) == [child]
