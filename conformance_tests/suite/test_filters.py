"""Filters of a listing, and what moves `updated_at`."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    StoppedClock,
    deltas,
    fork,
    header,
    ids,
    start_run,
    turn,
    walk,
)
from stores_core import Backend

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


@proves("RUN-Q5", needs=("runs",), look_at="what parent_id is compared with")
async def test_parent_id_lists_the_forks_made_of_that_run_alone(lab: Lab) -> None:
    root = await start_run(lab, turn(3))
    children = [await fork(lab, root, n) for n in range(4)]
    grandchild = await fork(lab, children[0])
    for page in (1, 3, 4, 50):
        found = ids(await walk(lab.reader, page, parent_id=root))
        assert sorted(found) == sorted(children)
        assert len(found) == 4
    assert ids(await walk(lab.reader, 7, parent_id=children[0])) == [grandchild]
    assert await walk(lab.reader, 7, parent_id=grandchild) == []
    assert await walk(lab.reader, 7, parent_id=lab.new_id("run")) == []


@proves(
    "RUN-Q5", needs=("runs",), look_at="whether one run with an id is taken for the next one of it"
)
async def test_parent_id_speaks_of_an_id_whatever_became_of_the_parent(lab: Lab) -> None:
    root = await start_run(lab, turn(3))
    old = await fork(lab, root)
    await lab.backend.runs.delete_run(run_id=root)
    assert ids(await walk(lab.reader, 7, parent_id=root)) == [old]
    await lab.backend.runs.create_run(run_id=root)
    new = await fork(lab, root)
    assert set(ids(await walk(lab.reader, 7, parent_id=root))) == {old, new}


@proves("RUN-Q5", needs=("runs",), look_at="how several labels are combined")
async def test_labels_filter_by_equality_on_all_that_are_given(lab: Lab) -> None:
    stem = lab.new_id("label")
    made = {
        name: await start_run(lab, labels=labels)
        for name, labels in {
            "both": {stem: "x", stem + "2": "y"},
            "one": {stem: "x"},
            "other": {stem + "2": "y"},
            "prefix": {stem: "xx", stem + "2": "y"},
            "case": {stem: "X", stem + "2": "y"},
            "swapped": {stem: "y", stem + "2": "x"},
            "joined": {stem: "x:y", stem + "2": "%"},
        }.items()
    }

    async def found(labels: dict[str, str]) -> set[str]:
        listed = set(ids(await walk(lab.reader, 3, labels=labels)))
        return {name for name, run_id in made.items() if run_id in listed}

    assert await found({stem: "x"}) == {"both", "one"}
    assert await found({stem: "x", stem + "2": "y"}) == {"both"}
    assert await found({stem + "2": "y"}) == {"both", "other", "prefix", "case"}
    assert await found({stem: "y"}) == {"swapped"}
    assert await found({stem + "2": "%"}) == {"joined"}
    assert await found({stem + "2": "*"}) == set()
    assert await found({stem: stem}) == set()
    assert await found({stem: "x", stem + "3": "y"}) == set()


@proves("RUN-Q5", needs=("runs",), look_at="how parent_id and labels are combined")
async def test_all_filters_hold_together(lab: Lab) -> None:
    label = {"of": lab.new_id("label")}
    one, two = await start_run(lab, labels=label), await start_run(lab)
    wanted = await fork(lab, one)
    await fork(lab, two)
    both = await walk(lab.reader, 7, labels=label, parent_id=one, updated_before=LAST)
    assert ids(both) == [wanted]
    assert await walk(lab.reader, 7, labels=label, parent_id=two) == []
    assert await walk(lab.reader, 7, labels=label, parent_id=one, updated_before=FIRST) == []


@proves("RUN-Q5", needs=("runs", "clock"), look_at="which times updated_before is compared with")
async def test_updated_before_keeps_the_runs_that_were_idle_since(lab: Lab) -> None:
    clock, label = StoppedClock(), {"of": lab.new_id("label")}
    client = await lab.open(clock=clock)
    idle = await start_run(lab, turn(1), labels=label, client=client)
    busy = await start_run(lab, turn(1), labels=label, client=client)
    labelled = await start_run(lab, turn(1), labels=label, client=client)
    moment = clock.move(60)
    clock.move(60)
    await client.runs.append_events(run_id=busy, events=deltas(1))
    await client.runs.update_run(run_id=labelled, labels={"more": "x"})
    late = await start_run(lab, labels=label, client=client)
    for page in (1, 2, 7):
        assert ids(await walk(client, page, labels=label, updated_before=moment)) == [idle]
        every = await walk(client, page, labels=label, updated_before=clock.now + timedelta(1))
        assert set(ids(every)) == {idle, busy, labelled, late}
    last = (await header(client, idle)).updated_at  # not before itself, but before what follows
    assert ids(await walk(client, 7, labels=label, updated_before=last)) == []
    following = last + timedelta(microseconds=1)
    assert ids(await walk(client, 7, labels=label, updated_before=following)) == [idle]
    changed = (await header(client, busy)).updated_at  # after it was created
    assert ids(await walk(client, 7, labels=label, updated_before=changed)) == [idle]
    zone = moment.astimezone(datetime.now().astimezone().tzinfo)
    assert ids(await walk(client, 7, labels=label, updated_before=zone)) == [idle]


@proves("RUN-Q5", needs=("runs", "clock", "tenant"), look_at="a filter that is the only one")
async def test_updated_before_alone_keeps_the_runs_that_were_idle_since(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock, tenant=lab.new_id("tenant"))
    idle = [await start_run(lab, turn(1), client=client) for _ in range(3)]
    busy = await start_run(lab, turn(1), client=client)
    moment = clock.move(60)
    clock.move(60)
    await client.runs.append_events(run_id=busy, events=deltas(1))
    await start_run(lab, client=client)
    for page in (1, 7):
        assert sorted(ids(await walk(client, page, updated_before=moment))) == sorted(idle)


Act = Callable[[Backend, str], Awaitable[object]]

_STILL: dict[str, Act] = {
    "get_run": lambda client, run_id: client.runs.get_run(run_id=run_id),
    "load_run": lambda client, run_id: client.runs.load_run(run_id=run_id),
    "read_messages": lambda client, run_id: client.runs.read_messages(run_id=run_id),
    "read_events": lambda client, run_id: client.runs.read_events(run_id=run_id),
    "list_runs": lambda client, run_id: client.runs.list_runs(limit=5),
    "fork_run": lambda client, run_id: client.runs.fork_run(run_id=run_id),
    "a fork onto itself": lambda client, run_id: client.runs.fork_run(
        run_id=run_id, new_run_id=run_id
    ),
    "a found create": lambda client, run_id: client.runs.create_run(run_id=run_id),
    "an empty append": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=[]
    ),
    "a conflict": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=turn(1), expected_count=9
    ),
    "a duplicate": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=turn(1), idempotency_key="a key"
    ),
}
_MOVING: dict[str, Act] = {
    "append_messages": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=turn(1)
    ),
    "append_events": lambda client, run_id: client.runs.append_events(
        run_id=run_id, events=deltas(1)
    ),
    "events alone": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=[], events=deltas(1)
    ),
    "a keyed append": lambda client, run_id: client.runs.append_messages(
        run_id=run_id, messages=turn(1), idempotency_key="b key"
    ),
    "update_run": lambda client, run_id: client.runs.update_run(run_id=run_id, labels={"a": "b"}),
}


@pytest.mark.parametrize("operation", [*_STILL, *_MOVING])
@proves("RUN-Q5", needs=("runs", "clock"), look_at="which operations write updated_at")
async def test_updated_at_moves_with_appends_and_label_updates_only(
    lab: Lab, operation: str
) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    made_at = clock.now
    run_id = await start_run(lab, client=client)
    written_at = clock.move(60)
    await client.runs.append_messages(run_id=run_id, messages=turn(1), idempotency_key="a key")
    now = clock.move(60)
    await (_STILL | _MOVING)[operation](client, run_id)
    info = await header(client, run_id)
    assert info.created_at == made_at, "created_at moved"
    assert info.updated_at == (now if operation in _MOVING else written_at)
