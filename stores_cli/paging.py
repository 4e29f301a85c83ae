"""Cutting pages off, and walking through two sequences or two logs side by side."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from stores_core.limits import PAGE_ENTRIES
from stores_core.walking import Page

PAGE = PAGE_ENTRIES

A = TypeVar("A", bound=Page)
E = TypeVar("E")
R = TypeVar("R")


async def first_of(
    listing: AsyncGenerator[A], entries: Callable[[A], Sequence[E]], limit: int
) -> tuple[list[E], bool]:
    """Up to ``limit`` entries of pages, and whether there are more."""
    found: list[E] = []
    more = False
    async with aclosing(listing):
        async for page in listing:
            found += entries(page)
            more = len(found) > limit or bool(page.next_cursor)
            if len(found) >= limit:
                break
    return found[:limit], more


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


Read = Callable[[int, int], Awaitable[Sequence[bytes]]]
"""The entries of a log from a position on, as texts, at most so many."""


async def parting(
    first: Read,
    second: Read,
    start: int,
    end: int,
    seen: Callable[[bytes, bytes], None] = lambda one, other: None,
) -> int:
    """The position between ``start`` and ``end`` at which two logs part; ``end`` where they do not.

    ``seen`` is told of each two entries that were compared.
    """
    while start < end:
        limit = min(PAGE, end - start)
        here, there = await first(start, limit), await second(start, limit)
        equal = 0
        for one, other in zip(here, there, strict=False):
            seen(one, other)
            if one != other:
                return start + equal
            equal += 1
        if equal == 0:  # one of them is gone meanwhile
            return start
        start += equal
    return end
