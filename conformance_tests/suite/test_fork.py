"""Forking: what comes along, and what the answer says."""

from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    StoppedClock,
    assert_holds,
    assert_labels,
    deltas,
    fork,
    header,
    ids,
    is_gone,
    load,
    start_run,
    turn,
    walk,
)
from stores_core import ForkRunResponse, InvalidRequestError, Message

LENGTH = 6
HUGE = 10**30


def told(answer: ForkRunResponse) -> tuple[bool, bool, str, int]:
    """Found, created, parent id, fork point."""
    return answer.found, answer.created, answer.parent_id, answer.fork_point


# What comes along


@pytest.mark.parametrize(
    ("at_message", "taken"),
    [(n, n) for n in range(1, LENGTH + 1)]
    + [(n, LENGTH) for n in (LENGTH + 1, LENGTH + 2, 100, 2**31, 2**53 + 1, 2**63, HUGE)]
    + [(n, LENGTH) for n in (0, -1, -2, 1 - LENGTH, -LENGTH, -LENGTH - 1, -(2**31), -HUGE)],
)
@proves("RUN-F1", "RUN-F2", "RUN-F3", needs=("runs",), look_at="where fork_run cuts the two logs")
async def test_a_fork_takes_the_first_messages_and_events_only_with_all(
    lab: Lab, at_message: int, taken: int
) -> None:
    source = await start_run(lab)
    for n in range(LENGTH):  # events lie between the messages
        await lab.backend.runs.append_events(run_id=source, events=deltas(2, first=2 * n))
        await lab.backend.runs.append_messages(run_id=source, messages=turn(1, first=n))
    new_id = lab.new_id("fork")
    answer = await lab.backend.runs.fork_run(
        run_id=source, new_run_id=new_id, at_message=at_message
    )
    assert answer.run_id == new_id
    assert told(answer) == (True, True, source, taken)
    info = await header(lab.reader, new_id)
    assert (info.parent_id, info.fork_point) == (source, taken)
    events = deltas(2 * LENGTH) if taken == LENGTH else []
    await assert_holds(lab.reader, new_id, turn(taken), events)
    await assert_holds(lab.reader, new_id, turn(taken), events, page=1)
    await assert_holds(lab.reader, source, turn(LENGTH), deltas(2 * LENGTH))


@pytest.mark.parametrize("at_message", [0, 1, 5, -1])
@proves(
    "RUN-F1", "RUN-F2", "RUN-F3", needs=("runs",), look_at="how a source without messages is cut"
)
async def test_all_of_no_messages_brings_the_events_along(lab: Lab, at_message: int) -> None:
    for events in (0, 4):
        source = await start_run(lab, [], deltas(events))
        new_id = await fork(lab, source, at_message)
        info = await header(lab.reader, new_id)
        assert (info.parent_id, info.fork_point) == (source, 0)
        await assert_holds(lab.reader, new_id, [], deltas(events))


@pytest.mark.parametrize("at_message", [1, 4, 5, 6, 9, 10, 11, 14])
@proves("RUN-F1", needs=("runs",), look_at="whether a cut inside a batch takes the batch whole")
async def test_a_cut_may_fall_inside_a_batch(lab: Lab, at_message: int) -> None:
    source = await start_run(lab)
    for first in (0, 5, 10):
        await lab.backend.runs.append_messages(run_id=source, messages=turn(5, first=first))
    new_id = await fork(lab, source, at_message)
    await assert_holds(lab.reader, new_id, turn(at_message))
    wrote = await lab.backend.runs.append_messages(run_id=new_id, messages=turn(2, "own"))
    assert wrote.message_count == at_message + 2
    await assert_holds(lab.reader, new_id, turn(at_message) + turn(2, "own"))
    await assert_holds(lab.reader, source, turn(15))


@proves(
    "RUN-F1",
    "RUN-F3",
    needs=("runs",),
    look_at="whether a fork copies entry by entry, or stamps anew",
)
async def test_entries_come_along_unchanged(lab: Lab) -> None:
    source = await start_run(lab, [Message(role="user", text="stamped by the store")] * 3)
    before = await load(lab.reader, source)
    copy = await load(lab.reader, await fork(lab, source))
    assert_same(list(copy.messages), list(before.messages), "messages of the fork")


@proves("RUN-F3", needs=("runs", "clock"), look_at="which times a fork is given")
async def test_a_fork_is_as_old_as_the_fork(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    source = await start_run(lab, turn(2), client=client)
    before = await header(client, source)
    now = clock.move(86_400)
    new_id = await fork(lab, source, client=client)
    assert (await header(client, new_id)).created_at == now
    assert_same(await header(client, source), before, "the header of the source after a fork")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"a": "1", "b": "2"}),
        ({}, {}),
        ({"a": "9"}, {"a": "9"}),
        ({"c": "3"}, {"c": "3"}),
    ],
    ids=["none given", "an empty set", "another value", "another key"],
)
@proves("RUN-F3", needs=("runs",), look_at="whether labels that are given replace the source's")
async def test_labels_are_the_sources_unless_some_are_given(
    lab: Lab, given: dict[str, str] | None, expected: dict[str, str]
) -> None:
    source = await start_run(lab, turn(1), labels={"a": "1", "b": "2"})
    new_id = lab.new_id("fork")
    await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id, labels=given)
    await assert_labels(lab.reader, new_id, expected)
    await assert_labels(lab.reader, source, {"a": "1", "b": "2"})


@proves(
    "RUN-F3", "RUN-Q5", needs=("runs",), look_at="whether a fork's labels reach the label index"
)
async def test_a_fork_is_listed_by_the_labels_that_it_got(lab: Lab) -> None:
    old, new = {"of": lab.new_id("label")}, {"of": lab.new_id("label")}
    source = await start_run(lab, labels=old)
    heir, other = lab.new_id("fork"), lab.new_id("fork")
    await lab.backend.runs.fork_run(run_id=source, new_run_id=heir)
    await lab.backend.runs.fork_run(run_id=source, new_run_id=other, labels=new)
    assert set(ids(await walk(lab.reader, 7, labels=old))) == {source, heir}
    assert ids(await walk(lab.reader, 7, labels=new)) == [other]


@proves(
    "RUN-F3", "RUN-F11", needs=("runs",), look_at="whose fork_point and parent a grandchild has"
)
async def test_the_fork_of_a_fork_counts_all_that_came_along(lab: Lab) -> None:
    root = await start_run(lab, turn(4))
    child = await fork(lab, root, 3)
    await lab.backend.runs.append_messages(run_id=child, messages=turn(4, "child"))
    leaf = await fork(lab, child, 5)
    info = await header(lab.reader, leaf)
    assert (info.parent_id, info.fork_point) == (child, 5)
    await assert_holds(lab.reader, leaf, turn(3) + turn(2, "child"))


@proves("RUN-C1", "RUN-F3", needs=("runs",), look_at="where fork_run makes an id")
async def test_a_fork_without_an_id_gets_one_of_its_own(lab: Lab) -> None:
    source = await start_run(lab, turn(3))
    answers = [await lab.backend.runs.fork_run(run_id=source, at_message=2) for _ in range(20)]
    made = {answer.run_id for answer in answers}
    assert len(made) == 20
    assert source not in made
    assert "" not in made
    assert all(told(answer) == (True, True, source, 2) for answer in answers)
    for run_id in made:
        await assert_holds(lab.reader, run_id, turn(2))


# What the answer speaks of


@proves(
    "RUN-F4",
    needs=("runs",),
    look_at="whether fork_run looks for its source before it claims an id",
)
async def test_a_fork_of_an_unknown_run_brings_nothing_to_life(lab: Lab) -> None:
    gone = await start_run(lab, turn(2))
    await lab.backend.runs.delete_run(run_id=gone)
    for source in (lab.new_id("run"), gone):
        for at_message in (0, 1, -1):
            new_id = lab.new_id("fork")
            answer = await lab.backend.runs.fork_run(
                run_id=source, new_run_id=new_id, at_message=at_message, labels={"a": "b"}
            )
            assert told(answer) == (False, False, "", 0)
            assert await is_gone(lab.reader, new_id)
            assert (await lab.backend.runs.create_run(run_id=new_id)).created
            await assert_holds(lab.reader, new_id, [])


@proves(
    "RUN-F4", "RUN-F5", needs=("runs",), look_at="whether the run at the new id is looked up too"
)
async def test_the_answer_speaks_of_the_run_at_the_new_id_even_without_a_source(lab: Lab) -> None:
    parent = await start_run(lab, turn(4))
    taken = await fork(lab, parent, 3)
    answer = await lab.backend.runs.fork_run(run_id=lab.new_id("run"), new_run_id=taken)
    assert told(answer) == (False, False, parent, 3)
    plain = await start_run(lab)
    answer = await lab.backend.runs.fork_run(run_id=lab.new_id("run"), new_run_id=plain)
    assert told(answer) == (False, False, "", 0)
    await assert_holds(lab.reader, taken, turn(3))


@pytest.mark.parametrize("at_message", [0, 1, 9])
@proves("RUN-F5", needs=("runs",), look_at="what fork_run does when its new id is taken")
async def test_a_taken_id_is_left_alone_and_its_lineage_told(lab: Lab, at_message: int) -> None:
    source = await start_run(lab, turn(3), deltas(3), labels={"of": "source"})
    parent = await start_run(lab, turn(7, "p"), labels={"of": "parent"})
    plain = await start_run(lab, turn(2, "plain"), deltas(1, "plain"))
    stranger = await fork(lab, parent, 5)
    for taken, parent_id, point in ((plain, "", 0), (stranger, parent, 5), (parent, "", 0)):
        before = await load(lab.reader, taken)
        answer = await lab.backend.runs.fork_run(
            run_id=source, new_run_id=taken, at_message=at_message, labels={"new": "label"}
        )
        assert answer.run_id == taken
        assert told(answer) == (True, False, parent_id, point)
        assert_same(await load(lab.reader, taken), before, "the run at the taken id")


@pytest.mark.parametrize("at_message", [0, 1, 2, 3, -1])
@proves("RUN-F5", needs=("runs",), look_at="whether fork_run may be given its source's own id")
async def test_a_run_cannot_be_forked_onto_itself(lab: Lab, at_message: int) -> None:
    source = await start_run(lab, turn(3), deltas(2), labels={"a": "b"})
    before = await load(lab.reader, source)
    answer = await lab.backend.runs.fork_run(
        run_id=source, new_run_id=source, at_message=at_message, labels={}
    )
    assert told(answer) == (True, False, "", 0)
    assert_same(await load(lab.reader, source), before, "the source")
    wrote = await lab.backend.runs.append_messages(run_id=source, messages=turn(1, first=3))
    assert wrote.applied
    assert wrote.message_count == 4


@pytest.mark.parametrize(
    "changes",
    [{}, {"at_message": 1}, {"at_message": 4}, {"labels": {"new": "label"}}],
    ids=["the same", "an earlier cut", "a later cut", "other labels"],
)
@proves("RUN-F5", "RUN-F7", needs=("runs",), look_at="what a repeated fork writes")
async def test_a_repeated_fork_finds_the_first_one_as_it_is_now(
    lab: Lab, changes: dict[str, Any]
) -> None:
    source = await start_run(lab, turn(4), deltas(2), labels={"a": "b"})
    new_id = lab.new_id("fork")
    request: dict[str, Any] = {"run_id": source, "new_run_id": new_id, "at_message": 2}
    first = await lab.backend.runs.fork_run(**request)
    await lab.backend.runs.append_messages(
        run_id=new_id, messages=turn(3, "own"), events=deltas(1, "own")
    )
    await lab.backend.runs.append_messages(run_id=source, messages=turn(2, first=4))
    before = await load(lab.reader, new_id)
    again = await lab.reader.runs.fork_run(**request | changes)
    assert told(first) == (True, True, source, 2)
    assert told(again) == (True, False, source, 2)
    assert_same(await load(lab.reader, new_id), before, "the fork after it was forked again")
    await assert_holds(lab.reader, new_id, turn(2) + turn(3, "own"), deltas(1, "own"))


@proves("RUN-F4", "RUN-F5", "RUN-F7", needs=("runs",), look_at="whether a retry needs its source")
async def test_a_repeated_fork_tells_its_lineage_when_the_source_is_gone(lab: Lab) -> None:
    source = await start_run(lab, turn(4))
    new_id = await fork(lab, source, 2)
    await lab.backend.runs.delete_run(run_id=source)
    again = await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id, at_message=2)
    assert told(again) == (False, False, source, 2)
    await assert_holds(lab.reader, new_id, turn(2))


@proves("RUN-F7", "RUN-D3", needs=("runs",), look_at="what a deleted fork leaves at its id")
async def test_a_fork_to_the_id_of_a_deleted_one_takes_the_source_as_it_is_now(lab: Lab) -> None:
    source = await start_run(lab, turn(2))
    new_id = await fork(lab, source)
    await lab.backend.runs.append_messages(
        run_id=new_id, messages=turn(3, "own"), idempotency_key="a key"
    )
    await lab.backend.runs.delete_run(run_id=new_id)
    await lab.backend.runs.append_messages(run_id=source, messages=turn(2, first=2))
    answer = await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id)
    assert told(answer) == (True, True, source, 4)
    await assert_holds(lab.reader, new_id, turn(4))
    wrote = await lab.backend.runs.append_messages(
        run_id=new_id, messages=turn(3, "own"), idempotency_key="a key"
    )
    assert wrote.applied, "the new fork knows a key of the old one"


@pytest.mark.parametrize(
    "labels",
    [{f"label {n}": "x" for n in range(65)}, {"": "x"}, {"a": "\ud800"}, {"a": 7}],
    ids=["65 labels", "an empty key", "a lone surrogate", "a number"],
)
@proves("RUN-F7", needs=("runs",), look_at="whether fork_run checks everything before it writes")
async def test_a_refused_fork_leaves_nothing(lab: Lab, labels: Any) -> None:
    source = await start_run(lab, turn(3))
    new_id = lab.new_id("fork")
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id, labels=labels)
    assert await is_gone(lab.reader, new_id)
    answer = await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id)
    assert told(answer) == (True, True, source, 3)


@pytest.mark.parametrize("at_message", [True, 1.0, "1", None], ids=repr)
@proves("RUN-F7", needs=("runs",), look_at="what the request accepts as at_message")
async def test_a_cut_that_is_no_integer_is_refused(lab: Lab, at_message: Any) -> None:
    source = await start_run(lab, turn(3))
    new_id = lab.new_id("fork")
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.fork_run(run_id=source, new_run_id=new_id, at_message=at_message)
    assert await is_gone(lab.reader, new_id)
