"""Two processes that use one storage at once, forked from one that has everything imported."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from conformance_tests.faults.killing import ChildError, in_child, result_of
from stores_core import Backend, open_backend

TURNS = 4
BOTH = (0, 1)


class Shared(NamedTuple):
    """What each of two processes does, and a look at what both left."""

    write: Callable[[Backend, int], Awaitable[None]]
    look: Callable[[Backend], Awaitable[None]]


def shared_by_two(name: str, shared: Shared, url: str) -> None:
    """Raises ChildError, with the name, where a process fails or something is missing.

    Its own process opens nothing, so that it may be forked.
    """

    async def write(who: int) -> None:
        async with open_backend(url) as backend:
            await shared.write(backend, who)

    async def look() -> None:
        async with open_backend(url) as backend:
            await shared.look(backend)

    try:
        for writer in [in_child(lambda: write(0)), in_child(lambda: write(1))]:
            result_of(writer)
        result_of(in_child(look))
    except ChildError as error:
        raise ChildError(f"{name}: {error}") from None
