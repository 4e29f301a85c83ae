"""Work on one thing that waits while other work on it goes on is done together.

So the appends of one run that wait for a sync share the next one. Works for one key are done in the
order in which they came, in one thread at a time; different keys do not wait for each other.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from stores_core.sending import nothing_sent

K = TypeVar("K", bound=Hashable)
W = TypeVar("W")
R = TypeVar("R")

Waiting = tuple[W, asyncio.Future[R]]


class Gathering(Generic[K, W, R]):
    """``work(key, items)`` gives for each item its result, or the exception that it ends with."""

    def __init__(
        self, executor: Executor, work: Callable[[K, Sequence[W]], Sequence[R | Exception]]
    ) -> None:
        self._executor = executor
        self._work = work
        self._lock = threading.Lock()
        self._waiting: dict[K, deque[Waiting[W, R]]] = {}
        self._ended: list[tuple[Sequence[Waiting[W, R]], Sequence[R | Exception]]] = []

    async def do(self, key: K, item: W) -> R:
        """The result of this item. One that is cancelled before it was begun is never done."""
        loop = asyncio.get_running_loop()
        entry: Waiting[W, R] = (item, loop.create_future())
        with self._lock:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque([entry])
            else:
                queue.append(entry)
        if queue is None:
            self._executor.submit(self._drain, key, loop)
        try:
            return await entry[1]
        except asyncio.CancelledError:
            if self._withdrawn(key, entry):
                with nothing_sent():
                    raise
            raise

    def _withdrawn(self, key: K, entry: Waiting[W, R]) -> bool:
        with self._lock:
            queue = self._waiting.get(key)
            if queue is None or entry not in queue:
                return False
            queue.remove(entry)
            return True

    def _drain(self, key: K, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                queue = self._waiting[key]
                taken = list(queue)
                queue.clear()
                if not taken:
                    del self._waiting[key]
                    return
            try:
                results = self._work(key, [item for item, _ in taken])
            except Exception as error:
                results = [error] * len(taken)
            self._tell(loop, taken, results)

    def _tell(
        self,
        loop: asyncio.AbstractEventLoop,
        taken: Sequence[Waiting[W, R]],
        results: Sequence[R | Exception],
    ) -> None:
        with self._lock:
            self._ended.append((taken, results))
            if len(self._ended) > 1:
                return  # the loop was woken and has not looked yet
        loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for taken, results in ended:
            for (_, future), result in zip(taken, results, strict=True):
                if future.cancelled():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
