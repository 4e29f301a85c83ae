"""Logs in tables, and what a run sees of them.

A log only grows at its end. A run reads a few prefixes of logs as one, its ranges, and after them a
log of its own. So a fork copies the list of ranges, and nobody ever moves an entry that another
reads. A log's users are the ranges that refer to it and the run that writes to it; the longest of
them is what it must keep.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Select,
    SmallInteger,
    Text,
    case,
    cast,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
    update,
)

from stores_core.codec import decode_json
from stores_core.errors import CorruptRecordError
from stores_core.limits import PAGE_BYTES
from stores_sql.headers import StoredRun
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Row, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import EVENTS, MESSAGES, entries, logs, run_ranges, runs

FREED_AT_ONCE = 1_000
"""So many entries go with a run that is deleted; what is more is left to sweep."""

BEYOND = (1 << 63) - 1
"""A position, or a number of entries, above any that there is."""

_HEAD = -1

Range = tuple[int, int]
"""A log and the number of entries in its prefix."""


def kind_of(value: int) -> Any:
    return literal_column(str(int(value)), SmallInteger)


def views(run: Any) -> Any:
    """What the run of one row, with the columns of ``runs``, reads: its ranges and its own logs."""
    shared = select(
        run_ranges.c.kind, run_ranges.c.start, run_ranges.c.log, run_ranges.c.length
    ).where(run_ranges.c.tenant == run.c.tenant, run_ranges.c.run == run.c.number)
    own = (
        select(
            kind_of(kind).label("kind"),
            run.c[f"{name}_start"],
            run.c[f"{name}_log"],
            run.c[f"{name}_count"] - run.c[f"{name}_start"],
        )
        for kind, name in ((MESSAGES, "message"), (EVENTS, "event"))
    )
    return union_all(shared, *own).subquery("views")


def _reading(*, paged: bool) -> Statement:
    """A header and entries of both logs, all as they are at one instant, in any order.

    Where it is ``paged``, none comes that begins beyond the bytes of a page.
    """
    run = select(*runs.c).where(runs.c.tenant == TENANT, runs.c.id == given("id")).cte("run")
    view = views(run)

    def bound(kind: str) -> tuple[Any, Any]:
        count = run.c[f"{kind}_count"]
        first = func.greatest(
            given(f"{kind}s_begin", BigInteger), count - given(f"{kind}s_last", BigInteger)
        )
        return first, func.least(count, given(f"{kind}s_end", BigInteger))

    (m_begin, m_end), (e_begin, e_end) = bound("message"), bound("event")
    of_messages = view.c.kind == kind_of(MESSAGES)
    begin = case((of_messages, m_begin), else_=e_begin) - view.c.start
    end = case((of_messages, m_end), else_=e_end) - view.c.start
    # For each range by itself, in one place of one index, whatever Postgres thinks how many come.
    part = (
        select(entries.c.position, entries.c.body)
        .where(
            entries.c.tenant == run.c.tenant,
            entries.c.log == view.c.log,
            entries.c.position >= func.greatest(fixed(0), begin),
            entries.c.position < func.least(view.c.length, end),
        )
        .order_by(entries.c.position)
        .offset(fixed(0))
        .correlate(run, view)
        .lateral("part")
    )
    place = (view.c.start + part.c.position).label("place")
    found = select(view.c.kind, place, part.c.body).select_from(
        run.join(view, true()).join(part, true())
    )
    if paged:
        size = func.octet_length(part.c.body)
        until = func.sum(size).over(partition_by=view.c.kind, order_by=place.element)
        sized = found.add_columns((until - size).label("before")).subquery("sized")
        within = sized.c.before <= fixed(PAGE_BYTES)
        found = select(sized.c.kind, sized.c.place, sized.c.body).where(within)
    head = func.json_build_array(*(run.c[name] for name in StoredRun._fields))
    headed = select(kind_of(_HEAD), literal_column("0", BigInteger), cast(head, Text))
    return Statement(union_all(headed.select_from(run), found))


_READ, _READ_PAGE = _reading(paged=False), _reading(paged=True)

Texts = tuple[list[bytes], list[bytes]]
"""Entries of the two logs of a run."""


class Part(NamedTuple):
    """Which entries of a log: positions from ``begin`` to ``end``, and of all the ``last`` ones."""

    begin: int = 0
    end: int = BEYOND
    last: int = BEYOND

    @classmethod
    def page(cls, begin: int, limit: int) -> "Part":
        """So many entries from a position on, which may be the largest number there is."""
        return cls(begin, min(begin + limit, BEYOND))

    def within(self, count: int) -> range:
        """The positions in a log of that length."""
        return range(max(self.begin, count - self.last), min(self.end, count))


NOTHING = Part(last=0)


async def read(
    connection: Connection,
    tenant: str,
    run_id: str,
    messages: Part,
    events: Part,
    *,
    paged: bool = False,
) -> tuple[StoredRun, Texts] | None:
    """A header and these entries of the two logs, at a cost that follows their number.

    ``paged`` may leave out what is beyond the bytes of a page. None where the run is unknown.
    Raises CorruptRecordError where an entry is missing.
    """
    rows = await (_READ_PAGE if paged else _READ).all(
        connection,
        name=tenant, id=run_id,
        messages_begin=messages.begin, messages_end=messages.end, messages_last=messages.last,
        events_begin=events.begin, events_end=events.end, events_last=events.last,
    )  # fmt: skip
    head = next((row for row in rows if row[0] == _HEAD), None)
    if head is None:
        return None
    run = StoredRun._make(decode_json(head[2]))
    return run, (
        _in_order(rows, MESSAGES, run, messages.within(run.message_count), paged),
        _in_order(rows, EVENTS, run, events.within(run.event_count), paged),
    )


def _in_order(
    rows: Sequence[Row], kind: int, run: StoredRun, places: range, paged: bool
) -> list[bytes]:
    found = [row for row in rows if row[0] == kind]
    found.sort(key=itemgetter(1))
    if paged and found:
        places = places[: len(found)]
    if len(found) != len(places) or (found and found[-1][1] != places[-1]):
        there = {row[1] for row in found}
        missing = next((place for place in places if place not in there), -1)
        raise CorruptRecordError(store="runs", id=run.id, position=missing)
    return [row[2].encode() for row in found]


_RANGES = Statement(
    select(run_ranges.c.run, run_ranges.c.kind, run_ranges.c.log, run_ranges.c.length)
    .where(
        run_ranges.c.tenant == given("tenant"),
        run_ranges.c.run == func.any(given("runs", ARRAY(BigInteger))),
    )
    .order_by(run_ranges.c.run, run_ranges.c.kind, run_ranges.c.start)
)

Both = tuple[list[Range], list[Range]]
"""What a run reads of messages and of events."""


async def ranges_of(
    connection: Connection, tenant: int, read_by: Sequence[StoredRun]
) -> dict[int, Both]:
    """What each of these runs reads, by their numbers."""
    found: dict[int, Both] = {run.number: ([], []) for run in read_by}
    for row in await _RANGES.all(connection, tenant=tenant, runs=list(found)):
        kind: int = row[1]
        found[row[0]][kind].append((row[2], row[3]))
    for run in read_by:
        messages, events = found[run.number]
        if run.message_count > run.message_start:
            messages.append((run.message_log, run.message_count - run.message_start))
        if run.event_count > run.event_start:
            events.append((run.event_log, run.event_count - run.event_start))
    return found


_given_logs = func.any(given("logs", ARRAY(BigInteger)))
_of_given = (logs.c.tenant == given("tenant"), logs.c.number == _given_logs)
_HOLD = Statement(select(logs.c.number).where(*_of_given).order_by(logs.c.number).with_for_update())
_of_run = (run_ranges.c.tenant == given("tenant"), run_ranges.c.run == given("run"))
_HOLD_OF_RUN = Statement(
    select(logs.c.number)
    .where(
        logs.c.tenant == given("tenant"),
        or_(
            logs.c.number == func.any(given("own", ARRAY(BigInteger))),
            logs.c.number.in_(select(run_ranges.c.log).where(*_of_run)),
        ),
    )
    .order_by(logs.c.number)
    .with_for_update()
)


async def hold(connection: Connection, tenant: int, numbers: Iterable[int]) -> None:
    """Nobody frees entries of these logs, or brings some, until the transaction ends.

    In the order of their numbers, so that no two wait for each other.
    """
    await _HOLD.all(connection, tenant=tenant, logs=list(numbers))


async def hold_of_run(connection: Connection, tenant: int, run: StoredRun) -> list[int]:
    """The same for the logs that a run reads; their numbers."""
    own = [run.message_log, run.event_log]
    rows = await _HOLD_OF_RUN.all(connection, tenant=tenant, run=run.number, own=own)
    return [log for (log,) in rows]


_length: Select[Any] = select(func.max(entries.c.position) + fixed(1)).where(
    entries.c.tenant == logs.c.tenant, entries.c.log == logs.c.number
)
_need: Select[Any] = select(func.max(run_ranges.c.length)).where(
    run_ranges.c.tenant == logs.c.tenant, run_ranges.c.log == logs.c.number
)
_STANDING = Statement(
    select(
        logs.c.number,
        logs.c.run,
        func.coalesce(_length.scalar_subquery(), fixed(0)),
        _need.scalar_subquery(),
    )
    .where(*_of_given)
    .order_by(logs.c.number)
)


def _array(name: str) -> Any:
    return given(name, ARRAY(BigInteger))


_pairs = func.unnest(_array("cut"), _array("cut_at")).table_valued("log", "begin")
_cut = _pairs.render_derived("cut")
_TRIM = Statement(
    select(null())
    .where(literal_column("false"))
    .add_cte(
        delete(entries)
        .where(
            entries.c.tenant == given("tenant"),
            entries.c.log == _cut.c.log,
            entries.c.position >= _cut.c.begin,
        )
        .cte("trimming"),
        delete(logs)
        .where(logs.c.tenant == given("tenant"), logs.c.number == func.any(_array("gone")))
        .cte("going"),
        update(logs)
        .where(logs.c.tenant == given("tenant"), logs.c.number == func.any(_array("kept")))
        .values(trimmable=logs.c.number == func.any(_array("left")))
        .cte("keeping"),
    )
)


_LENGTHS = Statement(
    select(logs.c.number, func.coalesce(_length.scalar_subquery(), fixed(0))).where(*_of_given)
)


async def log_lengths(
    connection: Connection, tenant: int, numbers: Iterable[int]
) -> dict[int, int]:
    """How many entries each of these logs holds."""
    rows = await _LENGTHS.all(connection, tenant=tenant, logs=list(numbers))
    return {row[0]: row[1] for row in rows}


async def free(connection: Connection, tenant: int, numbers: Iterable[int], budget: int) -> int:
    """Free up to ``budget`` entries that nobody needs of held logs, from their ends; how many.

    A log that nobody reads goes whole. What the budget did not reach is marked for sweep.
    """
    rows = await _STANDING.all(connection, tenant=tenant, logs=list(numbers))
    cut, gone, kept = dict[int, int](), list[int](), list[int]()
    left = list[int]()
    freed = 0
    for log, run, length, need in rows:
        needed = length if run else need or 0
        some = max(0, min(budget - freed, length - needed))
        if some:
            cut[log] = length - some
            freed += some
        if length - some > needed:
            left.append(log)
        if length - some <= needed and need is None and not run:
            gone.append(log)
        else:
            kept.append(log)
    await _TRIM.run(
        connection,
        tenant=tenant, cut=list(cut), cut_at=list(cut.values()), gone=gone, kept=kept, left=left,
    )  # fmt: skip
    return freed
