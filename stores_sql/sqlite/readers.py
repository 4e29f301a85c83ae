"""Readers: a few threads, each with a connection that cannot write.

A read is one function and sees one instant of the file: everything that was acknowledged before it
began, and nothing that came later.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from stores_core.errors import StoreClosedError
from stores_sql.sqlite.failures import not_applied
from stores_sql.sqlite.statements import Connection
from stores_sql.sqlite.writer import Job, roll_back

T = TypeVar("T")

THREADS = 4


class Readers:
    """The reading threads of one opened backend. They are daemons and start when needed."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._queue = queue.SimpleQueue[Job[Any] | None]()
        self._idle = threading.Semaphore(0)
        self._ends: list[asyncio.Future[None]] = []
        self._closing = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a read transaction of its own."""
        if self._closing:
            raise StoreClosedError
        job = Job(work, self._loop.create_future())
        if not self._idle.acquire(blocking=False) and len(self._ends) < THREADS:
            self._start()
        self._queue.put(job)
        try:
            return await job.future
        finally:
            job.withdraw()

    def _start(self) -> None:
        ended: asyncio.Future[None] = self._loop.create_future()
        self._ends.append(ended)
        threading.Thread(
            target=self._main, args=(ended,), name="stores_sql reader", daemon=True
        ).start()

    async def close(self) -> None:
        """Finish what waits and close the connections."""
        if not self._closing:
            self._closing = True
            for _ in self._ends:
                self._queue.put(None)
        for ended in self._ends:
            await asyncio.shield(ended)

    # From here on everything runs in the threads.

    def _main(self, ended: asyncio.Future[None]) -> None:
        connection: Connection | None = None
        try:
            while True:
                job = self._next()
                if job is None:
                    return
                if job.start():
                    try:
                        connection = connection or self._connect()
                        self._read(connection, job)
                    except Exception as error:
                        job.error = not_applied(error)
                    self._in_loop(job.deliver)
                del job  # and what it answered, while this thread waits
        finally:
            if connection is not None:
                connection.close()
            self._in_loop(lambda: ended.done() or ended.set_result(None))

    def _next(self) -> Job[Any] | None:
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            self._idle.release()
            return self._queue.get()

    def _read(self, connection: Connection, job: Job[Any]) -> None:
        connection.execute("BEGIN")
        try:
            job.value = job.work(connection)
        finally:
            roll_back(connection)

    def _in_loop(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # a closed loop, where nobody waits any more
            self._loop.call_soon_threadsafe(call)
