"""Walking through an operation that answers in pages."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from stores_core.limits import PAGE_ENTRIES


class Page(Protocol):
    @property
    def next_cursor(self) -> str: ...


A = TypeVar("A", bound=Page)


async def pages(
    operation: Callable[..., Awaitable[A]], *, limit: int = PAGE_ENTRIES, **fields: Any
) -> AsyncGenerator[A]:
    """All pages of an operation that has a cursor, ``limit`` entries each."""
    cursor, more = "", True
    while more:
        page = await operation(limit=limit, cursor=cursor, **fields)
        yield page
        cursor = page.next_cursor
        more = bool(cursor)
