"""The entries of sessions while they are read: a few MiB in memory, the rest in a temporary file.

A session may be larger than memory, and its branches begin with what it holds. So a log only ever
grows, is read in any order, and a part of it is a view that copies nothing.
"""

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import BinaryIO, Generic, Protocol, TypeVar, cast, overload
from weakref import ref

from stores_core.codec import encode
from stores_core.limits import MIB
from stores_core.shape import Value

KEPT_BYTES = 4 * MIB
"""Of text: so much of all sessions of a source is in memory, about three times that as objects."""

_AT_ONCE = 100
V = TypeVar("V", bound=Value)

Decode = Callable[[Iterable[bytes]], list[V]]


class _Puttable(Protocol):
    def put_away(self) -> None: ...


class Spill:
    """A file without a name, for the texts of one source, made when there is much. Close it."""

    def __init__(self) -> None:
        self._end = 0
        self._kept = 0
        self._logs: list[ref[_Puttable]] = []  # what became of a session's log is no business here

    def keep(self, log: _Puttable, size: int, *, first: bool) -> None:
        """Note that ``log`` holds so many bytes more in memory; when it is too much all logs put
        away what they hold."""
        if first:
            self._logs.append(ref(log))
        self._kept += size
        if self._kept > KEPT_BYTES:
            for one in filter(None, (held() for held in self._logs)):
                one.put_away()
            self._logs.clear()
            self._kept = 0

    def write(self, text: bytes) -> int:
        """Where the text stands now."""
        start = self._end
        self._file.seek(start)
        left = memoryview(text)
        while left:
            left = left[self._file.write(left) :]
        self._end += len(text)
        return start

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        parts = list[bytes]()
        while size:
            parts.append(self._file.read(size))
            size -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        if "_file" in vars(self):
            self._file.close()

    @cached_property
    def _file(self) -> BinaryIO:
        return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))


class _Log(Generic[V]):
    """Entries that one session alone added: the place and size of each, the newest as they are."""

    def __init__(self, spill: Spill, decode: Decode[V]) -> None:
        self._spill, self._decode = spill, decode
        self._places = array("Q")
        self.sizes = array("I")
        self.token = object()
        self._newest: list[V] = []

    def __len__(self) -> int:
        return len(self.sizes)

    def append(self, entry: V, size: int) -> None:
        self.sizes.append(size)
        self._newest.append(entry)
        self._spill.keep(self, size, first=len(self._newest) == 1)

    def put_away(self) -> None:
        texts = [encode(entry) for entry in self._newest]
        place = self._spill.write(b"".join(texts))
        for number, text in enumerate(texts, len(self._places)):
            self._places.append(place)
            self.sizes[number] = len(text)
            place += len(text)
        self._newest.clear()

    def between(self, start: int, stop: int) -> Iterator[V]:
        while start < stop:
            away = len(self._places)
            if start >= away:
                yield self._newest[start - away]
                start += 1
                continue
            end = min(stop, away, start + _AT_ONCE)
            texts = (self._spill.read(self._places[n], self.sizes[n]) for n in range(start, end))
            yield from self._decode(texts)
            start = end


class _Part(Generic[V]):
    """A piece of a log that is another session's too."""

    def __init__(self, log: _Log[V], start: int, stop: int) -> None:
        self.log, self.start, self.stop = log, start, stop


Outline = tuple[tuple[object, int, int], ...]
"""Which pieces of which logs make up a sequence of entries. It holds none of them."""


class Entries(Sequence[V]):
    """The entries of one log of a session. A slice, with step 1 alone, may grow on its own."""

    def __init__(self, spill: Spill, decode: Decode[V], parts: Sequence[_Part[V]] = ()) -> None:
        self._spill, self._decode = spill, decode
        self._parts = list(parts)
        self._ends: list[int] = []
        for part in parts:
            self._ends.append(self._before + part.stop - part.start)
        self._own = _Log(spill, decode)

    @property
    def _before(self) -> int:
        """How many entries are of other logs."""
        return self._ends[-1] if self._ends else 0

    def append(self, entry: V, size: int) -> None:
        """Add an entry whose text has so many bytes."""
        self._own.append(entry, size)

    def __len__(self) -> int:
        return self._before + len(self._own)

    @overload
    def __getitem__(self, index: int) -> V: ...
    @overload
    def __getitem__(self, index: slice) -> "Entries[V]": ...
    def __getitem__(self, index: int | slice) -> "V | Entries[V]":
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return Entries(self._spill, self._decode, self._cut(start, stop))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        (part,) = self._cut(at, at + 1)
        return next(part.log.between(part.start, part.stop))

    def __iter__(self) -> Iterator[V]:
        # What comes meanwhile is none of it.
        parts = self._cut(0, len(self))
        return chain.from_iterable(part.log.between(part.start, part.stop) for part in parts)

    def sizes(self) -> Iterator[int]:
        """The bytes of each entry's text."""
        for part in self._cut(0, len(self)):
            yield from part.log.sizes[part.start : part.stop]

    def outline(self) -> Outline:
        """What to compare by :func:`alike` later on."""
        parts = self._cut(0, len(self))
        return tuple((part.log.token, part.start, part.stop) for part in parts)

    def _cut(self, start: int, stop: int) -> list[_Part[V]]:
        found: list[_Part[V]] = []
        first = bisect_right(self._ends, start)
        begin = self._ends[first - 1] if first else 0
        for part in [*self._parts[first:], _Part(self._own, 0, len(self._own))]:
            end = begin + part.stop - part.start
            low, high = max(start, begin), min(stop, end)
            if low < high:
                cut = part.start - begin
                found.append(_Part(part.log, low + cut, high + cut))
            if end >= stop:
                break
            begin = end
        return found


def alike(one: Outline, other: Outline) -> int:
    """How many first entries of two sequences are the very same."""
    count = 0
    for (log, start, stop), (other_log, other_start, other_stop) in zip(one, other, strict=False):
        if log is not other_log or start != other_start:
            break
        count += min(stop, other_stop) - start
        if stop != other_stop:
            break
    return count
