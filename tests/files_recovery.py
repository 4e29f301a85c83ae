"""What a folder holds after a crash: opened, read, written to, verified and swept for real."""

from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from stores_core.errors import StoreError
from stores_core.memory import ListMemoriesRequest, ListNamespacesRequest, StoredMemory
from stores_core.retention import Retention
from stores_core.runs import ListRunsRequest, RunInfo
from stores_core.tool_results import GetToolResultRequest, ListToolResultsRequest
from stores_files.commits import EVENTS, MESSAGES, Batch
from stores_files.layout import CONTENTS, LOGS, STAGING, TRASH
from stores_files.logs import append, journals_of
from stores_files.memory import FileMemoryStore
from stores_files.note_verifying import verify_notes
from stores_files.result_folders import entered
from stores_files.result_verifying import verify_results
from stores_files.run_folders import shared_name
from stores_files.runs import FileRunStore
from stores_files.storage import Storage, Tenant
from stores_files.sweeping import sweep
from stores_files.tool_results import FileToolResultStore
from stores_files.verifying import Findings, verify_runs
from stores_files.versions import identify
from tests.files_simulated import SimulatedDisk

T = TypeVar("T")

TORN = "no whole batch and do not count"
"""What verify says of the end of a file that a kill cut off, which is no damage."""

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""When sweep comes: all that was staged is old by then."""

FILTERED = (
    ListRunsRequest(limit=50, labels={"v": "1"}),
    ListRunsRequest(limit=50, labels={"v": "2"}),
    ListRunsRequest(limit=50, parent_id="a"),
)
"""Listings that are looked at."""


class OneThread(Storage):
    """Works are done where they are called, so that nothing but the disk decides what happens."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()


class Opened(NamedTuple):
    """A simulated disk opened as by a process of its own."""

    tenant: Tenant
    runs: FileRunStore
    memory: FileMemoryStore
    results: FileToolResultStore


def opened(disk: SimulatedDisk, executor: Executor | None = None) -> Opened:
    root = disk.open_root("")
    storage = OneThread(disk, root, identify(disk, root, create=True), lock_timeout=1)
    if executor is not None:
        storage.executor = executor  # type: ignore[assignment] - all that is asked of it is submit
    tenant = Tenant(storage, "")
    results = FileToolResultStore(tenant, Retention(0, 0, 0))
    return Opened(tenant, FileRunStore(tenant), FileMemoryStore(tenant), results)


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waited")


class Held(NamedTuple):
    """All that can be read. Two that are equal hold the same."""

    runs: tuple[tuple[object, ...], ...]
    entries: tuple[tuple[tuple[bytes, ...], ...], ...]
    keys: tuple[tuple[object, ...], ...]
    filtered: tuple[tuple[str, ...], ...]
    results: tuple[tuple[object, ...], ...]
    notes: tuple[tuple[str, tuple[object, ...]], ...]

    def ids(self) -> list[str]:
        return [str(run[0]) for run in self.runs]


_ALL, _ALL_RESULTS = ListRunsRequest(limit=50), ListToolResultsRequest(limit=50)
_ALL_NAMESPACES = ListNamespacesRequest(limit=50)


def _shown(info: RunInfo) -> tuple[object, ...]:
    fields = {**info.__dict__, "labels": tuple(sorted(info.labels.items()))}
    return tuple(fields.values())


def held(store: Opened) -> Held:
    """Everything, read as a caller does."""
    infos = done(store.runs.list_runs(_ALL)).runs
    entries: list[tuple[tuple[bytes, ...], ...]] = []
    keys: list[tuple[object, ...]] = []
    with store.tenant.entered() as place:
        for info in infos:
            assert place is not None
            with store.tenant.folders.entered(place, info.id) as run:
                assert run is not None
                entries.append(
                    (
                        tuple(run.read(MESSAGES, 0, run.count(MESSAGES))),
                        tuple(run.read(EVENTS, 0, run.count(EVENTS))),
                    )
                )
                keys.append(tuple(run.keys().values()))
    filtered = [done(store.runs.list_runs(each)).runs for each in FILTERED]
    results: list[tuple[object, ...]] = []
    for info in done(store.results.list_tool_results(_ALL_RESULTS)).infos:
        found = done(store.results.get_tool_result(GetToolResultRequest(ref=info.ref)))
        results.append((info.ref, info.created_at, str(found.result and found.result.content)))
    return Held(
        tuple(map(_shown, infos)),
        tuple(entries),
        tuple(keys),
        tuple(tuple(info.id for info in listed) for listed in filtered),
        tuple(results),
        tuple(
            (namespace, tuple(_note(each.item) for each in listed.items))
            for namespace in done(store.memory.list_namespaces(_ALL_NAMESPACES)).namespaces
            for listed in [done(store.memory.list_memories(_memories_of(namespace)))]
        ),
    )


def _note(item: StoredMemory) -> tuple[object, ...]:
    return item.key, item.value, item.created_at, item.updated_at, item.version


def _memories_of(namespace: str) -> ListMemoriesRequest:
    return ListMemoriesRequest(namespace=namespace)


PROBE = Batch([b'{"role":"user","text":"probe"}'], [b'{"kind":"probe"}'], at=1)


def probe(store: Opened, ids: list[str]) -> None:
    """Append to each run."""
    for id in ids:
        with (
            store.tenant.entered() as place,
            store.tenant.folders.entered(place, id, alone=True) as run,  # type: ignore[arg-type]
        ):
            assert place is not None
            assert run is not None
            append(place, run, [PROBE])


def probed(before: Held) -> tuple[tuple[tuple[bytes, ...], ...], ...]:
    """The entries that there must be afterwards."""
    return tuple(
        ((*messages, *PROBE.messages), (*events, *PROBE.events))
        for messages, events in before.entries
    )


def faults_of(
    disk: SimulatedDisk, allowed: tuple[Held, ...], *, is_thorough: bool = True
) -> list[str]:
    """What is wrong with a disk that must hold one of these, a sentence each.

    If it ``is_thorough`` it is written to, opened again, swept and verified after it was read.
    """
    try:
        store = opened(disk)
        found = held(store)
        if found not in allowed:
            return [f"it holds what was never there:\n{found}\nand not one of\n{allowed}"]
        return _faults_of(store, disk, found) if is_thorough else []
    except (StoreError, OSError, AssertionError) as error:
        return [f"it cannot be worked with: {error!r}"]


def _faults_of(store: Opened, disk: SimulatedDisk, found: Held) -> list[str]:
    faults = [each for each in verified(store) if TORN not in each]
    probe(store, found.ids())
    again = opened(type(disk)(disk.nodes))
    sweep(again.tenant, Retention(0, 0, 0), LATER, 1_000)
    last = held(again)
    if last.entries != probed(found) or last.results + last.notes != found.results + found.notes:
        faults.append("after an append and a sweep it holds something else than before, and that")
    # Runs were written to, which cuts a torn tail off; namespaces were not.
    faults += [each for each in verified(again) if TORN not in each or each.startswith("runs")]
    return faults + left_over(again) + disk.faults


def verified(store: Opened) -> list[str]:
    findings = Findings()
    for verify in (verify_runs, verify_notes, verify_results):
        verify(store.tenant, findings)
    return [f"{each.store} {each.id}: {each.what}" for each in findings.problems]


def left_over(store: Opened) -> list[str]:
    """What a sweep should have taken."""
    faults: list[str] = []
    with store.tenant.entered() as place:
        if place is None:
            return []
        disk = place.disk
        for folder in (STAGING, TRASH):
            faults += [f"{folder} still holds {name}" for name in disk.names(place[folder])]
        wanted: set[str] = set()
        for info in done(store.runs.list_runs(_ALL)).runs:
            with store.tenant.folders.entered(place, info.id) as run:
                assert run is not None
                wanted |= {shared_name(each) for each in journals_of(run.header)}
        faults += [
            f"the logs still hold {name}" for name in disk.names(place[LOGS]) if name not in wanted
        ]
        used: set[str] = set()
        for info in done(store.results.list_tool_results(_ALL_RESULTS)).infos:
            with entered(place, store.tenant, info.ref) as found:
                assert found is not None
                used |= {found[0].text, found[0].rest}
        faults += [
            f"the contents still hold {name}"
            for name in disk.names(place[CONTENTS])
            if name not in used
        ]
    return faults
