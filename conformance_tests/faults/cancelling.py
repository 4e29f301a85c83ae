"""Cancellation at every await of an operation.

An operation's coroutine is driven by hand and cancelled at its k-th suspension, k = 1, 2, … until
it ends before. Whatever k is, the operation has happened or has not, the client answers the next
call, and the operation sent again has happened once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from conformance_tests.faults.acting import Expected, Operation, prepare
from stores_core.backend import Backend

LONGEST = 400
"""More awaits than any operation has."""

PATIENCE = 10.0
"""Seconds in which the next call has to be answered."""


class Cancelled:
    """Awaits a coroutine in a task that is cancelled at its ``at``-th suspension.

    With ``late`` the cancellation comes when what is waited for is there, just before it is seen.
    """

    def __init__(self, call: Awaitable[object], at: int, *, late: bool) -> None:
        self._call, self._at, self._late = call, at, late
        self.reached = False

    def __await__(self) -> Generator[Any, Any, object]:
        task = asyncio.current_task()
        assert task
        steps, seen = self._call.__await__(), 0
        try:
            waited = next(steps)
            while True:
                seen += 1
                if seen == self._at:
                    self.reached = True
                    if self._late and waited is not None:
                        waited.add_done_callback(lambda _: task.cancel())  # pyright: ignore[reportUnknownLambdaType] - waited is whatever was yielded
                    else:
                        task.cancel()
                try:
                    sent = yield waited
                except BaseException as error:
                    waited = steps.throw(error)
                else:
                    waited = steps.send(sent)
        except StopIteration as ended:
            return ended.value

    async def ended(self) -> bool:
        """Await it in a task of its own; whether the operation came to an end all the same."""
        task = asyncio.ensure_future(_awaited(self))
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()  # raises what the operation raised
        return not task.cancelled()


async def _answered(call: Awaitable[object], where: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await call
    except TimeoutError:
        raise AssertionError(f"{where}, the next call is not answered") from None


async def _awaited(call: Cancelled) -> object:
    return await call


async def cancel_everywhere(
    operation: Operation,
    backend: Backend,
    other: Backend,
    new_id: Callable[[], str],
    *,
    also: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Cancel an operation of ``backend`` at each of its awaits; how many cancellations there were.

    ``other`` is a client of the same storage (or the same one) that looks. ``also`` is awaited
    after each cancellation, to look at what only the backend's author knows. Raises AssertionError.
    """
    expected, cancelled = await Expected.of(operation, other, new_id()), 0
    for late in (False, True):
        for at in range(1, LONGEST):
            id = new_id()
            await prepare(other, id)
            call = Cancelled(operation.act(backend, id), at, late=late)
            ended = await call.ended()
            if also is not None:
                await also()
            where = f"cancelled at await {at}{', late' if late else ''}"
            await _answered(operation.sees(backend, id), where)  # the very next call of it
            if ended:
                await expected.happened(operation, other, id, f"{where} in vain")
            else:
                await expected.settled(operation, other, id, where)
            if not call.reached:
                break
            cancelled += 1
            await _answered(operation.act(backend, id), where)
            if operation.repeatable:
                await expected.happened(operation, other, id, f"{where} and sent again")
        else:
            raise AssertionError(f"it has more than {LONGEST} awaits")
    return cancelled
