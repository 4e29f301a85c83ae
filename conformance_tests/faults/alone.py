"""One operation in a process of its own, while something befalls that process alone.

The process opens the storage and prepares an id; then it waits for orders, so that whoever gives
them can do to it what they like before it acts. Another process looks at what came of it. What
befalls it is in ``system_calls`` and ``full_disk``.
"""

import asyncio
import json
import os
import secrets
import select
import signal
import socket
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from conformance_tests.faults.acting import ALONE, Expected, Operation, prepare
from conformance_tests.faults.killing import ChildError, Open, in_child, result_of
from conformance_tests.opener import Opener
from stores_core.backend import Backend
from stores_core.errors import OutcomeUnknownError, StoreError

PATIENCE = 50.0
"""Seconds in which a process has to answer an order."""

_ANY_TRACER = 0x59616D61, 2**64 - 1  # PR_SET_PTRACER, PR_SET_PTRACER_ANY


@dataclass(frozen=True, slots=True)
class Told:
    """What an operation was told: "done", "unknown" by OutcomeUnknownError, "not applied" by any
    other error; "failed" for a read that raised one, "wrong" for one that answered otherwise than
    before, "killed" where it ended. ``why`` is the name of what was raised.
    """

    outcome: str
    why: str = ""


class Actor:
    """A process that has prepared ``id`` and does one operation on it whenever it is told to.

    A ``cold`` one opens the storage when it acts, and has closed it again when it tells. One that
    is ``held`` has not begun to prepare.
    """

    def __init__(
        self, open: Open, name: str, id: str, *, cold: bool = False, held: bool = False
    ) -> None:
        """Raises ChildError where it cannot be prepared."""
        self._here, there = socket.socketpair()
        self.tells_by = os.fstat(there.fileno()).st_ino

        async def work() -> None:
            self._here.close()
            _let_anybody_trace()
            there.setblocking(False)
            await _act_when_told(there, open, ALONE[name], id, cold=cold)

        self.pid, self._unused = in_child(work)
        there.close()
        self._lines, self._ended = b"", False
        if not held:
            self.prepare()

    def prepare(self) -> None:
        """Let it open the storage and prepare. Raises ChildError where it cannot."""
        self._order({"prepare": True})
        ready = self._answer()
        if ready is None:
            self.end()
            raise ChildError("a client could not prepare what it was to act on")
        self.durability: str = ready["durability"]

    def limit(self, size: int | None) -> None:
        """Let no file of it grow beyond so many bytes; None takes that back."""
        self._order({"limit": size})
        if self._answer() is None:
            raise ChildError("a client ended before it acted")

    def act(self) -> Told:
        """Let it do the operation. Raises ChildError where it hangs."""
        self._order({"act": True})
        answer = self._answer()
        return Told("killed") if answer is None else Told(**answer)

    @property
    def writes_through(self) -> bool:
        """Whether it has a file open whose writes are synced without a call for it."""
        for info in Path(f"/proc/{self.pid}/fdinfo").glob("*"):
            with suppress(FileNotFoundError):  # closed meanwhile
                if int(info.read_text().partition("flags:")[2].split()[0], 8) & os.O_DSYNC:
                    return True
        return False

    @property
    def file_sizes(self) -> dict[tuple[int, int], int]:
        """The sizes in bytes of the files that it has open, by device and inode."""
        found: dict[tuple[int, int], int] = {}
        for link in Path(f"/proc/{self.pid}/fd").glob("*"):
            with suppress(FileNotFoundError):
                of = link.stat()
                if stat.S_ISREG(of.st_mode):
                    found[of.st_dev, of.st_ino] = of.st_size
        return found

    def end(self, *, killed: bool = False) -> None:
        """Have it close the storage and end. Raises ChildError where it ends otherwise."""
        if self._ended:
            return
        self._ended = True
        self._here.close()
        os.close(self._unused)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != (-signal.SIGKILL if killed else 0):
            raise ChildError(f"a client ended with {code}")

    def _order(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # then there is no answer
            self._here.send(json.dumps(order).encode() + b"\n")

    def _answer(self) -> dict[str, Any] | None:
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._lines:
            if not select.select([self._here], [], [], max(0.0, end - time.monotonic()))[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise ChildError(f"a client did not answer within {PATIENCE:g} seconds")
            try:
                more = self._here.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            self._lines += more
        line, _, self._lines = self._lines.partition(b"\n")
        return json.loads(line)


async def _act_when_told(
    pipe: socket.socket, open: Open, operation: Operation, id: str, *, cold: bool
) -> None:
    loop, lines = asyncio.get_running_loop(), b""

    async def tell(answer: dict[str, Any]) -> None:
        await loop.sock_sendall(pipe, json.dumps(answer).encode() + b"\n")

    async def ordered() -> dict[str, Any] | None:
        nonlocal lines
        while b"\n" not in lines:
            more = await loop.sock_recv(pipe, 1 << 16)
            if not more:
                return None
            lines += more
        line, _, lines = lines.partition(b"\n")
        return json.loads(line)

    async def obey(backend: Backend | None, answer: str) -> None:
        while (order := await ordered()) is not None:
            if "limit" in order:
                _limit(order["limit"])
                await tell({})
            elif backend is not None:
                await tell(await _told(operation, backend, id, answer))
            else:
                await tell(await _cold(open, operation, id))

    if await ordered() is None:
        return
    async with open() as backend:
        await prepare(backend, id)
        ready = {"durability": backend.durability.value}
        answer = repr(await operation.act(backend, id)) if operation.reads else ""
        if not cold:
            await tell(ready)
            await obey(backend, answer)
    if cold:
        await tell(ready)
        await obey(None, "")


async def _told(operation: Operation, backend: Backend, id: str, before: str) -> dict[str, Any]:
    outcome, why = "done", ""
    try:
        answer = repr(await operation.act(backend, id))
        if operation.reads and before and answer != before:
            outcome = "wrong"
    except StoreError as error:
        outcome, why = _outcome_of(operation, error), type(error).__name__
    return {"outcome": outcome, "why": why}


async def _cold(open: Open, operation: Operation, id: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    try:
        async with open() as backend:
            told = await _told(operation, backend, id, "")
    except StoreError as error:  # what was told before a client failed to close was told
        why = type(error).__name__
        told = told or {"outcome": "failed" if operation.reads else "not applied", "why": why}
    return told


def _outcome_of(operation: Operation, error: StoreError) -> str:
    if operation.reads:
        return "failed"
    return "unknown" if isinstance(error, OutcomeUnknownError) else "not applied"


def _limit(size: int | None) -> None:
    import resource  # not on every system

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def _let_anybody_trace() -> None:
    """Where a process may trace none but its own children, let the tracer trace this one."""
    import ctypes

    with suppress(OSError, AttributeError):
        option, who = _ANY_TRACER
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(who), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """What another process saw of an operation, "before" or "after", and what is wrong."""

    state: str
    faults: tuple[str, ...] = ()


class Looker:
    """Looks, from another process each time, at what came of operations on ids of one storage."""

    def __init__(self, open: Open, prefix: str) -> None:
        self._open, self._prefix, self._n = open, prefix, 0
        self._expected: dict[str, Expected] = {}

    def new_id(self) -> str:
        self._n += 1
        return f"{self._prefix}-{self._n}-"

    def expect(self) -> list[str]:
        """The operations that there are, each done undisturbed to know what is to be seen of it.

        Raises ChildError where the storage cannot be opened.
        """
        ids = {name: self.new_id() for name in ALONE}

        async def work() -> dict[str, tuple[str, str]]:
            found: dict[str, tuple[str, str]] = {}
            async with self._open() as backend:
                for name, operation in ALONE.items():
                    if operation.store in backend.offered:
                        expected = await Expected.of(operation, backend, ids[name])
                        found[name] = expected.before, expected.after
            return found

        found = result_of(in_child(work))
        self._expected = {name: Expected(*texts) for name, texts in found.items()}
        return list(self._expected)

    def look(self, name: str, id: str, told: Told, where: str) -> Seen:
        """See that what was told is true."""
        operation, expected = ALONE[name], self._expected[name]

        async def work() -> list[Any]:
            async with self._open() as backend:
                try:
                    seen = await expected.settled(operation, backend, id, where)
                except AssertionError as error:
                    return ["", [str(error)]]
            return ["after" if seen == expected.after else "before", []]

        state, faults = result_of(in_child(work))
        if not faults and not operation.reads:
            if told.outcome == "done" and state != "after":
                faults = [f"{where}, it was told done and is not there"]
            if told.outcome == "not applied" and state != "before":
                faults = [f"{where}, it was told not applied ({told.why}) and is there"]
        if told.outcome == "wrong":
            faults.append(f"{where}, a read gave another answer than before")
        return Seen(state, tuple(faults))

    def settle(self, name: str, id: str, seen: Seen, where: str) -> list[str]:
        """Do it again from another process: what is wrong if it has not happened once then."""
        operation, expected = ALONE[name], self._expected[name]

        async def work() -> list[str]:
            async with self._open() as backend:
                try:
                    async with asyncio.timeout(PATIENCE / 2):
                        if operation.repeatable or seen.state == "before":
                            await operation.act(backend, id)
                    await expected.happened(operation, backend, id, f"{where} and sent again")
                except (AssertionError, StoreError, TimeoutError) as error:
                    return [f"{where}, then: {type(error).__name__} {error}"]
            return []

        return result_of(in_child(work))

    def verify(self, where: str) -> list[str]:
        """What the storage finds wrong with itself; nothing where it does not look."""

        async def work() -> list[str]:
            async with self._open() as backend:
                if "admin" not in backend.offered:
                    return []
                problems = (await backend.admin.verify(timeout=300)).problems
            return [f"{where}, {one.store} {one.id}: {one.what}" for one in problems]

        return result_of(in_child(work))


def opened_apart(opener: Opener) -> Open:
    """What opens a tenant of its own, where there can be one: it has little to be verified."""
    tenant = {"tenant": f"apart-{secrets.token_hex(5)}"} if opener.takes("tenant") else {}
    return partial(opener.open, **tenant)
