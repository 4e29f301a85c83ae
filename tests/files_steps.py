"""Operations that are cut off, or fail, in every way: on a simulated disk, the same each time."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple
from unittest.mock import patch

from conformance_tests.faults.crash_states import ROOT, Nodes
from stores_core import Backend, Event, MemoryItem, Message, ToolResult
from stores_core.front.stores import MemoryFront, RunsFront, ToolResultsFront
from stores_core.retention import Retention
from stores_files.commits import PREFIX
from stores_files.failures import nothing_applied
from stores_files.storage import Tenant
from stores_files.sweeping import sweep
from tests.files_recovery import LATER, Held, held, opened
from tests.files_simulated import Kind, SimulatedDisk


class On(NamedTuple):
    """What steps work on: the stores behind their front, and the tenant's folder."""

    runs: RunsFront
    memory: MemoryFront
    tool_results: ToolResultsFront
    tenant: Tenant


Step = Callable[[On], Awaitable[object]]

START = datetime(2026, 1, 1, tzinfo=UTC)


def _messages(*texts: str) -> list[Message]:
    return [Message(role="user", text=text) for text in texts]


def _text(text: str) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}, {"type": "image", "data": "1"}])


def _notes(*keys: str) -> list[MemoryItem]:
    return [MemoryItem(key=key, value=f"about {key}") for key in keys]


PREPARATION: Sequence[Step] = (
    lambda on: on.runs.create_run(run_id="a", labels={"v": "1"}),
    lambda on: on.runs.append_messages(
        run_id="a", messages=_messages("a1", "a2"), events=[Event(kind="x")], idempotency_key="k"
    ),
    lambda on: on.runs.fork_run(run_id="a", new_run_id="b", labels={"v": "2"}),
    lambda on: on.runs.append_messages(run_id="a", messages=_messages("a3")),
    lambda on: on.tool_results.put_tool_result(ref="r", result=_text("same")),
    lambda on: on.memory.put_memories(items=_notes("n", "o"), namespace="here"),
    lambda on: on.runs.fork_run(run_id="a", new_run_id="d"),
    lambda on: on.runs.append_messages(run_id="d", messages=_messages("d" * 5_000)),
    lambda on: on.runs.fork_run(run_id="d", new_run_id="e", at_message=2),
    lambda on: on.runs.delete_run(run_id="d"),
)
"""What is there before: three runs, of which two are forks, one of a run that is gone; a result;
two notes."""

STEPS: dict[str, Step] = {
    "create": lambda on: on.runs.create_run(run_id="c", labels={"v": "1"}),
    "append one": lambda on: on.runs.append_messages(run_id="a", messages=_messages("one")),
    "append many": lambda on: on.runs.append_messages(
        run_id="a",
        messages=_messages("m1", "m2" * 600, "m3"),
        events=[Event(kind="e")],
        idempotency_key="many",
    ),
    "fork": lambda on: on.runs.fork_run(run_id="a", new_run_id="f"),
    "delete": lambda on: on.runs.delete_run(run_id="a"),
    "update": lambda on: on.runs.update_run(run_id="a", labels={"v": "2"}),
    "put a result": lambda on: on.tool_results.put_tool_result(ref="s", result=_text("same")),
    "put a note": lambda on: on.memory.put_memory(item=_notes("p")[0], namespace="here"),
    "append to a fork": lambda on: on.runs.append_events(run_id="b", events=[Event(kind="f")]),
    "replace a result": lambda on: on.tool_results.put_tool_result(ref="r", result=_text("new")),
}
"""Operations of which all sequences of three are played."""


async def _sweep(on: On) -> None:
    with nothing_applied():
        sweep(on.tenant, Retention(0, 0, 0), LATER, 1_000)


async def _append_together(on: On) -> None:
    executor = on.tenant.storage.executor
    assert isinstance(executor, Here)
    appends = [on.runs.append_messages(run_id="a", messages=_messages(text)) for text in TOGETHER]
    with executor.held():
        waiting = [asyncio.ensure_future(append) for append in appends]
        await asyncio.sleep(0)  # both wait now, so they share a write and a sync
    for ended in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


TOGETHER = ("t1", "t2" * 600)

RARE: dict[str, Step] = {
    "append two at once": _append_together,
    "fork at one": lambda on: on.runs.fork_run(run_id="b", new_run_id="g", at_message=1),
    "delete a result": lambda on: on.tool_results.delete_tool_result(ref="r"),
    "put notes elsewhere": lambda on: on.memory.put_memories(items=_notes("p", "q")),
    "delete a note": lambda on: on.memory.delete_memory(key="n", namespace="here"),
    "append to a fork of one that is gone": lambda on: on.runs.append_messages(
        run_id="e", messages=_messages("e")
    ),
    "replace a note": lambda on: on.memory.put_memory(item=_notes("n")[0], namespace="here"),
    "clear a namespace": lambda on: on.memory.clear_namespace(namespace="here"),
    "sweep": _sweep,
}
"""Further ones, of which all pairs are."""

ALL = STEPS | RARE


class Here(Executor):
    """Does what it is given at once, or when it is no longer ``held`` back."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] | None = None

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            for work in waiting:
                work()

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        ended: Future[Any] = Future()
        if self._waiting is not None:
            self._waiting.append(lambda: self.submit(work, *given, **named))
            return ended
        try:
            ended.set_result(work(*given, **named))
        except Exception as error:
            ended.set_exception(error)
        return ended


def on(disk: SimulatedDisk) -> On:
    """A simulated disk opened as by a process of its own."""
    store = opened(disk, Here())
    moments = count()
    backend = Backend(
        name="files", runs=store.runs, memory=store.memory, tool_results=store.results
    )
    backend.opened.clock = lambda: START + timedelta(seconds=next(moments))
    return On(backend.runs, backend.memory, backend.tool_results, store.tenant)


@contextlib.contextmanager
def repeatable() -> Generator[None]:
    """Names that are drawn are the same each time."""
    names = count(1)

    def name(size: int) -> str:
        return f"{next(names):0{2 * size}x}"

    with patch.object(secrets, "token_hex", name):
        yield


def prepared(
    steps: Sequence[Step] = PREPARATION, nodes: Nodes | None = None, kind: Kind = SimulatedDisk
) -> Nodes:
    """A disk after some steps."""

    async def work() -> Nodes:
        disk = kind(None if nodes is None else dict(nodes))
        stores = on(disk)
        for step in steps:
            await step(stores)
        return disk.nodes

    return asyncio.run(work())


def snapshot(disk: SimulatedDisk) -> Held:
    """What another process would find now."""
    return held(opened(SimulatedDisk(dict(disk.nodes))))


def between(step: Step, disk: SimulatedDisk) -> list[Held]:
    """What there is between the operations of a step that is several, after which the disk is."""
    if step is not _append_together or "a" not in snapshot(disk).ids():
        return []
    return [snapshot(SimulatedDisk(_without_last_batch(disk.nodes)))]


def _without_last_batch(nodes: Nodes) -> Nodes:
    """The same disk, with the journal of run a as long as before its last batch."""
    inode = ROOT
    for name in ("tenants", "%", "runs", "a", "journal.jsonl"):
        names = nodes[inode]
        assert isinstance(names, dict)
        inode = names[name]
    data = nodes[inode]
    assert isinstance(data, bytes)
    lines = data.splitlines(keepends=True)
    *_, end, _ = (n for n, line in enumerate(lines) if line.startswith(PREFIX))
    return {**nodes, inode: b"".join(lines[: end + 1])}
