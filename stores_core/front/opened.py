"""What all fronts of one opened backend share: its settings and whether it may be used."""

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import datetime

from stores_core.errors import InvalidRequestError, StoreClosedError
from stores_core.interceptors import Interceptor
from stores_core.limits import Limits
from stores_core.values import Clock, new_id, system_clock

NewForkId = Callable[[str, datetime], str]
"""Makes an id for a fork of that run at that time."""


def _any_id(source: str, now: datetime) -> str:
    return new_id(now)


class Opened:
    """The settings of one opened backend. ``timeout`` is in seconds; None waits for ever."""

    def __init__(self, name: str, identity: str, *, loop_bound: bool) -> None:
        self.name = name
        self.identity = identity
        self.loop_bound = loop_bound
        self.clock: Clock = system_clock
        self.new_fork_id: NewForkId = _any_id
        self.timeout: float | None = 30.0
        self.limits = Limits()
        self.interceptors: Sequence[Interceptor] = ()
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()

    def ensure_usable(self) -> None:
        """Raise StoreClosedError once closed, InvalidRequestError in another loop or process."""
        if self.closed:
            raise StoreClosedError
        if not self.loop_bound:
            return
        if os.getpid() != self._process:
            raise InvalidRequestError(
                field="backend", found="a forked process", allowed="the process that opened it"
            )
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif loop is not self._loop:
            raise InvalidRequestError(
                field="backend", found="another event loop", allowed="the loop that opened it"
            )
