"""What is deleted or erased is gone with all that belonged to it: verify finds nothing of it."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.cargo import furnish
from conformance_tests.suite.notes import fill_many, reembed_all, write
from conformance_tests.suite.spelled import Spelled, spell
from conformance_tests.suite.steps import (
    deltas,
    fork,
    start_run,
    sweep_all,
    turn,
)
from conformance_tests.suite.test_tool_results import put, text_result
from stores_core import Backend, MemoryItem

LONG = "x" * 200_000
"""A text that a store may well keep in pieces."""


async def _family(lab: Lab, client: Backend) -> list[str]:
    """A run with labels, keys and entries, its fork and the fork of that."""
    root = await start_run(lab, turn(4), deltas(3), {"of": "root"}, client)
    found = [root]
    for _ in range(2):
        found.append(await fork(lab, found[-1], client=client))
        await client.runs.append_messages(
            run_id=found[-1], messages=turn(2), events=deltas(1), idempotency_key="key"
        )
    return found


async def _runs(lab: Lab, client: Backend, *, last_first: bool) -> None:
    family = await _family(lab, client)
    for run_id in reversed(family) if last_first else family:
        assert (await client.runs.delete_run(run_id=run_id)).deleted


async def _notes(lab: Lab, client: Backend) -> None:
    for value in ("old", "new"):
        await client.memory.put_memory(
            item=MemoryItem(key="k", value=spell(1, len(value)), metadata={"a": value, "b": 1})
        )
    assert (await client.memory.delete_memory(key="k")).deleted


async def _a_namespace(lab: Lab, client: Backend) -> None:
    items = [
        MemoryItem(key=f"k{n}", value=spell(1, n), metadata={"a": n % 3, "n": n}) for n in range(20)
    ]
    await fill_many(client, "space", items)
    await client.memory.clear_namespace(namespace="space")


async def _results(lab: Lab, client: Backend) -> None:
    for ref in ("a", "b"):
        await put(client, ref, text_result(LONG), {"of": "ref", "ref": ref})
        await put(client, ref, text_result("short"), {"of": "another"})
        assert (await client.tool_results.delete_tool_result(ref=ref)).deleted


NOTES = {"a note": _notes, "a namespace": _a_namespace}


async def _new_tenant(lab: Lab) -> tuple[str, Backend]:
    """A tenant of its own, with an embedder where the storage takes one."""
    tenant = lab.new_id("tenant")
    embedder = Spelled() if lab.meets("embeddings") else None
    return tenant, await lab.open(tenant=tenant, embedder=embedder)


async def _assert_whole(client: Backend, after: str, **budget: int) -> None:
    await sweep_all(client, **budget)
    found = (await client.admin.verify()).problems
    assert not found, f"after {after}: {[(one.store, one.what) for one in found]}"


Deleting = Callable[[Lab, Backend], Awaitable[None]]


async def _assert_nothing_is_left(lab: Lab, delete: Deleting) -> None:
    tenant, client = await _new_tenant(lab)
    await delete(lab, client)
    await _assert_whole(client, "deleting")
    erased = (await client.admin.erase_tenant(tenant=tenant)).erased
    assert not erased, "a tenant that holds nothing any more was erased"


@pytest.mark.parametrize("last_first", [False, True])
@proves(
    "RUN-D2",
    needs=("runs", "admin", "tenant"),
    look_at="what delete_run and sweep forget: keys, labels, ranges, entries",
)
async def test_deleted_runs_leave_nothing_that_verify_finds(lab: Lab, last_first: bool) -> None:
    await _assert_nothing_is_left(lab, partial(_runs, last_first=last_first))


@proves(
    "RUN-D2",
    needs=("runs", "admin", "tenant"),
    look_at="what sweep does with the last entries of a log, where its budget ends before them",
)
async def test_a_run_that_is_swept_little_by_little_leaves_nothing_that_verify_finds(
    lab: Lab,
) -> None:
    _, client = await _new_tenant(lab)
    run_id = await start_run(lab, client=client)
    for first in range(0, 2_100, 700):
        await client.runs.append_messages(run_id=run_id, messages=turn(700, first=first))
    short = await fork(lab, run_id, 1_050, client=client)
    for id in (run_id, short):
        assert (await client.runs.delete_run(run_id=id)).deleted
        await _assert_whole(client, "deleting", budget=7)


@pytest.mark.parametrize("what", NOTES)
@proves(
    "MEM-6",
    needs=("memory", "admin", "tenant"),
    look_at="what a delete of notes forgets: metadata to filter by, vectors",
)
async def test_deleted_notes_leave_nothing_that_verify_finds(lab: Lab, what: str) -> None:
    await _assert_nothing_is_left(lab, NOTES[what])


@proves(
    "TOOL-2",
    needs=("tool_results", "admin", "tenant"),
    look_at="what is left of a result that was replaced or deleted: pieces of text, labels",
)
async def test_deleted_results_leave_nothing_that_verify_finds(lab: Lab) -> None:
    await _assert_nothing_is_left(lab, _results)


@proves(
    *("ALL-10", "RUN-D2"),
    needs=("runs", "memory", "tool_results", "admin", "tenant"),
    look_at="what erase_tenant forgets: entries, keys, vectors, pieces of texts",
)
async def test_an_erased_tenant_leaves_nothing_that_verify_finds(lab: Lab) -> None:
    tenant, client = await _new_tenant(lab)
    await furnish(lab, client)
    await put(client, "long", text_result(LONG))
    assert (await client.admin.erase_tenant(tenant=tenant)).erased
    await _assert_whole(client, "erasing the tenant")
    checked = (await client.admin.verify()).checked
    assert not any(checked.values()), checked


@proves(
    "EMB-5",
    needs=("memory", "embeddings", "admin", "tenant"),
    look_at="the vectors of an embedder that another one took over from",
)
async def test_an_embedder_that_took_over_leaves_nothing_of_the_old_one(lab: Lab) -> None:
    tenant, first = await _new_tenant(lab)
    for n in range(5):
        await write(first, "space", f"k{n}", spell(1, n))
    second = await lab.open(tenant=tenant, embedder=Spelled(3, "another"))
    await reembed_all(second)
    await _assert_whole(second, "reembedding")
