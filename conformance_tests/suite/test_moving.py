"""Moving from one tenant to another: exports, runs, the prefixes that they share."""

import math
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.cargo import (
    MOVING,
    assert_same_cargo,
    bring,
    furnish,
    take,
    take_runs,
    tenants,
)
from conformance_tests.suite.steps import (
    UNTOUCHED,
    WRITTEN,
    StoppedClock,
    assert_holds,
    bytes_held,
    deltas,
    fork,
    header,
    ids,
    load,
    said,
    start_run,
    sweep_all,
    turn,
    walk,
)
from stores_core import (
    InvalidRequestError,
    MemoryItem,
    ToolResult,
)

# Equal exports


@pytest.mark.parametrize("page", [1, 7, 1_000])
@proves("MOVE-1", needs=MOVING, look_at="what an export leaves out, or an import makes anew")
async def test_export_import_and_export_again_give_equal_exports(lab: Lab, page: int) -> None:
    source, target = await tenants(lab)
    made = await furnish(lab, source)
    cargo = await take(source, page)
    assert sorted(run.info.id for run in cargo.runs) == sorted(made)
    await bring(target, cargo, piece=page)
    assert_same_cargo(await take(target, 7), cargo)
    assert_same_cargo(await take(source, 7), cargo)


@pytest.mark.parametrize("page", [1, 3, 1_000])
@proves(
    "MOVE-1",
    needs=(*MOVING, "memory", "tool_results"),
    look_at="what no export gives, so that two exports without it are equal",
)
async def test_an_export_holds_every_note_and_every_result(lab: Lab, page: int) -> None:
    source, _ = await tenants(lab)
    for n, namespace in enumerate(("", "a", "a:b", "z")):
        for key in "abc"[: n + 1]:
            note = MemoryItem(key=key, value="v")
            await source.memory.put_memory(item=note, namespace=namespace)
    for ref in "abcd":
        await source.tool_results.put_tool_result(ref=ref, result=ToolResult())
    cargo = await take(source, page)
    notes = [(record.namespace, record.item.key) for record in cargo.memories]
    held = {"": "a", "a": "ab", "a:b": "abc", "z": "abc"}
    assert notes == [(namespace, key) for namespace, keys in held.items() for key in keys]
    refs = [info.ref for info in (await source.tool_results.list_tool_results()).infos]
    assert sorted(refs) == list("abcd")
    assert [record.ref for record in cargo.results] == refs, "exported in listing order"


@proves(
    "MOVE-1",
    needs=(*MOVING, "memory", "tool_results"),
    look_at="when a page of an export ends: a client makes a round trip for each",
)
async def test_a_page_of_an_export_is_as_long_as_was_asked_for(lab: Lab) -> None:
    source, _ = await tenants(lab)
    for n in range(10):
        await start_run(lab, turn(1), client=source)
        note = MemoryItem(key=f"k{n}", value="v")
        await source.memory.put_memory(item=note, namespace="abc"[n % 3])
        await source.tool_results.put_tool_result(ref=f"r{n}", result=ToolResult())
    moving = source.moving
    cursors = {"runs": "", "memories": "", "results": ""}
    lengths: list[tuple[int, int, int]] = []
    for _ in range(3):
        runs = await moving.export_runs(cursor=cursors["runs"], limit=4)
        notes = await moving.export_memories(cursor=cursors["memories"], limit=4)
        results = await moving.export_tool_results(cursor=cursors["results"], limit=4)
        lengths.append((len(runs.runs), len(notes.memories), len(results.results)))
        cursors = {
            "runs": runs.next_cursor,
            "memories": notes.next_cursor,
            "results": results.next_cursor,
        }
    assert lengths == [(4, 4, 4), (4, 4, 4), (2, 2, 2)]
    assert not any(cursors.values()), "a cursor follows the last page"


@proves("MOVE-1", needs=MOVING, look_at="what an export does where it is given `run_id`")
async def test_a_run_that_is_asked_for_by_id_is_exported_alone(lab: Lab) -> None:
    source, stranger = await tenants(lab)
    made = await furnish(lab, source)
    records = {run.info.id: run for run in await take_runs(source)}
    for run_id in made:
        answer = await source.moving.export_runs(run_id=run_id, limit=1)
        assert_same(answer.runs, (records[run_id],), f"the export of {run_id} alone")
        assert not answer.next_cursor
    for client, absent in ((source, lab.new_id()), (stranger, made[0])):
        answer = await client.moving.export_runs(run_id=absent)
        assert not answer.runs, "another run is exported in place of one that is not there"
        assert not answer.next_cursor


@proves(
    "MOVE-1", needs=MOVING, look_at="whether an imported run is kept as one that was written here"
)
async def test_imported_runs_read_as_they_did(lab: Lab) -> None:
    source, target = await tenants(lab)
    made = await furnish(lab, source)
    await bring(target, await take(source))
    for run_id in made:
        assert_same(await load(target, run_id), await load(source, run_id), f"run {run_id}")
        info = await header(source, run_id)
        assert_same(await header(target, run_id), info, f"the header of {run_id}")
        run = await load(source, run_id)
        await assert_holds(target, run_id, run.messages, run.events, page=3)


@proves("MOVE-1", "RUN-Q1", "RUN-Q5", needs=MOVING, look_at="which indexes an import writes")
async def test_imported_runs_are_listed_as_they_were(lab: Lab) -> None:
    source, target = await tenants(lab)
    made = await furnish(lab, source)
    await bring(target, await take(source))
    everything = ids(await walk(source, 2))
    assert ids(await walk(target, 2)) == everything
    assert sorted(everything) == sorted(made)
    for labels in ({"of": "röot"}, {"leaf": "x"}, {"k": "v"}):
        assert ids(await walk(target, 1, labels=labels)) == ids(
            await walk(source, 1, labels=labels)
        )
    for parent in {(await header(source, run_id)).parent_id for run_id in made} - {""}:
        children = ids(await walk(source, 7, parent_id=parent))
        assert children
        assert ids(await walk(target, 7, parent_id=parent)) == children


@proves(
    "MOVE-1", "RUN-A7", needs=MOVING, look_at="whether keys travel with their digests and counts"
)
async def test_keys_stay_known_after_a_move(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, turn(1), client=source)
    send: dict[str, Any] = {"run_id": run_id, "messages": turn(2), "idempotency_key": "a key"}
    first = await source.runs.append_messages(**send)
    await source.runs.append_messages(run_id=run_id, messages=turn(5))
    await bring(target, await take(source))
    again = await target.runs.append_messages(**send)
    assert said(again) == UNTOUCHED
    assert again.message_count == first.message_count
    with pytest.raises(InvalidRequestError):
        await target.runs.append_messages(run_id=run_id, messages=turn(3), idempotency_key="a key")
    fresh = await target.runs.append_messages(
        run_id=run_id, messages=turn(1), idempotency_key="b key"
    )
    assert said(fresh) == WRITTEN


@proves(
    "MOVE-1",
    "RUN-A7",
    needs=MOVING,
    thorough=True,
    look_at="in which order the keys of a run are imported",
)
async def test_the_latest_128_keys_stay_the_latest_after_a_move(lab: Lab) -> None:
    source, target = await tenants(lab)
    run_id = await start_run(lab, client=source)

    def keyed(n: int) -> dict[str, Any]:
        return {"run_id": run_id, "messages": turn(1, first=n), "idempotency_key": f"key {n}"}

    for n in range(128):
        await source.runs.append_messages(**keyed(n))
    await bring(target, await take(source), piece=100)
    for n in range(128, 140):
        assert said(await target.runs.append_messages(**keyed(n))) == WRITTEN
    for n in range(12, 140):
        assert said(await target.runs.append_messages(**keyed(n))) == UNTOUCHED, f"key {n}"


@proves("MOVE-1", "RUN-F6", needs=MOVING, look_at="where a run that was imported writes")
async def test_imported_runs_go_on_and_stay_apart(lab: Lab) -> None:
    source, target = await tenants(lab)
    parent = await start_run(lab, turn(5), deltas(5), client=source)
    child = await fork(lab, parent, client=source)
    await bring(target, await take(source))
    held = {run_id: (turn(5), deltas(5)) for run_id in (parent, child)}
    for round_ in range(2):
        for run_id in (child, parent):
            more, more_events = turn(2, run_id, round_), deltas(1, run_id, round_)
            length = len(held[run_id][0])
            answer = await target.runs.append_messages(
                run_id=run_id, messages=more, events=more_events, expected_count=length
            )
            assert said(answer) == WRITTEN
            assert answer.message_count == length + 2
            held[run_id] = held[run_id][0] + more, held[run_id][1] + more_events
    leaf = await fork(lab, child, 6, client=target)
    held[leaf] = held[child][0][:6], []
    for run_id, (messages, events) in held.items():
        await assert_holds(target, run_id, messages, events)
    await target.runs.delete_run(run_id=parent)
    await assert_holds(target, child, *held[child])
    await assert_holds(source, parent, turn(5), deltas(5))
    await assert_holds(source, child, turn(5), deltas(5))


@proves("MOVE-1", needs=(*MOVING, "clock"), look_at="whether an import writes times of its own")
async def test_times_stay_what_they_were(lab: Lab) -> None:
    clock = StoppedClock()
    source, target = await tenants(lab, clock=clock)
    run_id = await start_run(lab, client=source)
    clock.move(0.000001)
    await source.runs.append_messages(run_id=run_id, messages=turn(1))
    expected = await header(source, run_id)
    cargo = await take(source)
    clock.move(86_400)
    await bring(target, cargo)
    assert_same(await header(target, run_id), expected, "the header")


# Shared prefixes


@proves("MOVE-3", needs=MOVING, look_at="whether forks refer to the log of their source")
async def test_a_shared_prefix_is_exported_and_imported_once(lab: Lab) -> None:
    source, target = await tenants(lab)
    root = await start_run(lab, turn(300), deltas(300), client=source)
    for n in range(10):
        child = await fork(lab, root, (0, 150)[n % 2], client=source)
        await source.runs.append_messages(run_id=child, messages=turn(1, child), events=deltas(1))
    cargo = await take(source, page=100)
    assert cargo.entries == 620, f"620 entries are exported as {cargo.entries}"
    for run in cargo.runs:
        assert run.info.message_count == sum(part.length for part in run.messages)
        assert run.info.event_count == sum(part.length for part in run.events)
    await bring(target, cargo, piece=100)
    again = await take(target, page=100)
    assert again.entries == 620, f"620 entries are stored as {again.entries}"
    assert_same(again.runs, cargo.runs, "the ranges that runs refer to")


@proves("MOVE-3", needs=(*MOVING, "admin"), look_at="whether an import copies for each run")
async def test_a_move_takes_no_more_bytes_than_there_were(lab: Lab) -> None:
    source, target = await tenants(lab)
    root = await start_run(lab, turn(500, "w" * 200), client=source)
    for _ in range(20):
        await fork(lab, root, client=source)
    empty = await bytes_held(lab, target)
    await bring(target, await take(source, page=100), piece=100)
    held, there = await bytes_held(lab, target) - empty, await bytes_held(lab, source)
    assert held <= 1.5 * there + 64 * 1024, f"{there} bytes have become {held}"


@proves(
    "MOVE-3", "RUN-D2", needs=(*MOVING, "admin"), look_at="what counts the users of an imported log"
)
async def test_imported_families_survive_deletions_and_sweeps(lab: Lab) -> None:
    source, target = await tenants(lab)
    root = await start_run(lab, turn(200, "w" * 200), client=source)
    child = await fork(lab, root, 5, client=source)
    leaf = await fork(lab, child, client=source)
    empty = await bytes_held(lab, target)
    await bring(target, await take(source, page=100), piece=100)
    await sweep_all(target)
    full = await bytes_held(lab, target) - empty
    await target.runs.delete_run(run_id=child)
    await sweep_all(target)
    await assert_holds(target, root, turn(200, "w" * 200), page=100)
    await target.runs.delete_run(run_id=root)
    await sweep_all(target, budget=20)
    await assert_holds(target, leaf, turn(5, "w" * 200))
    left = await bytes_held(lab, target) - empty
    assert left <= full // 4, f"a fork of 5 of 200 messages holds {left} of {full} bytes"
    await target.runs.delete_run(run_id=leaf)
    await sweep_all(target)
    left = await bytes_held(lab, target) - empty
    assert left <= full // 20, f"{left} of {full} bytes are held for no run"
    await assert_holds(source, leaf, turn(5, "w" * 200))


@proves(
    "RUN-F12",
    "MOVE-1",
    needs=MOVING,
    thorough=True,
    look_at="when ranges are joined, and which of them",
)
async def test_a_deep_family_refers_to_64_ranges_and_copies_little(lab: Lab) -> None:
    source, target = await tenants(lab)
    generations = 150 if lab.quick else 300
    run_id = await start_run(lab, client=source)
    made = [run_id]
    for n in range(generations):
        await source.runs.append_messages(
            run_id=run_id, messages=turn(1, first=n), events=deltas(1, first=n)
        )
        made.append(run_id := await fork(lab, run_id, client=source))
    cargo = await take(source, page=100)
    for run in cargo.runs:
        assert len(run.messages) <= 64, f"{len(run.messages)} ranges of messages"
        assert len(run.events) <= 64, f"{len(run.events)} ranges of events"
    most = 2 * generations * (math.log2(generations) + 2)
    assert cargo.entries <= most, f"{2 * generations} entries are stored {cargo.entries} times"
    await bring(target, cargo, piece=100)
    for n in (1, 63, 64, 65, generations // 2, generations):
        length = min(n + 1, generations)
        await assert_holds(target, made[n], turn(length), deltas(length), page=50)
    more = await fork(lab, run_id, generations - 1, client=target)
    await target.runs.append_messages(run_id=more, messages=turn(2, "here"))
    await assert_holds(target, more, turn(generations - 1) + turn(2, "here"), page=50)
