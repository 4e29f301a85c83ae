"""Logs in tables, and what a run sees of them.

A log only grows at its end. A run reads a few prefixes of logs as one, its ranges, and writes to a
log of its own. So a fork copies the list of ranges, and nobody ever moves an entry that another
reads. A log's users are the ranges that refer to it, and the longest of them is what it must keep.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, null, select, update

from stores_core.ranges import MAX_RANGES, join
from stores_sql.parameters import fixed, given
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.tables import ENTRY_SPAN, OPEN, entries, logs, run_ranges

FREED_AT_ONCE = 1_000
"""So many entries go with a run that is deleted; what is more is left to sweep."""

Range = tuple[int, int]
"""A log and the number of entries in its prefix."""

_INSERT_LOG = inserting(logs, numbered=True)
_INSERT_ENTRY = inserting(entries)
_INSERT_RANGE = inserting(run_ranges)

_of_view = (run_ranges.c.run == given("run"), run_ranges.c.kind == given("kind"))
_first = run_ranges.c.log * fixed(ENTRY_SPAN)
_READ = Statement(
    select(entries.c.body)
    .select_from(
        run_ranges.join(
            entries,
            entries.c.place >= _first + func.max(fixed(0), given("begin") - run_ranges.c.start),
        )
    )
    .where(
        *_of_view,
        run_ranges.c.start < given("stop"),
        run_ranges.c.start + run_ranges.c.length > given("begin"),
        entries.c.place
        < _first + func.min(run_ranges.c.length, given("stop") - run_ranges.c.start),
    )
    .order_by(run_ranges.c.start, entries.c.place)
)
_RANGES = Statement(
    select(run_ranges.c.start, run_ranges.c.log, run_ranges.c.length)
    .where(*_of_view)
    .order_by(run_ranges.c.start)
)
_COUNT_RANGES = Statement(select(func.count()).select_from(run_ranges).where(*_of_view))
_FORK = Statement(
    insert(run_ranges).from_select(
        ["run", "kind", "start", "log", "length"],
        select(
            given("new_run"),
            run_ranges.c.kind,
            run_ranges.c.start,
            run_ranges.c.log,
            func.min(run_ranges.c.length, given("count") - run_ranges.c.start),
        ).where(*_of_view, run_ranges.c.start < given("count")),
    )
)
_COPY = Statement(
    insert(entries).from_select(
        ["place", "body"],
        select(entries.c.place + given("shift"), entries.c.body).where(
            entries.c.place >= given("first"), entries.c.place < given("last")
        ),
    )
)
_DELETE_RANGES = Statement(delete(run_ranges).where(*_of_view))
_LOGS_OF_RUN = Statement(
    select(run_ranges.c.log).where(run_ranges.c.run == given("run")).distinct()
)
_DELETE_ALL_RANGES = Statement(delete(run_ranges).where(run_ranges.c.run == given("run")))
_NEED = Statement(select(func.max(run_ranges.c.length)).where(run_ranges.c.log == given("log")))
_LAST = Statement(
    select(func.max(entries.c.place)).where(
        entries.c.place >= given("first"), entries.c.place < given("last")
    )
)
_DELETE_ENTRIES = Statement(
    delete(entries).where(entries.c.place >= given("first"), entries.c.place < given("last"))
)
_DELETE_LOG = Statement(delete(logs).where(logs.c.number == given("log")))
_MARK_TRIMMABLE = Statement(
    update(logs).values(trimmable=given("value")).where(logs.c.number == given("log"))
)
_UNSTAGE = Statement(
    update(logs)
    .values(staged=null())
    .where(logs.c.number == given("log"), logs.c.staged.is_not(None))
)


@dataclass(slots=True)
class View:
    """The messages, or the events (``kind``), of one run. ``log`` is the run's own, 0 if none."""

    tenant: int
    run: int
    kind: int
    count: int = 0
    log: int = 0
    start: int = 0

    def append(self, connection: Connection, texts: Sequence[bytes]) -> None:
        """Add entries at the end, in a log of the run's own."""
        if not texts:
            return
        if not self.log:
            if _COUNT_RANGES.value(connection, run=self.run, kind=self.kind) >= MAX_RANGES:
                self._replace(connection, self._joined(connection))
            self.log, self.start = new_log(connection, self.tenant), self.count
            self._insert(connection, [(self.log, OPEN)], self.start)
        add_entries(connection, self.log, self.count - self.start, texts)
        self.count += len(texts)

    def read(self, connection: Connection, begin: int, stop: int) -> list[bytes]:
        """The entries from ``begin`` to ``stop``, at a cost that follows their number."""
        if begin >= stop:
            return []
        rows = _READ.all(connection, run=self.run, kind=self.kind, begin=begin, stop=stop)
        return [body for (body,) in rows]

    def ranges(self, connection: Connection) -> list[Range]:
        """What the run reads, the open range as long as it is now."""
        rows = _RANGES.all(connection, run=self.run, kind=self.kind)
        return [(log, min(length, self.count - start)) for start, log, length in rows]

    def fork(self, connection: Connection, new_run: int, count: int) -> None:
        """Give a new run the first ``count`` entries; joins ranges first when there are too many.

        This run takes over the joined ranges too, or each further fork of it would copy again.
        """
        if _COUNT_RANGES.value(connection, run=self.run, kind=self.kind) >= MAX_RANGES:
            self._replace(connection, self._joined(connection))
        _FORK.run(connection, run=self.run, kind=self.kind, new_run=new_run, count=count)

    def take(self, connection: Connection, ranges: Iterable[Range]) -> None:
        """Let a new run read these."""
        self.count = self._insert(connection, ranges, 0)

    def _insert(self, connection: Connection, ranges: Iterable[Range], start: int) -> int:
        rows: list[tuple[int, ...]] = []
        for log, length in ranges:
            rows.append((self.run, self.kind, start, log, length))
            _UNSTAGE.run(connection, log=log)
            start += length
        _INSERT_RANGE.many(connection, rows)
        return start

    def _joined(self, connection: Connection) -> list[Range]:
        ranges = self.ranges(connection)
        joined: list[Range] = []
        for first, last in join([length for _, length in ranges]):
            if last - first == 1:
                joined.append(ranges[first])
                continue
            log, total = new_log(connection, self.tenant), 0
            for part, length in ranges[first:last]:
                source = part * ENTRY_SPAN
                shift = log * ENTRY_SPAN + total - source
                _COPY.run(connection, shift=shift, first=source, last=source + length)
                total += length
            joined.append((log, total))
        return joined

    def _replace(self, connection: Connection, ranges: Sequence[Range]) -> None:
        kept = {log for log, _ in ranges}
        left = [log for log, _ in self.ranges(connection) if log not in kept]
        _DELETE_RANGES.run(connection, run=self.run, kind=self.kind)
        if self.log in kept:  # then it is the last, and the run goes on writing there
            ranges = [*ranges[:-1], (self.log, OPEN)]
        else:
            self.log = self.start = 0
        self._insert(connection, ranges, 0)
        free(connection, left)


def leave(connection: Connection, run: int) -> list[int]:
    """The run reads nothing any more; the logs that it read, to be freed."""
    used = [log for (log,) in _LOGS_OF_RUN.all(connection, run=run)]
    _DELETE_ALL_RANGES.run(connection, run=run)
    return used


def free(connection: Connection, used: Iterable[int]) -> None:
    """What nobody reads of these logs goes, a little now and the rest by sweep."""
    budget = FREED_AT_ONCE
    for log in used:
        budget -= trim(connection, log, budget)


def new_log(connection: Connection, tenant: int, id: str = "", *, staged: int | None = None) -> int:
    """Make a log; without an id it gets one that no other storage has."""
    return _INSERT_LOG.number(
        connection,
        tenant=tenant,
        id=id or secrets.token_hex(16),
        written_here=not id,
        staged=staged,
        trimmable=0,
    )


def add_entries(connection: Connection, log: int, position: int, texts: Iterable[bytes]) -> None:
    """Write entries into a log from ``position`` on."""
    _INSERT_ENTRY.many(connection, enumerate(texts, log * ENTRY_SPAN + position))


def length_of(connection: Connection, log: int) -> int:
    """How many entries a log holds."""
    first = log * ENTRY_SPAN
    last: int | None = _LAST.value(connection, first=first, last=first + ENTRY_SPAN)
    return 0 if last is None else last - first + 1


def trim(connection: Connection, log: int, budget: int) -> int:
    """Free up to ``budget`` entries that nobody needs, from the end; how many were freed.

    A log that nobody reads goes whole. What the budget did not reach is marked for sweep.
    """
    need: int | None = _NEED.value(connection, log=log)
    length = length_of(connection, log)
    freed = max(0, min(budget, length - (need or 0)))
    end = log * ENTRY_SPAN + length
    if freed:
        _DELETE_ENTRIES.run(connection, first=end - freed, last=end)
    if length - freed > (need or 0):
        _MARK_TRIMMABLE.run(connection, log=log, value=1)
    elif need is None:
        _DELETE_LOG.run(connection, log=log)
    else:
        _MARK_TRIMMABLE.run(connection, log=log, value=0)
    return freed
