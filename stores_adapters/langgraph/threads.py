"""From synchronous callers on other threads to the event loop that a backend lives on."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from stores_core.errors import InvalidRequestError

T = TypeVar("T")


class HomeLoop:
    """The loop that was running when this was made; callers on other threads wait for it.

    A backend belongs to one loop, so a loop in the background of our own would not do. LangGraph
    calls the synchronous methods from worker threads, from nodes that are plain functions, while
    the loop is free to answer.
    """

    def __init__(self) -> None:
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def wait_for(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of ``call``. Raises InvalidRequestError where waiting would never end."""
        if self._loop is None or not self._loop.is_running():
            call.close()
            raise InvalidRequestError(
                field="event loop",
                found="a synchronous call, and no running loop to serve it",
                allowed="the async methods, or an adapter made in a loop that still runs",
            )
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            call.close()
            raise InvalidRequestError(
                field="event loop",
                found="a synchronous call on the loop that would have to serve it",
                allowed="the async methods (ainvoke, aget_state, aget), or another thread",
            )
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
