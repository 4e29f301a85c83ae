"""Whether a write had left the process when it was cut off.

A write that is cut off by its timeout is of unknown outcome, unless the backend was still doing
something that sends nothing: waiting for a connection, calling an embedder. A backend says so by
``with nothing_sent():`` around such a wait. Saying nothing is always safe.

A backend that waits for what will be there again can ask how long its caller does, and say what it
waited for rather than be cut off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
A = TypeVar("A")


class Sending:
    """One call: the time of the event loop at which it is cut off, if any; whether that was inside
    ``nothing_sent``, whether a part of it was written before, and how often it was tried.

    An interceptor may try more than once, and then an earlier try may have left the process.
    """

    __slots__ = ("cut_before", "ends_at", "has_written", "tries")

    def __init__(self) -> None:
        self.ends_at: float | None = None
        self.cut_before = False
        self.has_written = False
        self.tries = 0

    @property
    def nothing_left(self) -> bool:
        """Whether the write certainly never left the process."""
        return self.cut_before and not self.has_written and self.tries <= 1

    def counted(self, handler: Callable[[T], Awaitable[A]]) -> Callable[[T], Awaitable[A]]:
        """The handler, counting its calls."""

        def count(request: T) -> Awaitable[A]:
            self.tries += 1
            return handler(request)

        return count


current: ContextVar[Sending | None] = ContextVar("stores_core_sending", default=None)


def has_written() -> None:
    """Says that a part of this call was written, for a backend that writes in several steps: what
    it waits for afterwards by ``nothing_sent`` is not all of it."""
    sending = current.get()
    if sending is not None:
        sending.has_written = True


def seconds_left(otherwise: float) -> float:
    """How long the call under way may still take; ``otherwise`` where there is no end, or no
    call."""
    sending = current.get()
    if sending is None or sending.ends_at is None:
        return otherwise
    return sending.ends_at - asyncio.get_running_loop().time()


@contextmanager
def nothing_sent() -> Generator[None]:
    """Marks a wait during which no byte of the write has left this process."""
    try:
        yield
    except asyncio.CancelledError:
        sending = current.get()
        if sending is not None:
            sending.cut_before = True
        raise
