"""The lab: one event loop for the whole session, the clients of the storage, and unused ids."""

import asyncio
import itertools
import secrets
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pytest

from conformance_tests.faults import system_calls
from conformance_tests.opener import Opener, UnusableOpenerError, explained
from stores_core.backend import Backend
from stores_core.capabilities import Capability, Durability
from stores_core.embedding import Embedder
from stores_core.values import Clock

Answer = TypeVar("Answer")

PATIENCE = 60.0
"""Seconds that opening or closing a client may take."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """Why a test was left out. ``applicable`` is False where the backend may well lack it."""

    applicable: bool
    why: str


class Client:
    """One opened backend, entered and left by one task of its own.

    A context manager may insist on that; fixtures and tests run in many tasks.
    """

    def __init__(self, context: AbstractAsyncContextManager[Backend]) -> None:
        self._opened = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._keep(context))

    async def _keep(self, context: AbstractAsyncContextManager[Backend]) -> None:
        __tracebackhide__ = True
        async with context as backend:
            self._opened.set_result(backend)
            await self._leave.wait()

    async def opened(self) -> Backend:
        """The backend, once it is open. Raises what opening raised."""
        __tracebackhide__ = True
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait((self._opened, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            await self._task  # raises
        backend: Backend = await self._opened
        return backend

    def holds(self, backend: Backend) -> bool:
        return self._opened.done() and self._opened.result() is backend

    async def close(self) -> None:
        """Leave the context. Raises what closing raised; an opening that failed is past."""
        self._leave.set()
        if not self._task.done():
            async with asyncio.timeout(PATIENCE):
                await self._task
        elif self._opened.done():
            self._task.result()


class Bench:
    """What all tests of one process share: the event loop, and the clients that stay open.

    ``backend`` is the first client; ``reader`` is a second one where SHARED is declared and the
    first one otherwise.
    """

    def __init__(
        self, opener: Opener, *, quick: bool = False, seed: int = 0, examples: int = 0
    ) -> None:
        self.opener, self.quick, self.seed, self.examples = opener, quick, seed, examples
        self._runner = asyncio.Runner()
        self._clients: list[Client] = []
        self._token = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self.backend = self._opened("")
        self.reader = self.backend
        if Capability.SHARED in self.backend.capabilities:
            self.reader = self._opened(
                ", as a second client beside the first, which SHARED promises"
            )

    def _opened(self, which: str) -> Backend:
        try:
            return self.run(self.open(self._clients))
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                reason = explained(self.opener, error)
                raise UnusableOpenerError(f"{reason}{which}") from error
            raise

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine on the suite's event loop."""
        __tracebackhide__ = True
        return self._runner.run(work)

    async def open(self, clients: list[Client], **values: Any) -> Backend:
        """One more client of the storage, entered into ``clients``, whose owner closes it."""
        __tracebackhide__ = True
        client = Client(self.opener.open(**values))
        clients.append(client)
        return await client.opened()

    def new_id(self, kind: str) -> str:
        # The number is not at an end: tests put more before and behind an id, and that must not
        # make another one of it, as "run-1" with a "0" behind it would.
        return f"{kind}-{next(self._numbers)}-{self._token}"

    def close(self) -> None:
        """Close the clients and the loop."""
        try:
            self._runner.run(close_all(self._clients))
        finally:
            self._runner.close()

    def unmet(self, need: str) -> Unmet | None:
        """Why a need of a test is not met; None where it is."""
        backend, opener = self.backend, self.opener
        if need in ("runs", "memory", "tool_results"):
            missing = need not in backend.offered
            return Unmet(False, f"the backend has no store `{need}`") if missing else None
        if need == "admin":
            missing = need not in backend.offered
            return Unmet(False, "the backend offers no `admin`") if missing else None
        if need == "moving":
            return self._unmet_capability(Capability.MOVABLE)
        if need == "shared":
            return self._unmet_capability(Capability.SHARED)
        if need == "embeddings":
            undeclared = self._unmet_capability(Capability.EMBEDDINGS)
            return undeclared or self._unmet_keyword("embedder")
        if need == "lasting":
            lasts = backend.durability is not Durability.NONE
            return None if lasts else Unmet(False, "durability none: it ends with its process")
        if need == "elsewhere":
            missing = opener.source is None or Capability.SHARED not in backend.capabilities
            return Unmet(False, "no other process can open it") if missing else None
        if need == "server":
            why = "no server is known: give --server HOST:PORT, and the opener a keyword `server`"
            return None if opener.server else Unmet(False, why)
        if need == "strace":
            why = system_calls.missing()
            return Unmet(False, f"{why}, so no system call could fail") if why else None
        if need.startswith("option:"):
            option = need.removeprefix("option:")
            missing = not opener.takes(option)
            return Unmet(False, f"the opener has no option `{option}`") if missing else None
        return self._unmet_keyword(need)

    def _unmet_capability(self, capability: Capability) -> Unmet | None:
        if capability in self.backend.capabilities:
            return None
        return Unmet(False, f"the backend does not declare {capability.name}")

    def _unmet_keyword(self, keyword: str) -> Unmet | None:
        if self.opener.takes(keyword):
            return None
        return Unmet(True, f"the opener takes no `{keyword}`: add the keyword and pass it on")


class Lab:
    """What one test works with. Whatever it opens is closed when it ends.

    ``quick`` asks for smaller numbers, ``seed`` is what sequences at random start from, and
    ``examples`` is how many of them are asked for; 0 leaves it to the test.
    """

    def __init__(self, bench: Bench, properties: list[tuple[str, object]]) -> None:
        self._bench = bench
        self._properties = properties
        self._clients: list[Client] = []
        self.backend = bench.backend
        self.reader = bench.reader
        self.quick, self.seed, self.examples = bench.quick, bench.seed, bench.examples

    @property
    def opener(self) -> Opener:
        """What opens the storage, for a test that opens it otherwise or elsewhere."""
        return self._bench.opener

    def meets(self, need: str) -> bool:
        """Whether a need that a test has not declared is met all the same."""
        return self._bench.unmet(need) is None

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the test itself."""
        __tracebackhide__ = True
        self._bench.run(work)

    def new_id(self, kind: str = "id") -> str:
        """An id that no other test has, in this session or any other."""
        return self._bench.new_id(kind)

    async def open(
        self,
        tenant: str | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> Backend:
        """One more client of the storage. What is None is left to the opener."""
        __tracebackhide__ = True
        named = {"tenant": tenant or None, "embedder": embedder, "clock": clock}
        given = {name: value for name, value in named.items() if value is not None}
        return await self._bench.open(self._clients, **given, **options)

    async def close(self, backend: Backend) -> None:
        """Leave a client that this test opened, before the test ends."""
        for client in [client for client in self._clients if client.holds(backend)]:
            await client.close()

    def not_applicable(self, why: str) -> NoReturn:
        """End the test: the backend may lack what it would examine, and says that it does."""
        leave_out(Unmet(False, why), self._properties)

    def not_run(self, why: str) -> NoReturn:
        """End the test: too little happened for it to say anything."""
        leave_out(Unmet(True, why), self._properties)

    def end(self) -> None:
        """Close what the test opened."""
        self._bench.run(close_all(self._clients))


def leave_out(unmet: Unmet, properties: list[tuple[str, object]]) -> NoReturn:
    """Skip the test that is running, with the reason where the verdict finds it."""
    properties.append(("not run" if unmet.applicable else "not applicable", unmet.why))
    pytest.skip(unmet.why)


async def close_all(clients: list[Client]) -> None:
    """Close the newest first; one that fails to close does not keep the others open."""
    faults: list[Exception] = []
    while clients:
        try:
            await clients.pop().close()
        except Exception as error:
            faults.append(error)
    if faults:
        raise faults[0]
