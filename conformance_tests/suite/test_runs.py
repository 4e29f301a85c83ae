"""Creating runs and labelling them."""

from datetime import timedelta
from typing import Any

import pytest

from conformance_tests import samples
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
    side_by_side,
    start_run,
    turn,
    walk,
)
from stores_core import InvalidRequestError

# Creating


@proves("RUN-C1", needs=("runs",), look_at="where create_run turns an empty id into a new one")
async def test_a_run_without_an_id_gets_one_of_its_own(lab: Lab) -> None:
    made = await lab.backend.runs.create_run(labels={"of": lab.new_id("label")})
    assert made.created, "a create with a generated id found a run there already"
    assert made.run_id, "the answer names no id"
    await assert_holds(lab.reader, made.run_id, [])


@proves("RUN-C1", needs=("runs",), look_at="how many random bits a generated id has")
async def test_generated_ids_never_repeat(lab: Lab) -> None:
    count = 40 if lab.quick else 200
    clients = (lab.backend, lab.reader)
    answers = await side_by_side(clients[n % 2].runs.create_run() for n in range(count))
    assert all(answer.created for answer in answers), "a generated id was taken"
    assert len({answer.run_id for answer in answers}) == count, "two creates got one id"


@proves("RUN-C1", needs=("runs", "clock"), look_at="where the random part of a new id comes from")
async def test_generated_ids_cannot_be_guessed_from_one_another(lab: Lab) -> None:
    client = await lab.open(clock=StoppedClock())
    made = [(await client.runs.create_run()).run_id for _ in range(100)]
    varied = sum(len(set(column)) >= 8 for column in zip(*made, strict=False))
    assert varied >= 20, f"only {varied} characters of an id are random; 128 bits need more"


@proves("RUN-C1", needs=("runs", "clock"), look_at="whether a new id begins with its time")
async def test_generated_ids_sort_by_time(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    made: list[str] = []
    for seconds in (0.002, 1, 60, 86_400, 400 * 86_400, 0.002):
        clock.move(seconds)
        made.append((await client.runs.create_run()).run_id)
        made.append((await client.runs.fork_run(run_id=made[-1])).run_id)
        clock.move(0.002)
    later = made[2:]
    assert all(a < b for a, b in zip(made, later, strict=False)), "a later id sorts earlier"


@proves("RUN-C2", needs=("runs",), look_at="what create_run answers for an id that is taken")
async def test_a_given_id_is_claimed_once(lab: Lab) -> None:
    run_id = lab.new_id("run")
    first = await lab.backend.runs.create_run(run_id=run_id)
    second = await lab.reader.runs.create_run(run_id=run_id)
    third = await lab.backend.runs.create_run(run_id=run_id)
    assert (first.created, second.created, third.created) == (True, False, False)
    assert first.run_id == second.run_id == third.run_id == run_id


@pytest.mark.parametrize("sample", samples.ids, ids=samples.name_of)
@proves("RUN-C2", needs=("runs",), look_at="how an id becomes a key, a row or a file name")
async def test_a_run_is_found_under_the_very_id_it_was_given(
    lab: Lab, sample: samples.Sample
) -> None:
    run_id, label = sample.value + lab.new_id("run"), {"of": lab.new_id("label")}
    made = await lab.backend.runs.create_run(run_id=run_id, labels=label)
    assert made.created
    assert made.run_id == run_id
    wrote = await lab.backend.runs.append_messages(run_id=run_id, messages=turn(1))
    assert wrote.applied
    await assert_holds(lab.reader, run_id, turn(1))
    assert ids(await walk(lab.reader, 7, labels=label)) == [run_id]
    assert (await lab.backend.runs.delete_run(run_id=run_id)).deleted
    assert await is_gone(lab.reader, run_id)


@pytest.mark.parametrize(
    "labels",
    [{}, {"colour": "red"}, {"colour": "blue"}, {"size": "xl"}],
    ids=["none", "same", "other value", "other key"],
)
@proves("RUN-C2", needs=("runs",), look_at="what create_run writes when the id is taken")
async def test_a_found_create_leaves_the_run_as_it_was(lab: Lab, labels: dict[str, str]) -> None:
    run_id = await start_run(lab, turn(3), deltas(2), labels={"colour": "red"})
    before = await header(lab.reader, run_id)
    again = await lab.backend.runs.create_run(run_id=run_id, labels=labels)
    assert not again.created
    assert_same(await header(lab.reader, run_id), before, "the header after a found create")
    await assert_holds(lab.reader, run_id, turn(3), deltas(2))


@proves("RUN-C2", needs=("runs", "clock"), look_at="whether a found create writes its times")
async def test_a_found_create_keeps_the_times_of_the_run(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    made_at = clock.now
    run_id = await start_run(lab, client=client)
    clock.move(3600)
    assert not (await client.runs.create_run(run_id=run_id)).created
    info = await header(client, run_id)
    assert (info.created_at, info.updated_at) == (made_at, made_at)


@proves(
    "RUN-C2", needs=("runs",), look_at="whether a fork keeps its lineage when it is created again"
)
async def test_a_found_create_leaves_a_fork_a_fork(lab: Lab) -> None:
    run_id = await fork(lab, await start_run(lab, turn(3)), 2)
    before = await header(lab.reader, run_id)
    assert not (await lab.backend.runs.create_run(run_id=run_id)).created
    assert_same(await header(lab.reader, run_id), before, "the header after a found create")


@proves("RUN-C4", needs=("runs",), look_at="which fields create_run writes, and when they are read")
async def test_a_new_run_is_empty_and_has_its_labels(lab: Lab) -> None:
    labels = {"user": "ü", "a b": "%", "B": "b"}
    run_id = await start_run(lab, labels=labels)
    info = await header(lab.reader, run_id)
    assert info.id == run_id
    await assert_labels(lab.reader, run_id, labels)
    assert (info.parent_id, info.fork_point) == ("", 0)
    assert info.created_at == info.updated_at
    assert info.created_at.utcoffset() == timedelta(0), "created_at is not in UTC"
    await assert_holds(lab.reader, run_id, [])


_unfit_labels: dict[str, Any] = {
    "65 labels": {f"label {n}": "x" for n in range(65)},
    "an empty key": {"fine": "x", "": "x"},
    "an empty value": {"fine": "x", "key": ""},
    "NUL in a key": {"fine": "x", "k\0": "x"},
    "NUL in a value": {"fine": "x", "key": "\0"},
    "a lone surrogate": {"fine": "x", "key": "\ud800"},
    "a number": {"fine": "x", "key": 7},
    "null": {"fine": "x", "key": None},
    "a long value": {"fine": "x", "key": "x" * 513},
}


@pytest.mark.parametrize("labels", _unfit_labels.values(), ids=_unfit_labels)
@proves("RUN-C4", needs=("runs",), look_at="whether create_run checks everything before it writes")
async def test_a_refused_create_leaves_nothing(lab: Lab, labels: Any) -> None:
    run_id = lab.new_id("run")
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.create_run(run_id=run_id, labels=labels)
    assert await is_gone(lab.reader, run_id), "half a run is there after an error"
    assert (await lab.backend.runs.create_run(run_id=run_id)).created, "the id is taken"
    assert not (await header(lab.reader, run_id)).labels


# Labels


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, {"a": "1", "b": "2"}),
        ({"c": "3"}, {"a": "1", "b": "2", "c": "3"}),
        ({"a": "9"}, {"a": "9", "b": "2"}),
        ({"a": None}, {"b": "2"}),
        ({"a": None, "b": None}, {}),
        ({"zz": None}, {"a": "1", "b": "2"}),
        ({"a": None, "c": "3", "b": "8"}, {"b": "8", "c": "3"}),
        ({"A": "3"}, {"a": "1", "A": "3", "b": "2"}),
        ({"a ": "3"}, {"a": "1", "a ": "3", "b": "2"}),
    ],
    ids=[
        "none",
        "add",
        "replace",
        "remove",
        "remove all",
        "remove unknown",
        "mixed",
        "case",
        "space",
    ],
)
@proves("RUN-U1", needs=("runs",), look_at="how update_run merges labels")
async def test_labels_are_merged_key_by_key(
    lab: Lab, changes: dict[str, str | None], left: dict[str, str]
) -> None:
    run_id = await start_run(lab, labels={"a": "1", "b": "2"})
    assert (await lab.backend.runs.update_run(run_id=run_id, labels=changes)).found
    await assert_labels(lab.reader, run_id, left)


@proves("RUN-U1", needs=("runs", "clock"), look_at="which columns update_run touches")
async def test_an_update_of_labels_changes_nothing_else_but_updated_at(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(clock=clock)
    source = await start_run(lab, turn(3), deltas(2), client=client)
    run_id = await fork(lab, source, client=client)
    before = await header(client, run_id)
    now = clock.move(60)
    await client.runs.update_run(run_id=run_id, labels={"state": "done"})
    expected = before.model_copy(update={"labels": {"state": "done"}, "updated_at": now})
    assert_same(await header(client, run_id), expected, "the header after a label update")
    await assert_holds(client, run_id, turn(3), deltas(2))


@proves("RUN-U1", needs=("runs",), look_at="whether update_run inserts a run that is not there")
async def test_an_update_of_an_unknown_run_brings_none_to_life(lab: Lab) -> None:
    run_id = lab.new_id("run")
    assert not (await lab.backend.runs.update_run(run_id=run_id, labels={"a": "b"})).found
    assert await is_gone(lab.reader, run_id)
    assert (await lab.backend.runs.create_run(run_id=run_id)).created
    assert not (await header(lab.reader, run_id)).labels


@proves("RUN-U1", needs=("runs",), look_at="where the merged labels are counted")
async def test_a_merge_never_leaves_more_than_64_labels(lab: Lab) -> None:
    full = {f"label {n:02}": "x" for n in range(64)}
    run_id = await start_run(lab, labels=full)
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.update_run(run_id=run_id, labels={"one more": "x"})
    await assert_labels(lab.reader, run_id, full)
    swap: dict[str, str | None] = {"label 00": None, "one more": "x"}
    assert (await lab.backend.runs.update_run(run_id=run_id, labels=swap)).found
    labels = (await header(lab.reader, run_id)).labels
    assert len(labels) == 64
    assert "one more" in labels
    assert "label 00" not in labels


@proves("RUN-U1", needs=("runs",), look_at="whether a label index follows what update_run changes")
async def test_a_listing_follows_a_change_of_labels(lab: Lab) -> None:
    old, new = lab.new_id("label"), lab.new_id("label")
    run_id = await start_run(lab, labels={"of": old})
    await lab.backend.runs.update_run(run_id=run_id, labels={"of": new})
    assert await walk(lab.reader, 7, labels={"of": old}) == []
    assert ids(await walk(lab.reader, 7, labels={"of": new})) == [run_id]
    await lab.backend.runs.update_run(run_id=run_id, labels={"of": None})
    assert await walk(lab.reader, 7, labels={"of": new}) == []
