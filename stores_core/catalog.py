"""What is listed newest first: an order over all, and one for each filter value in use."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable

from stores_core.limits import looked_at_most


class _Descending(str):
    """An id that sorts the other way round, so that the newest end of an order has low ids last."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


Key = tuple[int, _Descending]


class Catalog:
    """Ids ordered by (microseconds of creation, newest first; id ascending).

    The orders run from old to new, so that a new entry goes to the end of a list. A position is
    the text of a key: where a page ended.
    """

    def __init__(self) -> None:
        self._all: list[Key] = []
        self._filtered: dict[Hashable, list[Key]] = {}
        self._entries: dict[str, tuple[Key, frozenset[Hashable]]] = {}

    def put(self, id: str, created: int, filters: Collection[Hashable]) -> None:
        """Enter an id, or change its time and filters."""
        self.remove(id)
        key = (created, _Descending(id))
        self._entries[id] = (key, frozenset(filters))
        insort(self._all, key)
        for value in self._entries[id][1]:
            insort(self._filtered.setdefault(value, []), key)

    def remove(self, id: str) -> None:
        """Take an id out; one that is not there is fine."""
        key, filters = self._entries.pop(id, (None, frozenset[Hashable]()))
        if key is None:
            return
        _take_out(self._all, key)
        for value in filters:
            order = self._filtered[value]
            _take_out(order, key)
            if not order:
                del self._filtered[value]

    def __contains__(self, id: str) -> bool:
        return id in self._entries

    def count(self) -> int:
        return len(self._entries)

    def position(self, id: str) -> str:
        """The position behind an id that is there."""
        return _position_of(self._entries[id][0])

    def oldest(self) -> str | None:
        """The id at the other end."""
        return str(self._all[0][1]) if self._all else None

    def page(
        self,
        filters: Collection[Hashable],
        position: str,
        limit: int,
        *,
        before: int | None = None,
        keep: Callable[[str], bool] | None = None,
    ) -> tuple[list[str], str, int]:
        """Ids after ``position``, the position to go on from ("" at the end), how many were seen.

        With ``filters`` the shortest order among theirs is walked; ``before`` starts below a time;
        ``keep`` decides on each id. A filtered page ends once RUN-Q4's number was looked at.
        """
        order, wanted = self._all, frozenset(filters)
        if wanted:
            order = min((self._filtered.get(value, []) for value in wanted), key=len)
        index = len(order) if not position else bisect_left(order, _key_of(position))
        if before is not None:
            index = min(index, bisect_left(order, (before,)))
        most = looked_at_most(limit) if wanted or keep else limit
        found: list[str] = []
        looked = 0
        while index and looked < most and len(found) < limit:
            index -= 1
            looked += 1
            id = str(order[index][1])
            if wanted <= self._entries[id][1] and (keep is None or keep(id)):
                found.append(id)
        return found, _position_of(order[index]) if index else "", looked


def _take_out(order: list[Key], key: Key) -> None:
    del order[bisect_left(order, key)]


def _position_of(key: Key) -> str:
    return f"{key[0]}:{key[1]}"


def _key_of(position: str) -> Key:
    created, _, id = position.partition(":")
    return int(created), _Descending(id)
