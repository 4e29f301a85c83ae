"""The writer: one thread with one connection that does everything that changes the file.

An operation is one function, run from BEGIN IMMEDIATE to COMMIT without a pause. Those that wait
share a transaction, each in a savepoint of its own, and so share what a commit costs.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from stores_core.errors import OutcomeUnknownError, StoreClosedError
from stores_core.sending import nothing_sent
from stores_sql.sqlite.failures import at_commit, is_full, not_applied, undoes_all
from stores_sql.sqlite.locking import LockFile
from stores_sql.sqlite.statements import Connection

T = TypeVar("T")

SHARED_AT_MOST = 256
"""So many operations share a transaction; more would let the first of them wait too long."""


class Job(Generic[T]):
    """One operation, and who waits for it.

    Its ``work`` may run again from the start when a shared transaction was rolled back.
    """

    __slots__ = ("_lock", "_state", "error", "future", "value", "work")

    class State(Enum):
        WAITING = auto()
        STARTED = auto()
        WITHDRAWN = auto()

    def __init__(self, work: Callable[[Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.value: T | None = None
        self.error: Exception | None = None
        self._state = Job.State.WAITING
        self._lock = threading.Lock()

    def start(self) -> bool:
        """Whether it is still wanted. From now on it cannot be withdrawn."""
        with self._lock:
            if self._state is Job.State.WAITING:
                self._state = Job.State.STARTED
            return self._state is Job.State.STARTED

    def withdraw(self) -> bool:
        """Whether it has not started, and now never will."""
        with self._lock:
            if self._state is Job.State.WAITING:
                self._state = Job.State.WITHDRAWN
            return self._state is Job.State.WITHDRAWN

    def deliver(self) -> None:
        """Wake who waits for it, in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)  # pyright: ignore[reportArgumentType] - of type T once it ran


class Writer:
    """The writing thread of one opened backend. It is a daemon, so it keeps no program alive."""

    def __init__(
        self, connect: Callable[[], Connection], lock: LockFile, busy_timeout: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect, self._lock, self._busy_timeout = connect, lock, busy_timeout
        self._queue = queue.SimpleQueue[Job[Any] | None]()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        threading.Thread(target=self._main, name="stores_sql writer", daemon=True).start()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction. It is applied once this returns.

        Cancelled while it waits, it counts as never sent; cancelled later, its outcome is unknown.
        """
        if self._closing:
            raise StoreClosedError
        job = Job(work, self._loop.create_future())
        self._queue.put(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            if job.withdraw():
                with nothing_sent():
                    raise
            raise

    async def close(self) -> None:
        """Finish what waits and close the connection."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._ended)

    # From here on everything runs in the thread.

    def _main(self) -> None:
        connection: Connection | None = None
        open_ended = True
        while open_ended:
            jobs = self._waiting()
            open_ended = None not in jobs
            wanted = [job for job in jobs if job is not None]
            if not wanted:
                continue
            try:
                connection = connection or self._connect()
                with self._lock.held(self._busy_timeout):
                    self._work_off(connection, wanted)
                    if any(isinstance(job.error, OutcomeUnknownError) for job in wanted):
                        # What this connection believes of the file may be wrong now.
                        connection.close()
                        connection = None
            except Exception as error:
                # Nothing was begun: the file could not be opened, or others hold the lock.
                for job in wanted:
                    job.error = not_applied(error)
            self._tell(wanted)
        self._end(connection)

    def _waiting(self) -> list[Job[Any] | None]:
        jobs = [self._queue.get()]
        while len(jobs) < SHARED_AT_MOST and jobs[-1] is not None:
            try:
                jobs.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return jobs

    def _work_off(self, connection: Connection, jobs: Sequence[Job[Any]]) -> None:
        if len(jobs) > 1 and self._together(connection, jobs):
            return
        for job in jobs:
            self._alone(connection, job)

    def _together(self, connection: Connection, jobs: Sequence[Job[Any]]) -> bool:
        """Do all in one transaction; False, with everything rolled back, where that failed."""
        begin(connection)
        try:
            for job in jobs:
                if job.start() and not self._in_savepoint(connection, job):
                    return False
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                if is_full(error):
                    return False
                for job in jobs:
                    job.error = job.error or at_commit(error)
        finally:
            roll_back(connection)
        return True

    def _in_savepoint(self, connection: Connection, job: Job[Any]) -> bool:
        connection.execute("SAVEPOINT job")
        try:
            job.value = job.work(connection)
        except Exception as error:
            if undoes_all(error) or not connection.in_transaction:
                return False
            job.error = not_applied(error)
            connection.execute("ROLLBACK TO job")
        else:
            job.error = None
        connection.execute("RELEASE job")
        return True

    def _alone(self, connection: Connection, job: Job[Any]) -> None:
        job.error = None
        try:
            begin(connection)
            if not job.start():
                return
            job.value = job.work(connection)
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                job.error = at_commit(error)
        except Exception as error:
            job.error = not_applied(error)
        finally:
            roll_back(connection)

    def _tell(self, jobs: Sequence[Job[Any]]) -> None:
        def deliver() -> None:
            for job in jobs:
                job.deliver()

        self._in_loop(deliver)

    def _end(self, connection: Connection | None) -> None:
        try:
            if connection is not None:
                # The last connection of all checkpoints when it closes.
                with self._lock.held(self._busy_timeout):
                    connection.close()
        except Exception:
            if connection is not None:
                connection.close()
        finally:
            self._lock.close()
            self._in_loop(lambda: self._ended.done() or self._ended.set_result(None))

    def _in_loop(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # a closed loop, where nobody waits any more
            self._loop.call_soon_threadsafe(call)


def begin(connection: Connection) -> None:
    """Become the one who writes."""
    connection.execute("BEGIN IMMEDIATE")


def roll_back(connection: Connection) -> None:
    """End a transaction that was not committed, if there is one."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
