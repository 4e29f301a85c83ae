"""Walking through pages, and through two sequences side by side."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

PAGE = 1_000


class Page(Protocol):
    @property
    def next_cursor(self) -> str: ...


A = TypeVar("A", bound=Page)
R = TypeVar("R")


async def pages(
    operation: Callable[..., Awaitable[A]], *, limit: int = PAGE, **fields: Any
) -> AsyncGenerator[A]:
    """All pages of an operation that has a cursor, ``limit`` entries each."""
    cursor, more = "", True
    while more:
        page = await operation(limit=limit, cursor=cursor, **fields)
        yield page
        cursor = page.next_cursor
        more = bool(cursor)


async def tied(
    entries: AsyncIterator[R], tie: Callable[[R], Any], place: Callable[[R], Any]
) -> AsyncGenerator[R]:
    """``entries`` with those of one ``tie``, which stand together, put in order of ``place``."""
    group: list[R] = []
    async for entry in entries:
        if group and tie(group[0]) != tie(entry):
            for held in sorted(group, key=place):
                yield held
            group.clear()
        group.append(entry)
    for held in sorted(group, key=place):
        yield held


async def paired(
    first: AsyncIterator[R], second: AsyncIterator[R], place: Callable[[R], Any]
) -> AsyncGenerator[tuple[R | None, R | None]]:
    """What stands at each place of two ascending sequences; None where one has nothing there."""
    here, there = await anext(first, None), await anext(second, None)
    while here is not None or there is not None:
        if there is None or (here is not None and place(here) < place(there)):
            yield here, None
            here = await anext(first, None)
        elif here is None or place(there) < place(here):
            yield None, there
            there = await anext(second, None)
        else:
            yield here, there
            here, there = await anext(first, None), await anext(second, None)
