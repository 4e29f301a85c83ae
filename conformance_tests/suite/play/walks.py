"""Listings by pages: those gone through in one go, and those under way while things change."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Page = tuple[Sequence[Item], str]
Fetch = Callable[[str], Awaitable[Page[Item]]]

MOST_PAGES = 10_000


async def whole(fetch: Fetch[Item], limit: int, *, full: bool) -> list[Item]:
    """All items, by following the cursors.

    ``full``: each page holds ``limit`` but the last, which is empty only where there is nothing.
    """
    found: list[Item] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        items, cursor = await fetch(cursor)
        assert len(items) <= limit, f"a page of {limit} gave {len(items)}"
        assert items or not found or not full, "the last page is empty"
        found += items
        if not cursor:
            return found
        assert not full or len(items) == limit, f"a page of {limit} gave {len(items)}, and goes on"
    raise AssertionError("the cursors never end")


class Walk:
    """A listing under way. What matched from its begin to its end is given exactly once.

    ``standing`` tells what matches now: the generation of each id.
    """

    def __init__(self, fetch: Fetch[Any], standing: Callable[[], dict[str, int]]) -> None:
        self._fetch, self._standing = fetch, standing
        self._throughout = standing()
        self._given = Counter[str]()
        self._cursor = ""

    def keep_up(self) -> None:
        """Forget what does not match any more, or is another by now."""
        now = self._standing()
        self._throughout = {
            id: generation
            for id, generation in self._throughout.items()
            if now.get(id) == generation
        }

    async def go_on(self, id_of: Callable[[Any], str]) -> bool:
        """One more page; whether it was the last. Fails where the whole walk was wrong."""
        items, self._cursor = await self._fetch(self._cursor)
        ids = [id_of(item) for item in items]
        strangers = set(ids) - self._standing().keys()
        assert not strangers, f"a page gave {strangers}, which do not match"
        self._given.update(ids)
        if self._cursor:
            return False
        for id in self._throughout:
            assert self._given[id] == 1, (
                f"{id!r} was there throughout and was given {self._given[id]} times"
            )
        return True
