"""Operations on what belongs to one id, and what somebody else sees of it: before, after, never
between.

Each is sent again after a fault, as the contract tells a caller to, and must then have happened
exactly once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.errors import OutcomeUnknownError
from stores_core.memory import MemoryItem
from stores_core.tool_results import ToolResult

TURN = [Message(role="user", text=f"message {n}") for n in range(3)]
AT_ONCE = 5
RESULT = ToolResult(content=[{"type": "text", "text": "new " * 50_000}])


@dataclass(frozen=True)
class Operation:
    """``act`` on what belongs to an id, and ``seen`` of it; ``store`` is what is asked.

    ``repeatable`` is False for one that is applied twice when it is sent twice.
    """

    store: str
    act: Callable[[Backend, str], Awaitable[object]]
    seen: Callable[[Backend, str], Awaitable[object]]
    repeatable: bool = True

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.seen is _nothing

    async def sees(self, backend: Backend, id: str) -> str:
        """What is seen, as a text that is the same for each id."""
        return repr(await self.seen(backend, id)).replace(id, "ID")


async def prepare(backend: Backend, id: str) -> None:
    """What belongs to an id before anything is done to it."""
    async for _ in preparing(backend, id):
        pass


async def preparing(backend: Backend, id: str) -> AsyncIterator[None]:
    """The same, operation by operation."""
    if "runs" in backend.offered:
        await backend.runs.create_run(run_id=id, labels={"a": "1"})
        yield
        await backend.runs.append_messages(run_id=id, messages=TURN, events=[Event(kind="old")])
        yield
    if "memory" in backend.offered:
        await backend.memory.put_memories(
            namespace=id, items=[note("k", "old"), note("l", "older")]
        )
        yield
    if "tool_results" in backend.offered:
        result = ToolResult(content=[{"type": "text", "text": "old " * 30_000}])
        await backend.tool_results.put_tool_result(ref=id, result=result, labels={"of": id})
        yield


def note(key: str, value: str) -> MemoryItem:
    return MemoryItem(key=key, value=value, metadata={"v": value})


async def _run(backend: Backend, id: str) -> object:
    run = (await backend.runs.load_run(run_id=id)).run
    return run and (
        [message.text for message in run.messages],
        [event.kind for event in run.events],
        dict(run.labels),
        run.message_count,
        run.event_count,
        run.parent_id,
    )


async def _fork(backend: Backend, id: str) -> object:
    listed = (await backend.runs.list_runs(parent_id=id)).runs
    return await _run(backend, f"{id} new"), len(listed), await _run(backend, id)


async def _new_run(backend: Backend, id: str) -> object:
    listed = (await backend.runs.list_runs(labels={"new": id})).runs
    return await _run(backend, f"{id} new") is not None, len(listed)


async def _notes(backend: Backend, id: str) -> object:
    listed = (await backend.memory.list_memories(namespace=id)).items
    found = (await backend.memory.list_memories(namespace=id, query="ne")).items
    spaces = (await backend.memory.list_namespaces(prefix=id)).namespaces
    return (
        [(each.item.key, each.item.value, dict(each.item.metadata)) for each in listed],
        [each.item.key for each in found],
        list(spaces) == [id],
    )


async def _result(backend: Backend, id: str) -> object:
    result = (await backend.tool_results.get_tool_result(ref=id)).result
    listed = (await backend.tool_results.list_tool_results(labels={"of": id})).infos
    read = await backend.tool_results.read_tool_result(ref=id, offset=3)
    return result and result.content, [info.characters for info in listed], read.characters


async def _create_at_once(backend: Backend, id: str) -> None:
    answers = await asyncio.gather(
        *(backend.runs.create_run(run_id=f"{id} {n}", labels={"new": id}) for n in range(AT_ONCE)),
        return_exceptions=True,
    )
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    unknown = next((error for error in errors if isinstance(error, OutcomeUnknownError)), None)
    if unknown is not None or 0 < len(errors) < len(answers):
        raise unknown or OutcomeUnknownError(f"{len(errors)} of {len(answers)} were not applied")
    if errors:
        raise errors[0]


async def _all_at_once(backend: Backend, id: str) -> object:
    # Of several some may have happened and some not: that is as good as before.
    listed = len((await backend.runs.list_runs(labels={"new": id})).runs)
    there = [await _run(backend, f"{id} {n}") for n in range(AT_ONCE)]
    whole = listed == sum(run is not None for run in there)
    return listed == AT_ONCE if whole else (listed, there)


async def _nothing(backend: Backend, id: str) -> object:
    return None


OPERATIONS: Mapping[str, Operation] = {
    "append": Operation(
        "runs",
        lambda b, it: b.runs.append_messages(
            run_id=it, messages=TURN, events=[Event(kind="e")], idempotency_key="k"
        ),
        _run,
    ),
    "append events": Operation(
        "runs",
        lambda b, it: b.runs.append_events(run_id=it, events=[Event(kind="e")] * 3),
        _run,
        repeatable=False,  # it has no key
    ),
    "create": Operation(
        "runs",
        lambda b, it: b.runs.create_run(run_id=f"{it} new", labels={"new": it}),
        _new_run,
    ),
    "fork": Operation(
        "runs", lambda b, it: b.runs.fork_run(run_id=it, new_run_id=f"{it} new"), _fork
    ),
    "update": Operation(
        "runs", lambda b, it: b.runs.update_run(run_id=it, labels={"a": None, "b": "2"}), _run
    ),
    "delete": Operation("runs", lambda b, it: b.runs.delete_run(run_id=it), _run),
    "load": Operation("runs", lambda b, it: b.runs.load_run(run_id=it), _nothing),
    "read": Operation("runs", lambda b, it: b.runs.read_messages(run_id=it), _nothing),
    "list": Operation("runs", lambda b, it: b.runs.list_runs(labels={"a": "1"}), _nothing),
    "put note": Operation(
        "memory",
        lambda b, it: b.memory.put_memory(namespace=it, item=note("k", "new")),
        _notes,
    ),
    "put notes": Operation(
        "memory",
        lambda b, it: b.memory.put_memories(
            namespace=it, items=[note(f"k{n}", "new") for n in range(5)]
        ),
        _notes,
    ),
    "delete note": Operation(
        "memory", lambda b, it: b.memory.delete_memory(namespace=it, key="k"), _notes
    ),
    "clear": Operation("memory", lambda b, it: b.memory.clear_namespace(namespace=it), _notes),
    "recall": Operation(
        "memory", lambda b, it: b.memory.list_memories(namespace=it, query="old"), _nothing
    ),
    "put result": Operation(
        "tool_results",
        lambda b, it: b.tool_results.put_tool_result(ref=it, result=RESULT, labels={"of": it}),
        _result,
    ),
    "delete result": Operation(
        "tool_results", lambda b, it: b.tool_results.delete_tool_result(ref=it), _result
    ),
    "search result": Operation(
        "tool_results",
        lambda b, it: b.tool_results.search_tool_result(ref=it, pattern="old"),
        _nothing,
    ),
}


ALONE: Mapping[str, Operation] = {
    **OPERATIONS,
    "create at once": Operation("runs", _create_at_once, _all_at_once),
}
"""Where a process acts alone, also several at once: a store may well write them together, and must
tell each what became of it."""

LOOKS = 100
"""So often one looks, 10 ms apart, for an outcome that nobody knows to become visible."""


@dataclass(frozen=True)
class Expected:
    """What is seen of an operation that has not happened, and of one that has."""

    before: str
    after: str

    @classmethod
    async def of(cls, operation: Operation, backend: Backend, id: str) -> "Expected":
        """Prepare an id that is new, do it undisturbed, and look both times."""
        await prepare(backend, id)
        before = await operation.sees(backend, id)
        await operation.act(backend, id)
        return cls(before, await operation.sees(backend, id))

    async def settled(self, operation: Operation, backend: Backend, id: str, where: str) -> str:
        """What is seen once an outcome that was unknown is there wholly or not at all.

        It may take effect while one looks, so that one has to look again. Raises AssertionError.
        """
        seen = ""
        for _ in range(LOOKS):
            seen = await operation.sees(backend, id)
            if seen in (self.before, self.after):
                return seen
            await asyncio.sleep(0.01)
        raise AssertionError(f"{where}, {operation.store} hold it in part: {shortened(seen)}")

    async def happened(self, operation: Operation, backend: Backend, id: str, where: str) -> None:
        """See that it has happened, once. Raises AssertionError."""
        seen = await operation.sees(backend, id)
        assert seen == self.after, f"{where}, it has not happened once: {shortened(seen)}"


def shortened(text: str) -> str:
    """Enough of a text to tell what it is."""
    return text if len(text) < 400 else f"{text[:200]} … {text[-200:]}"
