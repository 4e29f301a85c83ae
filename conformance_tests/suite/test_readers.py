"""Many readers at once, and nobody who writes: each gets the whole, and gets it once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite import notes
from conformance_tests.suite.steps import (
    by_turns,
    deltas,
    fork,
    ids,
    load,
    read_events,
    read_messages,
    side_by_side,
    sides,
    start_run,
    turn,
    walk,
)
from conformance_tests.suite.test_tool_results import put, text_result
from conformance_tests.suite.test_tool_results import walk as walk_results
from stores_core import Backend

READERS, ROUNDS = 8, 3
MORE_ROUNDS = 20
"""Of what is so quick that readers seldom meet."""

PAGES = 1_000, 7
"""Page lengths: all in one page, and several pages."""

Read = Callable[[Backend], Awaitable[list[Any]]]


async def _each_gets(
    lab: Lab, read: Read, expected: list[Any], what: str, rounds: int = ROUNDS
) -> None:
    """Readers over both clients, all at once and each several times, get what one gets alone."""
    assert_same(await read(lab.reader), expected, f"{what}, read alone")

    async def reader(client: Backend) -> None:
        async for _ in by_turns(range(rounds)):
            found = await read(client)
            if found != expected:  # which tells faults of readers, and much sooner
                assert_same(found, expected, f"{what}, read by many at once")

    await asyncio.gather(*map(reader, sides(lab, READERS)))


def _count(lab: Lab) -> int:
    return 16 if lab.quick else 30


@proves(
    "ALL-7",
    "RUN-Q2",
    "RUN-Q5",
    needs=("runs",),
    look_at="what remembers how far a listing of runs has come: it belongs to one call",
)
async def test_many_who_list_runs_at_once_each_get_all(lab: Lab) -> None:
    labels = {"test": lab.new_id("label")}
    parent = await start_run(lab, turn(2))
    await side_by_side(start_run(lab, labels=labels) for _ in range(_count(lab)))
    await side_by_side(fork(lab, parent) for _ in range(_count(lab)))
    for filters in ({"labels": labels}, {"parent_id": parent}):
        for limit in PAGES:

            async def read(
                client: Backend, limit: int = limit, filters: Any = filters
            ) -> list[Any]:
                return ids(await walk(client, limit, **filters))

            expected = await read(lab.backend)
            assert len(set(expected)) == len(expected) == _count(lab)
            await _each_gets(lab, read, expected, f"runs by pages of {limit}")


@proves(
    "ALL-7",
    "MEM-13",
    needs=("memory",),
    look_at="what remembers how far a listing of namespaces has come, as an open folder does",
)
async def test_many_who_list_namespaces_at_once_each_get_all(lab: Lab) -> None:
    prefix = lab.new_id("notes")
    names = [f"{prefix}/{n:03}" for n in range(_count(lab))]
    await side_by_side(notes.write(lab.backend, name, "k") for name in names)
    for limit in PAGES:

        async def read(client: Backend, limit: int = limit) -> list[Any]:
            return await notes.walk_namespaces(client, prefix, limit)

        rounds = MORE_ROUNDS if limit >= len(names) else 1
        await _each_gets(lab, read, names, f"namespaces by pages of {limit}", rounds)


@proves(
    "ALL-7",
    "MEM-3",
    "SUB-2",
    needs=("memory",),
    look_at="what remembers how far a listing of notes has come: it belongs to one call",
)
async def test_many_who_list_notes_at_once_each_get_all(lab: Lab) -> None:
    expected = [f"k{n:03}" for n in range(_count(lab))]
    space = await notes.fill(lab, [(key, "needle") for key in expected])

    async def unpaged(client: Backend) -> list[Any]:
        found = await client.memory.list_memories(namespace=space)
        return notes.keys(found.items)

    await _each_gets(lab, unpaged, expected, "notes in one listing")
    for limit in PAGES:

        async def read(client: Backend, limit: int = limit) -> list[Any]:
            return await notes.walk(client, space, limit)

        await _each_gets(lab, read, expected, f"notes by pages of {limit}")


@proves(
    "ALL-7",
    "TOOL-7",
    needs=("tool_results",),
    look_at="what remembers how far a listing of results has come: it belongs to one call",
)
async def test_many_who_list_tool_results_at_once_each_get_all(lab: Lab) -> None:
    labels = {"test": lab.new_id("label")}
    refs = [lab.new_id("ref") for _ in range(_count(lab))]
    await side_by_side(put(lab.backend, ref, text_result(ref), labels) for ref in refs)
    for limit in PAGES:

        async def read(client: Backend, limit: int = limit) -> list[Any]:
            return [info.ref for info in await walk_results(client, limit, labels)]

        expected = await read(lab.backend)
        assert sorted(expected) == sorted(refs)
        await _each_gets(lab, read, expected, f"results by pages of {limit}")


@proves(
    "ALL-7",
    "RUN-L1",
    "RUN-L2",
    "RUN-L3",
    needs=("runs",),
    look_at="what readers of one run share: a connection, an open file, its place there",
)
async def test_many_who_read_one_run_at_once_each_get_all(lab: Lab) -> None:
    count = _count(lab)
    run_id = await start_run(lab, turn(count), deltas(count))
    run_id = await fork(lab, run_id)
    await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(count, first=count), events=deltas(count, first=count)
    )

    async def loaded(client: Backend) -> list[Any]:
        run = await load(client, run_id)
        return [*run.messages, *run.events]

    async def newest(client: Backend) -> list[Any]:
        answer = await client.runs.load_run(run_id=run_id, last_messages=9, last_events=9)
        assert answer.run is not None
        return [*answer.run.messages, *answer.run.events]

    async def paged(client: Backend) -> list[Any]:
        return [*await read_messages(client, run_id), *await read_events(client, run_id)]

    messages, events = turn(2 * count), deltas(2 * count)
    await _each_gets(lab, loaded, [*messages, *events], "a run that is loaded")
    await _each_gets(lab, newest, [*messages[-9:], *events[-9:]], "the newest entries of a run")
    await _each_gets(lab, paged, [*messages, *events], "a run by pages")


@proves(
    "ALL-7",
    "TOOL-4",
    "TOOL-1",
    needs=("tool_results",),
    look_at="what readers of one result share: a connection, an open file, its place there",
)
async def test_many_who_read_one_tool_result_at_once_each_get_all(lab: Lab) -> None:
    ref, slices = lab.new_id("ref"), 10
    text = "".join(f"line {n} is \u00e9\n" for n in range(40 * _count(lab)))
    await put(lab.backend, ref, text_result(text))
    length = len(text) // slices + 1

    async def sliced(client: Backend) -> list[Any]:
        read = client.tool_results.read_tool_result
        parts = [await read(ref=ref, offset=n * length, limit=length) for n in range(slices)]
        return ["".join(part.text for part in parts)]

    async def whole(client: Backend) -> list[Any]:
        return [(await client.tool_results.get_tool_result(ref=ref)).result]

    await _each_gets(lab, sliced, [text], "a text by slices")
    await _each_gets(lab, whole, [text_result(text)], "a result")
