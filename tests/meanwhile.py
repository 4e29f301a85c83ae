"""Interceptors that make a race or a repeat happen at one known place."""

from collections.abc import Awaitable, Callable

from stores_core import Call, Proceed
from stores_core.shape import Response


class Meanwhile:
    """Just before the next call of ``operation``, and only once, ``act`` happens."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self.act: Callable[[], Awaitable[object]] | None = None

    async def __call__(self, call: Call, proceed: Proceed) -> Response:
        act = self.act
        if act and call.operation == self._operation:
            self.act = None
            await act()
        return await proceed(call.request)


def repeating(operation: str) -> Callable[[Call, Proceed], Awaitable[Response]]:
    """Sends each call of ``operation`` twice, as a retry does that did not see the first answer."""

    async def twice(call: Call, proceed: Proceed) -> Response:
        if call.operation == operation:
            await proceed(call.request)
        return await proceed(call.request)

    return twice
