"""Logs, and what a run sees of them: ranges, prefixes of logs that are read as one.

A fork copies the list of ranges. A run appends to a log of its own; forks may refer to a prefix of
that, which never changes. ``readers`` holds, for each log and run, how much of it the run needs.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from stores_core.ranges import MAX_RANGES, cut, join

from lmdb_stores.storage import Transaction

Range = tuple[str, int]
"""A log and the number of entries in its prefix."""


@dataclass
class View:
    """The messages, or the events, of one run; ``own`` is the log that it appends to, if any."""

    ranges: list[Range] = field(default_factory=list[Range])
    own: str = ""

    @property
    def count(self) -> int:
        return sum(length for _, length in self.ranges)

    def append(self, t: Transaction, reader: bytes, bodies: Sequence[bytes]) -> None:
        """Add entries at the end. ``reader`` stands for the run."""
        if not bodies:
            return
        if not self.own:
            self.own = secrets.token_hex(16)
            self.ranges.append((self.own, 0))
        length = self.ranges[-1][1]
        for position, body in enumerate(bodies, length):
            t.put("entries", _entry(self.own, position), body)
        self.ranges[-1] = self.own, length + len(bodies)
        View(self.ranges[-1:]).refer(t, reader)

    def read(self, t: Transaction, start: int, stop: int) -> list[bytes]:
        """The entries from ``start`` to ``stop``."""
        found: list[bytes] = []
        begin = 0
        for log, length in self.ranges:
            first, last = max(start - begin, 0), min(stop - begin, length)
            begin += length
            if first < last:
                walk = t.walk("entries", bytes.fromhex(log), first.to_bytes(8))
                found += [body for _, (_, body) in zip(range(last - first), walk, strict=False)]
        return found

    def first(self, count: int) -> "View":
        """A view of the first ``count`` entries, for a fork."""
        lengths = cut([length for _, length in self.ranges], count)
        logs = (log for log, _ in self.ranges)
        return View(list(zip(logs, lengths, strict=False)))

    def join(self, t: Transaction, reader: bytes) -> None:
        """Copy neighbouring ranges into one before they are too many for a fork."""
        if len(self.ranges) < MAX_RANGES:
            return
        old, self.ranges = self.ranges, []
        for first, last in join([length for _, length in old]):
            if last - first == 1:
                self.ranges.append(old[first])
                continue
            bodies = View(old[first:last]).read(t, 0, sum(n for _, n in old[first:last]))
            copy = View()
            copy.append(t, reader, bodies)
            self.ranges += copy.ranges
        kept = {log for log, _ in self.ranges}
        self.own = self.own if self.own in kept else ""
        self.refer(t, reader)
        View([part for part in old if part[0] not in kept]).leave(t, reader)

    def refer(self, t: Transaction, reader: bytes) -> None:
        """Say how much of each log this run needs."""
        for log, length in self.ranges:
            t.put("readers", bytes.fromhex(log) + reader, length.to_bytes(8))

    def leave(self, t: Transaction, reader: bytes) -> None:
        """This run needs its logs no more: free what nobody else needs."""
        for log, _ in self.ranges:
            t.delete("readers", bytes.fromhex(log) + reader)
            readers = t.walk("readers", bytes.fromhex(log))
            lengths = [int.from_bytes(length) for _, length in readers]
            needed = max(lengths, default=0)
            t.clear("entries", bytes.fromhex(log), needed.to_bytes(8))


def _entry(log: str, position: int) -> bytes:
    return bytes.fromhex(log) + position.to_bytes(8)
