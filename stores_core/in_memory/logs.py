"""Logs in memory, and what a run sees of them.

A log is a list that only grows. A run reads a few prefixes of logs as one, and writes to a log of
its own. So a fork copies the list of prefixes, and nobody ever moves an entry that another reads.
"""

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from stores_core.ranges import MAX_RANGES, cut, join


class Log:
    """An append-only list of entries. ``users`` maps each view that reads it to the length needed.

    ``written_here`` marks one that a run here made, ``staged_at`` one that an import brought and no
    run refers to yet.
    """

    __slots__ = ("entries", "id", "staged_at", "users", "written_here")

    def __init__(self, id: str = "") -> None:
        self.id = id or secrets.token_hex(16)
        self.entries: list[bytes] = []
        self.users: dict[View, int] = {}
        self.staged_at: datetime | None = None
        self.written_here = not id


class Logs:
    """All logs of a tenant; ``trimmable`` are those that may hold more than anyone needs."""

    def __init__(self) -> None:
        self.by_id: dict[str, Log] = {}
        self.trimmable: set[Log] = set()

    def new(self, id: str = "") -> Log:
        log = Log(id)
        self.by_id[log.id] = log
        return log

    def drop(self, log: Log) -> None:
        self.by_id.pop(log.id, None)
        self.trimmable.discard(log)


class View:
    """The messages, or the events, of one run: prefixes of logs, read as one log."""

    __slots__ = ("_logs", "_own", "count", "ranges")

    def __init__(self, logs: Logs, ranges: Iterable[tuple[Log, int]] = ()) -> None:
        self._logs = logs
        self._own: Log | None = None
        self.ranges: list[tuple[Log, int]] = []
        self.count = 0
        self._take(ranges)

    def _take(self, ranges: Iterable[tuple[Log, int]]) -> None:
        self.ranges = list(ranges)
        self.count = sum(length for _, length in self.ranges)
        for log, length in self.ranges:
            log.users[self] = length
            log.staged_at = None

    def append(self, texts: Sequence[bytes]) -> None:
        """Add entries at the end, in a log of the view's own."""
        if not texts:
            return
        if self._own is None:
            if len(self.ranges) >= MAX_RANGES:  # only an import leaves no room for an own log
                self._replace(self._joined(self.ranges))
            self._own = self._logs.new()
            self.ranges.append((self._own, 0))
        self._own.entries.extend(texts)
        length = len(self._own.entries)
        self._own.users[self] = length
        self.ranges[-1] = (self._own, length)
        self.count += len(texts)

    def read(self, start: int, stop: int) -> list[bytes]:
        """The entries from ``start`` to ``stop``, at a cost that follows their number."""
        parts: list[list[bytes]] = []
        end = self.count
        for log, length in reversed(self.ranges):
            begin = end - length
            if begin < stop and start < end:
                parts.append(log.entries[max(0, start - begin) : min(length, stop - begin)])
            if begin <= start:
                break
            end = begin
        return list(chain.from_iterable(reversed(parts)))

    def fork(self, count: int) -> "View":
        """A view of the first ``count`` entries.

        Where these are too many ranges, this run's own are joined first: a joined copy for the fork
        alone would be made again by each further fork of this run.
        """
        taken = self._first(count)
        if len(taken) >= MAX_RANGES:
            self._replace(self._joined(self.ranges))
            taken = self._first(count)
        return View(self._logs, taken)

    def _first(self, count: int) -> list[tuple[Log, int]]:
        lengths = cut([length for _, length in self.ranges], count)
        return [(log, length) for (log, _), length in zip(self.ranges, lengths, strict=False)]

    def _joined(self, ranges: Sequence[tuple[Log, int]]) -> list[tuple[Log, int]]:
        joined: list[tuple[Log, int]] = []
        for first, last in join([length for _, length in ranges]):
            if last - first == 1:
                joined.append(ranges[first])
                continue
            log = self._logs.new()
            for part, length in ranges[first:last]:
                log.entries.extend(part.entries[:length])
            joined.append((log, len(log.entries)))
        return joined

    def _replace(self, ranges: list[tuple[Log, int]]) -> None:
        kept = {log for log, _ in ranges}
        for log, _ in self.ranges:
            if log not in kept:
                self._leave(log)
        self._own = self._own if self._own in kept else None
        self._take(ranges)

    def release(self) -> None:
        """The run is gone: its logs go with it where nobody else reads them."""
        for log, _ in self.ranges:
            self._leave(log)
        self.ranges, self.count, self._own = [], 0, None

    def _leave(self, log: Log) -> None:
        log.users.pop(self, None)
        if log.users:
            self._logs.trimmable.add(log)
        else:
            self._logs.drop(log)
