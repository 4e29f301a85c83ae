"""Whether a write had left the process when it was cut off.

A write that is cut off by its timeout is of unknown outcome, unless the backend was still doing
something that sends nothing: waiting for a connection, calling an embedder. A backend says so by
``with nothing_sent():`` around such a wait. Saying nothing is always safe.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar


class Sending:
    """One call's record; ``cut_before`` is set when it was cut off inside ``nothing_sent``."""

    __slots__ = ("cut_before",)

    def __init__(self) -> None:
        self.cut_before = False


current: ContextVar[Sending | None] = ContextVar("stores_core_sending", default=None)


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
