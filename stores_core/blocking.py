"""Every operation without ``await``: a backend on an event loop of its own, in a thread.

``with blocking(open_backend("sqlite:agent.db")) as backend: backend.runs.create_run()``. Needs
the extra ``blocking``.
"""

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from stores_core.backend import Backend
from stores_core.capabilities import Capability, Durability
from stores_core.errors import InvalidRequestError, StoreClosedError
from stores_core.extras import need
from stores_core.front.operation import Bound, Front
from stores_core.front.stores import (
    AdminFront,
    MemoryFront,
    MovingFront,
    RunsFront,
    ToolResultsFront,
)
from stores_core.shape import Request, Response

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

P = ParamSpec("P")
Req = TypeVar("Req", bound=Request)
Resp = TypeVar("Resp", bound=Response)
T = TypeVar("T")


def blocking(backend: AbstractAsyncContextManager[Backend] | Backend) -> "BlockingBackend":
    """The backend that ``open_backend`` gives, opened in a thread of its own.

    Any number of threads may use it, one in which an event loop runs as well; the caller waits,
    and so does that loop. It is closed by its ``with`` block, by `close`, and when the program
    ends. A backend that works from every loop, as one in memory does, may be handed over opened
    and stays the caller's to close.

    Raises InvalidRequestError without the extra, and what opening raises. An operation raises
    what its asynchronous twin raises, and InvalidRequestError in a forked process or where it
    would have to wait for itself.
    """
    return BlockingBackend(backend)


class Waiting(Generic[P, Req, Resp]):
    """An operation of one blocking front. Takes a request, or its fields as keywords."""

    def __init__(self, loop: "Loop", front: Callable[[], Front], name: str) -> None:
        self._loop, self._front, self._name = loop, front, name

    @overload
    def __call__(self, request: Req, /) -> Resp: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Resp: ...
    def __call__(self, *args: Any, **fields: Any) -> Any:
        return self._loop.wait_for(partial(getattr(self._front(), self._name), *args, **fields))


class Twin:
    """A blocking operation on the class of a front, named as its asynchronous twin."""

    def __set_name__(self, owner: "type[BlockingFront]", name: str) -> None:
        self._name = name

    def __get__(self, front: "BlockingFront", owner: "type[BlockingFront]") -> Any:
        return Waiting[Any, Any, Any](front.loop, front.front, self._name)


def waiting(operation: Bound[P, Req, Resp]) -> Waiting[P, Req, Resp]:
    """Declares the twin of an operation; to a type checker its keywords are the same."""
    twin: Any = Twin()
    return twin


class BlockingFront:
    """Stands before one store; ``front`` gives the asynchronous front, or says it is not there."""

    def __init__(self, loop: "Loop", front: Callable[[], Front]) -> None:
        self.loop, self.front = loop, front


class BlockingRuns(BlockingFront):
    """See :class:`stores_core.runs.RunStore`."""

    create_run = waiting(RunsFront.create_run)
    get_run = waiting(RunsFront.get_run)
    append_messages = waiting(RunsFront.append_messages)
    append_events = waiting(RunsFront.append_events)
    load_run = waiting(RunsFront.load_run)
    read_messages = waiting(RunsFront.read_messages)
    read_events = waiting(RunsFront.read_events)
    fork_run = waiting(RunsFront.fork_run)
    list_runs = waiting(RunsFront.list_runs)
    update_run = waiting(RunsFront.update_run)
    delete_run = waiting(RunsFront.delete_run)


class BlockingMemory(BlockingFront):
    """See :class:`stores_core.memory.MemoryStore`."""

    put_memory = waiting(MemoryFront.put_memory)
    put_memories = waiting(MemoryFront.put_memories)
    get_memory = waiting(MemoryFront.get_memory)
    list_memories = waiting(MemoryFront.list_memories)
    delete_memory = waiting(MemoryFront.delete_memory)
    clear_namespace = waiting(MemoryFront.clear_namespace)
    list_namespaces = waiting(MemoryFront.list_namespaces)


class BlockingToolResults(BlockingFront):
    """See :class:`stores_core.tool_results.ToolResultStore`."""

    put_tool_result = waiting(ToolResultsFront.put_tool_result)
    get_tool_result = waiting(ToolResultsFront.get_tool_result)
    read_tool_result = waiting(ToolResultsFront.read_tool_result)
    search_tool_result = waiting(ToolResultsFront.search_tool_result)
    list_tool_results = waiting(ToolResultsFront.list_tool_results)
    delete_tool_result = waiting(ToolResultsFront.delete_tool_result)


class BlockingAdmin(BlockingFront):
    """See :class:`stores_core.admin.Admin`."""

    check = waiting(AdminFront.check)
    measure = waiting(AdminFront.measure)
    plan_migration = waiting(AdminFront.plan_migration)
    migrate = waiting(AdminFront.migrate)
    sweep = waiting(AdminFront.sweep)
    verify = waiting(AdminFront.verify)
    reembed = waiting(AdminFront.reembed)
    list_tenants = waiting(AdminFront.list_tenants)
    erase_tenant = waiting(AdminFront.erase_tenant)


class BlockingMoving(BlockingFront):
    """See :class:`stores_core.moving.Moving`."""

    export_runs = waiting(MovingFront.export_runs)
    export_entries = waiting(MovingFront.export_entries)
    import_entries = waiting(MovingFront.import_entries)
    import_run = waiting(MovingFront.import_run)
    export_memories = waiting(MovingFront.export_memories)
    import_memories = waiting(MovingFront.import_memories)
    export_tool_results = waiting(MovingFront.export_tool_results)
    import_tool_results = waiting(MovingFront.import_tool_results)


class BlockingBackend:
    """The stores of one opened backend, each operation a plain method; made by `blocking`.

    Using a store that the backend does not offer raises InvalidRequestError.
    """

    def __init__(self, backend: AbstractAsyncContextManager[Backend] | Backend) -> None:
        self._loop = Loop()
        try:
            opened = backend if isinstance(backend, Backend) else self._loop.enter(backend)
        except BaseException:
            self._loop.close()
            raise
        self._opened = opened
        self.name: str = opened.name
        self.capabilities: frozenset[Capability] = opened.capabilities
        self.durability: Durability = opened.durability
        self.offered: frozenset[str] = opened.offered
        self.runs = BlockingRuns(self._loop, lambda: opened.runs)
        self.memory = BlockingMemory(self._loop, lambda: opened.memory)
        self.tool_results = BlockingToolResults(self._loop, lambda: opened.tool_results)
        self.admin = BlockingAdmin(self._loop, lambda: opened.admin)
        self.moving = BlockingMoving(self._loop, lambda: opened.moving)

    def adapted(self, adapter: Callable[[Backend], T]) -> T:
        """What ``adapter`` makes of the asynchronous backend, made on its loop.

        So an adapter that has synchronous methods, as LangGraph's have, serves a program that has
        no event loop: ``graph.compile(backend.adapted(BackendCheckpointSaver))``.
        """
        return self._loop.wait_for(partial(adapter, self._opened))

    def close(self) -> None:
        """Close the backend, if it was opened here, and end the thread. Twice is fine."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BlockingBackend {self.name}: {', '.join(sorted(self.offered))}>"


class Loop:
    """An event loop in a thread that holds no program up: it is a daemon, stopped at exit."""

    def __init__(self) -> None:
        anyio = need("anyio", extra="blocking", field="blocking")
        started: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(
            target=anyio.run, args=(_serve, started), name="agent-stores", daemon=True
        )
        self._thread.start()
        self._portal = started.result()
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._stack = ExitStack()
        self._stack.callback(self._thread.join)
        self._stack.callback(self._portal.call, self._portal.stop)
        atexit.register(self._at_exit)

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context that is left when the loop is closed, by the same task."""
        return self._stack.enter_context(self._portal.wrap_async_context_manager(context))

    def wait_for(self, call: Callable[[], Any]) -> Any:
        """What ``call`` returns or raises on the loop; what it awaits is awaited there."""
        if os.getpid() != self._process:
            raise InvalidRequestError(
                field="backend", found="a forked process", allowed="the process that opened it"
            )
        if threading.current_thread() is self._thread:
            raise InvalidRequestError(
                field="backend",
                found="a call on the event loop that would have to serve it",
                allowed="a call from another thread, or the asynchronous backend",
            )
        try:
            future = self._portal.start_task_soon(call)
        except RuntimeError as error:
            raise StoreClosedError from error
        try:
            return future.result()
        except BaseException:
            future.cancel()  # where the wait was interrupted, not the call
            raise

    def close(self) -> None:
        if os.getpid() != self._process:
            return  # the thread is in the process that opened it, and so is what there is to close
        with self._closing:
            self._stack.close()
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        # Executors take no more work by now, so a backend may fail to close in order. What was
        # acknowledged is safe: that is what acknowledging means.
        with suppress(Exception):
            self.close()


async def _serve(started: "Future[BlockingPortal]") -> None:
    from anyio.from_thread import BlockingPortal

    async with BlockingPortal() as portal:
        started.set_result(portal)
        await portal.sleep_until_stopped()
