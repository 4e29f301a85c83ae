"""What is moved between two tenants: taken out whole, brought in by steps that may be cut."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.suite.steps import deltas, fork, start_run, turn
from stores_core import (
    Backend,
    EmbedderInfo,
    ImportOutcome,
    MemoryItem,
    MemoryRecord,
    RunRecord,
    ToolResultRecord,
)

Step = Callable[[], Awaitable[object]]

MOST_PAGES = 10_000

MOVING = ("runs", "moving", "tenant")
"""What most tests of moving need."""


@dataclass
class Cargo:
    """All that a tenant exports; ``logs`` as far as runs refer to them."""

    runs: list[RunRecord] = field(default_factory=list[RunRecord])
    logs: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    memories: list[MemoryRecord] = field(default_factory=list[MemoryRecord])
    embedder: EmbedderInfo | None = None
    version_floor: int = 0
    results: list[ToolResultRecord] = field(default_factory=list[ToolResultRecord])

    @property
    def entries(self) -> int:
        """How many entries all logs hold together."""
        return sum(map(len, self.logs.values()))


async def take(client: Backend, page: int = 7) -> Cargo:
    """Export everything, by pages of this size."""
    cargo = Cargo(runs=await take_runs(client, page))
    needed: dict[str, int] = {}
    for run in cargo.runs:
        for part in (*run.messages, *run.events):
            needed[part.log] = max(part.length, needed.get(part.log, 0))
    for log, length in needed.items():
        cargo.logs[log] = (await take_log(client, log, page))[:length]
        assert len(cargo.logs[log]) == length, f"a run refers to {length} entries of log {log}"
    if "memory" in client.offered:
        await _take_memories(client, cargo, page)
    if "tool_results" in client.offered:
        cargo.results = await _take_results(client, page)
    return cargo


async def take_runs(client: Backend, page: int = 7) -> list[RunRecord]:
    """The records of all runs."""
    runs: list[RunRecord] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        answer = await client.moving.export_runs(cursor=cursor, limit=page)
        assert len(answer.runs) <= page
        runs += answer.runs
        cursor = answer.next_cursor
        if not cursor:
            return runs
    raise AssertionError("the export of runs never ends")


async def take_log(client: Backend, log: str, page: int) -> list[bytes]:
    """All entries of one log."""
    entries: list[bytes] = []
    while True:
        answer = await client.moving.export_entries(log=log, start=len(entries), limit=page)
        assert len(answer.entries) <= page
        entries += answer.entries
        if len(entries) >= answer.length:
            return entries
        assert answer.entries, f"log {log} has {answer.length} entries and gives no more"


async def _take_memories(client: Backend, cargo: Cargo, page: int) -> None:
    cursor = ""
    for _ in range(MOST_PAGES):
        answer = await client.moving.export_memories(cursor=cursor, limit=page)
        cargo.memories += answer.memories
        cargo.embedder, cargo.version_floor = answer.embedder, answer.version_floor
        cursor = answer.next_cursor
        if not cursor:
            return
    raise AssertionError("the export of notes never ends")


async def _take_results(client: Backend, page: int) -> list[ToolResultRecord]:
    results: list[ToolResultRecord] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        answer = await client.moving.export_tool_results(cursor=cursor, limit=page)
        results += answer.results
        cursor = answer.next_cursor
        if not cursor:
            return results
    raise AssertionError("the export of tool results never ends")


def steps_of(target: Backend, cargo: Cargo, piece: int = 5) -> list[Step]:
    """The import of all of it as calls in order: logs by pieces, then runs, notes, results."""
    moving = target.moving
    steps: list[Step] = []
    for log, entries in cargo.logs.items():
        for start in range(0, len(entries), piece):
            cut = entries[start : start + piece]
            steps.append(
                lambda log=log, start=start, cut=cut: moving.import_entries(
                    log=log, start=start, entries=cut
                )
            )
    for run in reversed(cargo.runs):
        steps.append(lambda run=run: moving.import_run(run=run))
    for first in range(0, len(cargo.memories), piece):
        notes = cargo.memories[first : first + piece]
        steps.append(
            lambda notes=notes: moving.import_memories(
                memories=notes, embedder=cargo.embedder, version_floor=cargo.version_floor
            )
        )
    for first in range(0, len(cargo.results), piece):
        results = cargo.results[first : first + piece]
        steps.append(lambda results=results: moving.import_tool_results(results=results))
    return steps


async def bring(target: Backend, cargo: Cargo, piece: int = 5) -> None:
    """Import all of it."""
    for step in steps_of(target, cargo, piece):
        await step()


async def outcomes(target: Backend, cargo: Cargo) -> set[ImportOutcome]:
    """What the import of each run says, its logs being there."""
    answers = [await target.moving.import_run(run=run) for run in cargo.runs]
    return {answer.outcome for answer in answers}


def assert_same_cargo(actual: Cargo, expected: Cargo) -> None:
    """Two exports are equal."""
    assert_same(actual.runs, expected.runs, "the runs exported")
    assert sorted(actual.logs) == sorted(expected.logs), "other logs are exported"
    for log, entries in expected.logs.items():
        assert actual.logs[log] == entries, f"the entries of log {log} are exported otherwise"
    notes = [record.model_copy(update={"vector": None}) for record in actual.memories]
    others = [record.model_copy(update={"vector": None}) for record in expected.memories]
    assert_same(notes, others, "the notes exported")
    vectors = [record.vector for record in expected.memories]
    assert [record.vector for record in actual.memories] == vectors, "other vectors are exported"
    assert_same(actual.embedder, expected.embedder, "the embedder exported")
    assert actual.version_floor == expected.version_floor, "another version floor is exported"
    assert_same(actual.results, expected.results, "the tool results exported")


async def tenants(lab: Lab, **values: Any) -> tuple[Backend, Backend]:
    """Two new tenants: one to take from, one to bring to."""
    source = await lab.open(tenant=lab.new_id("source"), **values)
    target = await lab.open(tenant=lab.new_id("target"), **values)
    return source, target


async def furnish(lab: Lab, client: Backend) -> list[str]:
    """A family of runs with labels and keys, a stranger beside it, notes and tool results."""
    runs = client.runs
    root = await start_run(lab, turn(6), deltas(4), {"of": "röot", "k": "v"}, client)
    for n in range(3):
        await runs.append_messages(
            run_id=root, messages=turn(2, "keyed", 2 * n), idempotency_key=f"key {n}"
        )
    child = await fork(lab, root, 4, client=client)
    await runs.append_messages(run_id=child, messages=turn(3, "child"), events=deltas(3, "child"))
    await runs.append_events(run_id=child, events=deltas(1), idempotency_key="events")
    leaf = await fork(lab, child, client=client)
    await runs.update_run(run_id=leaf, labels={"k": None, "leaf": "x"})
    orphan = await fork(lab, root, client=client)
    await runs.delete_run(run_id=root)
    odd = await start_run(
        lab,
        [sample.value for sample in samples.messages],
        [sample.value for sample in samples.events],
        client=client,
    )
    empty = await start_run(lab, client=client)
    if "memory" in client.offered:
        for namespace in ("", "a", "a:b"):
            for n, sample in enumerate(samples.metadata):
                note = MemoryItem(key=f"note {n % 9}", value=f"v {n}", metadata=sample.value)
                await client.memory.put_memory(item=note, namespace=namespace)
            await client.memory.delete_memory(key="note 3", namespace=namespace)
    if "tool_results" in client.offered:
        for sample in samples.tool_results:
            await client.tool_results.put_tool_result(
                ref=lab.new_id("ref"), result=sample.value, labels={"of": sample.name}
            )
    return [child, leaf, orphan, odd, empty]
