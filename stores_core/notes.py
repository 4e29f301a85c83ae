"""Notes of one namespace, held in memory in the order of listings."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stores_core.codec import decode_json, encode_json
from stores_core.errors import CorruptRecordError
from stores_core.memory import StoredMemory
from stores_core.shape import replaced
from stores_core.values import filter_digests, micros

Place = tuple[int, int]
"""Where a note stands in listings: microseconds of creation, then order of arrival."""


@dataclass(slots=True)
class Note:
    """A note. ``item`` has no metadata: that is kept as JSON text, so that no two share it."""

    item: StoredMemory
    metadata: bytes
    folded_key: str
    folded_value: str
    place: Place
    _digests: frozenset[str] | None = None

    @property
    def digests(self) -> frozenset[str]:
        """What `where` can ask for; found when it is asked first, since most are never asked."""
        if self._digests is None:
            self._digests = filter_digests(self.decoded())
        return self._digests

    @property
    def size(self) -> int:
        """Bytes of its texts, for the ends of pages."""
        return len(self.item.key.encode()) + len(self.item.value.encode()) + len(self.metadata)

    def contains(self, folded_query: str) -> bool:
        return folded_query in self.folded_value or folded_query in self.folded_key

    def decoded(self) -> dict[str, Any]:
        """The metadata, anew each time. Raises CorruptRecordError."""
        try:
            return decode_json(self.metadata)
        except ValueError as error:
            raise CorruptRecordError(store="memory", id=self.item.key) from error

    def stored(self) -> StoredMemory:
        """The note as it is handed out, with metadata of its own. Raises CorruptRecordError."""
        return replaced(self.item, {"metadata": self.decoded()})


class Namespace:
    """Notes by key and by place."""

    def __init__(self) -> None:
        self.notes: dict[str, Note] = {}
        self._order: list[tuple[Place, str]] = []
        self.arrivals = 0
        """The order of arrival that the next new note gets."""

    def put(
        self, stored: StoredMemory, metadata: Mapping[str, Any], arrival: int | None = None
    ) -> None:
        """Enter a note, or a new version of it at its old place.

        ``arrival`` is that of a new note which has one already; None: it arrives now.
        """
        old = self.notes.get(stored.key)
        if old is None:
            arrival = self.arrivals if arrival is None else arrival
            self.arrivals = max(self.arrivals, arrival + 1)
            place = micros(stored.created_at), arrival
            insort(self._order, (place, stored.key))
        else:
            place = old.place
        self.notes[stored.key] = Note(
            item=stored,
            metadata=encode_json(metadata),
            folded_key=stored.key.casefold(),
            folded_value=stored.value.casefold(),
            place=place,
        )

    def remove(self, key: str) -> Note | None:
        note = self.notes.pop(key, None)
        if note is not None:
            del self._order[bisect_left(self._order, (note.place, key))]
        return note

    def oldest(self) -> Iterator[str]:
        """Keys, oldest first."""
        return (key for _, key in self._order)

    def after(self, place: Place | None) -> Iterator[Note]:
        """Notes beyond a place, oldest first."""
        start = 0
        if place is not None:
            start = bisect_right(self._order, place, key=lambda entry: entry[0])
        return (self.notes[self._order[index][1]] for index in range(start, len(self._order)))
