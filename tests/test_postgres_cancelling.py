"""Every operation, cancelled at each of its awaits: before or after, never between.

The pool holds one connection, so that one which is not given back, or is given back with a
transaction or an answer still on it, is met by the very next call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from stores_core import Backend, Event, MemoryItem, Message, ToolResult, open_backend
from tests.postgres_callers import sessions, watching

TURN = [Message(role="user", text=f"message {n}") for n in range(3)]
RESULT = ToolResult(content=[{"type": "text", "text": "new " * 50_000}])
LONGEST = 60
"""More awaits than any operation has."""


class Cancelled:
    """Awaits a coroutine in a task that is cancelled at its ``at``-th suspension.

    With ``late`` the cancellation comes when what is waited for is there, just before it is seen.
    """

    def __init__(self, call: Awaitable[object], at: int, *, late: bool) -> None:
        self._call, self._at, self._late = call, at, late
        self.reached = False

    def __await__(self) -> Generator[Any, Any, object]:
        task = asyncio.current_task()
        assert task
        steps, seen = self._call.__await__(), 0
        try:
            waited = next(steps)
            while True:
                seen += 1
                if seen == self._at:
                    self.reached = True
                    if self._late and waited is not None:
                        waited.add_done_callback(lambda _: task.cancel())  # pyright: ignore[reportUnknownLambdaType]
                    else:
                        task.cancel()
                try:
                    sent = yield waited
                except BaseException as error:
                    waited = steps.throw(error)
                else:
                    waited = steps.send(sent)
        except StopIteration as ended:
            return ended.value


@dataclass(frozen=True)
class Operation:
    """An operation on what belongs to ``id``, and how what belongs to it is seen."""

    act: Callable[[Backend, str], Awaitable[object]]
    seen: Callable[[Backend, str], Awaitable[object]]


async def run_seen(backend: Backend, id: str) -> object:
    run = (await backend.runs.load_run(run_id=id)).run
    return run and (
        [message.text for message in run.messages],
        [event.kind for event in run.events],
        run.labels,
        run.message_count,
        run.event_count,
        run.parent_id.replace(id, ""),
    )


async def fork_seen(backend: Backend, id: str) -> object:
    listed = (await backend.runs.list_runs(parent_id=id)).runs
    return await run_seen(backend, f"{id} new"), len(listed), await run_seen(backend, id)


async def new_run_seen(backend: Backend, id: str) -> object:
    listed = (await backend.runs.list_runs(labels={"new": id})).runs
    return await run_seen(backend, f"{id} new") is not None, len(listed)


async def notes_seen(backend: Backend, id: str) -> object:
    listed = (await backend.memory.list_memories(namespace=id)).items
    found = (await backend.memory.list_memories(namespace=id, query="ne")).items
    spaces = (await backend.memory.list_namespaces(prefix=id)).namespaces
    return (
        [(each.item.key, each.item.value, each.item.metadata) for each in listed],
        [each.item.key for each in found],
        spaces == [id],
    )


async def result_seen(backend: Backend, id: str) -> object:
    result = (await backend.tool_results.get_tool_result(ref=id)).result
    listed = (await backend.tool_results.list_tool_results(labels={"of": id})).infos
    read = await backend.tool_results.read_tool_result(ref=id, offset=3)
    return result and result.content, [info.characters for info in listed], read.characters


async def nothing_seen(backend: Backend, id: str) -> object:
    return None


def note(key: str, value: str) -> MemoryItem:
    return MemoryItem(key=key, value=value, metadata={"v": value})


OPERATIONS: dict[str, Operation] = {
    "append": Operation(
        lambda b, it: b.runs.append_messages(
            run_id=it, messages=TURN, events=[Event(kind="e")], idempotency_key="k"
        ),
        run_seen,
    ),
    "append events": Operation(
        lambda b, it: b.runs.append_events(run_id=it, events=[Event(kind="e")] * 3), run_seen
    ),
    "create": Operation(
        lambda b, it: b.runs.create_run(run_id=f"{it} new", labels={"new": it}), new_run_seen
    ),
    "fork": Operation(lambda b, it: b.runs.fork_run(run_id=it, new_run_id=f"{it} new"), fork_seen),
    "update": Operation(
        lambda b, it: b.runs.update_run(run_id=it, labels={"a": None, "b": "2"}), run_seen
    ),
    "delete": Operation(lambda b, it: b.runs.delete_run(run_id=it), run_seen),
    "load": Operation(lambda b, it: b.runs.load_run(run_id=it), nothing_seen),
    "read": Operation(lambda b, it: b.runs.read_messages(run_id=it), nothing_seen),
    "list": Operation(lambda b, it: b.runs.list_runs(labels={"a": "1"}), nothing_seen),
    "put note": Operation(
        lambda b, it: b.memory.put_memory(namespace=it, item=note("k", "new")), notes_seen
    ),
    "put notes": Operation(
        lambda b, it: b.memory.put_memories(
            namespace=it, items=[note(f"k{n}", "new") for n in range(5)]
        ),
        notes_seen,
    ),
    "delete note": Operation(
        lambda b, it: b.memory.delete_memory(namespace=it, key="k"), notes_seen
    ),
    "clear": Operation(lambda b, it: b.memory.clear_namespace(namespace=it), notes_seen),
    "recall": Operation(
        lambda b, it: b.memory.list_memories(namespace=it, query="old"), nothing_seen
    ),
    "put result": Operation(
        lambda b, it: b.tool_results.put_tool_result(ref=it, result=RESULT, labels={"of": it}),
        result_seen,
    ),
    "delete result": Operation(
        lambda b, it: b.tool_results.delete_tool_result(ref=it), result_seen
    ),
    "search result": Operation(
        lambda b, it: b.tool_results.search_tool_result(ref=it, pattern="old"), nothing_seen
    ),
}


async def prepare(backend: Backend, id: str) -> None:
    await backend.runs.create_run(run_id=id, labels={"a": "1"})
    await backend.runs.append_messages(run_id=id, messages=TURN, events=[Event(kind="old")])
    await backend.memory.put_memories(namespace=id, items=[note("k", "old"), note("l", "older")])
    result = ToolResult(content=[{"type": "text", "text": "old " * 30_000}])
    await backend.tool_results.put_tool_result(ref=id, result=result, labels={"of": id})


@pytest.mark.parametrize("name", OPERATIONS)
async def test_cancelled_at_any_await_it_has_happened_or_has_not(
    shared_postgres_url: str, name: str
) -> None:
    operation, url = OPERATIONS[name], shared_postgres_url
    async with (
        open_backend(url, pool_size=1, tenant=name) as backend,
        open_backend(url, pool_size=2, tenant=name) as other,
        watching(url) as eye,
    ):
        await prepare(other, "control")
        before = _renamed(await operation.seen(other, "control"), "control")
        await operation.act(backend, "control")
        after = _renamed(await operation.seen(other, "control"), "control")
        for late in (False, True):
            at = 0
            for at in range(1, LONGEST):
                id = f"{name} {at} {late}"
                await prepare(other, id)
                call = Cancelled(operation.act(backend, id), at, late=late)
                await asyncio.wait({asyncio.ensure_future(_awaited(call))})
                async with asyncio.timeout(10):
                    found = await backend.runs.get_run(run_id="control")
                assert found.info is None or found.info.id == "control"
                assert not await sessions(eye, "idle in transaction%"), at
                seen = _renamed(await operation.seen(other, id), id)
                assert seen in (before, after), at
                if not call.reached:
                    assert seen == after
                    break
                await operation.act(backend, id)
                if name != "append events":  # which had no key
                    assert _renamed(await operation.seen(other, id), id) == after, at
            assert 1 < at < LONGEST - 1
        assert await sessions(eye) <= 3


async def _awaited(call: Cancelled) -> object:
    return await call


def _renamed(seen: object, id: str) -> str:
    return repr(seen).replace(id, "ID")


async def test_callers_that_give_up_leave_the_pool_as_it_was(postgres_url: str) -> None:
    async with open_backend(postgres_url, pool_size=5) as backend:
        await prepare(backend, "r")
        calls = [
            asyncio.ensure_future(
                backend.runs.load_run(run_id="r")
                if n % 2
                else backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key=f"{n}")
            )
            for n in range(400)
        ]
        for n, call in enumerate(calls):
            if n % 3 == 0:
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                call.cancel()
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*calls, return_exceptions=True)
        assert not [error for error in ended if isinstance(error, Exception)]
        run = (await backend.runs.load_run(run_id="r")).run
        assert run
        assert len(run.messages) % 3 == 0
        async with watching(postgres_url) as eye:
            assert 0 < await sessions(eye) <= 5
            assert not await sessions(eye, "idle in transaction%")
