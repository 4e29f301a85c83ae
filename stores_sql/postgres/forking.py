"""Forking a run, and joining the ranges of one that has too many."""

import secrets
from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Boolean,
    Integer,
    Text,
    case,
    delete,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)

from stores_core.ranges import MAX_RANGES, join
from stores_core.runs import ForkRunRequest, ForkRunResponse
from stores_core.values import micros
from stores_sql.catalog import encode_labels
from stores_sql.headers import StoredRun
from stores_sql.parameters import fixed, given
from stores_sql.postgres.logs import (
    FREED_AT_ONCE,
    Range,
    free,
    hold_of_run,
    kind_of,
    ranges_of,
    views,
)
from stores_sql.postgres.run_rows import FIND, HOLD, entering, log_ids
from stores_sql.postgres.statements import Connection, Statement, inserting
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.tables import (
    EVENTS,
    MESSAGES,
    NUMBERS,
    entries,
    logs,
    run_ranges,
    runs,
    tenants,
)

_ranges_of = {
    kind: select(func.count())
    .where(
        run_ranges.c.tenant == runs.c.tenant,
        run_ranges.c.run == runs.c.number,
        run_ranges.c.kind == kind_of(kind),
    )
    .scalar_subquery()
    for kind in (MESSAGES, EVENTS)
}
_HOLD_SOURCE = Statement(
    select(
        tenants.c.number,
        _ranges_of[MESSAGES] + (runs.c.message_count > runs.c.message_start).cast(Integer),
        _ranges_of[EVENTS] + (runs.c.event_count > runs.c.event_start).cast(Integer),
    )
    .join_from(tenants, runs, runs.c.tenant == tenants.c.number)
    .where(tenants.c.name == given("name"), runs.c.id == given("source"))
    .with_for_update(read=True, key_share=True)
)
"""Nobody takes the source away, joins its ranges or erases the tenant; appends go on."""


def _fork() -> Statement:
    """Copy a header and the list of ranges, both as one snapshot shows them.

    No lock is taken here: a row that is waited for would be read anew, and the ranges would not.
    """
    standing = (
        select(runs).where(runs.c.tenant == given("tenant"), runs.c.id == given("source"))
    ).cte("standing")
    at, count = given("at", BigInteger), standing.c.message_count
    whole = (at <= fixed(0)) | (at >= count)
    source = select(
        standing.c.tenant,
        NUMBERS.next_value().label("number"),
        given("id", Text).label("id"),
        standing.c.id.label("parent"),
        func.coalesce(given("labels", Text), standing.c.labels).label("labels"),
        given("age", BigInteger).label("age"),
        given("updated", BigInteger).label("updated"),
        case((whole, count), else_=at).label("fork_point"),
        case((whole, count), else_=at).label("message_count"),
        case((whole, standing.c.event_count), else_=fixed(0)).label("event_count"),
        fixed(0).label("key_count"),
        literal_column("false", Boolean).label("imported"),
        literal_column("false", Boolean).label("full"),
    ).cte("source")
    row, others = entering(source)
    view = views(standing)
    until = case((view.c.kind == kind_of(MESSAGES), row.c.message_count), else_=row.c.event_count)
    shared = insert(run_ranges).from_select(
        ["tenant", "run", "kind", "start", "log", "length"],
        select(
            row.c.tenant, row.c.number, view.c.kind, view.c.start, view.c.log,
            func.least(view.c.length, until - view.c.start),
        )
        .select_from(standing.join(row, true()).join(view, true()))
        .where(view.c.start < until, view.c.length > fixed(0)),
    )  # fmt: skip
    return Statement(select(row.c.fork_point).add_cte(shared.cte("shared"), *others))


_FORK = _fork()
_FORGET_RANGES = Statement(
    delete(run_ranges).where(
        run_ranges.c.tenant == given("tenant"),
        run_ranges.c.run == given("run"),
        run_ranges.c.kind == given("kind"),
    )
)
_INSERT_RANGE = inserting(run_ranges)
_NEXT_NUMBER = Statement(select(NUMBERS.next_value()))
_INSERT_LOG = inserting(logs)
_COPY = Statement(
    insert(entries).from_select(
        ["tenant", "log", "position", "body"],
        select(
            entries.c.tenant,
            given("log", BigInteger),
            entries.c.position + given("shift", BigInteger),
            entries.c.body,
        ).where(
            entries.c.tenant == given("tenant"),
            entries.c.log == given("part"),
            entries.c.position < given("length"),
        ),
    )
)
_DISOWN = Statement(
    update(logs)
    .where(logs.c.tenant == given("tenant"), logs.c.number == given("log"))
    .values(run=fixed(0))
)
_OWN = {
    kind: Statement(
        update(runs)
        .where(runs.c.tenant == given("tenant"), runs.c.id == given("id"))
        .values({f"{name}_log": given("log"), f"{name}_start": runs.c[f"{name}_count"]})
    )
    for kind, name in ((MESSAGES, "message"), (EVENTS, "event"))
}


async def fork(tenant: Tenant, request: ForkRunRequest) -> ForkRunResponse:
    """Start a run as a prefix of another, in one short transaction."""
    while True:
        answer = await tenant.storage.write(
            lambda connection: _forked(connection, tenant.name, request)
        )
        if answer is not None:
            return answer
        await join_ranges(tenant, request.run_id)


async def _forked(
    connection: Connection, tenant: str, request: ForkRunRequest
) -> ForkRunResponse | None:
    """The answer; None where the ranges of the source must be joined first."""
    held = await _HOLD_SOURCE.one(connection, name=tenant, source=request.run_id)
    if held is not None:
        number, *counts = held
        if max(counts) >= MAX_RANGES:
            return None
        labels = None if request.labels is None else encode_labels(request.labels).decode()
        at = micros(request.at)
        fork_point: int | None = await _FORK.value(
            connection,
            tenant=number, source=request.run_id, id=request.new_run_id, at=request.at_message,
            age=-at, updated=at, labels=labels, **log_ids(),
        )  # fmt: skip
        if fork_point is not None:
            return ForkRunResponse(
                run_id=request.new_run_id,
                found=True,
                created=True,
                parent_id=request.run_id,
                fork_point=fork_point,
            )
    row = await FIND.one(connection, name=tenant, id=request.new_run_id)
    standing = None if row is None else StoredRun._make(row)
    return ForkRunResponse(
        run_id=request.new_run_id,
        found=held is not None,
        parent_id=standing.parent if standing else "",
        fork_point=standing.fork_point if standing else 0,
    )


async def join_ranges(tenant: Tenant, run_id: str) -> None:
    """Let a run that has as many ranges as it may have read fewer, by copying, in a transaction.

    It takes over the joined ranges itself, or each further fork of it would copy again.
    """

    async def work(connection: Connection, number: int) -> None:
        row = await HOLD.one(connection, tenant=number, id=run_id)
        if row is None:
            return
        run = StoredRun._make(row)
        used = await hold_of_run(connection, number, run)
        both = (await ranges_of(connection, number, [run]))[run.number]
        for kind, ranges in enumerate(both):
            own = run.event_log if kind == EVENTS else run.message_log
            if len(ranges) >= MAX_RANGES or not own:
                await _join(connection, number, run, kind, ranges, own)
        await free(connection, number, used, FREED_AT_ONCE)

    await tenant.write(work)


async def _join(
    connection: Connection, tenant: int, run: StoredRun, kind: int, ranges: list[Range], own: int
) -> None:
    joined: list[Range] = []
    for first, last in join([length for _, length in ranges]):
        if last - first == 1:
            joined.append(ranges[first])
        else:
            joined.append(await _copied(connection, tenant, kind, ranges[first:last]))
    is_used = any(log == own for log, _ in ranges)
    stays = bool(own) and (not is_used or joined[-1][0] == own)
    start, rows = 0, list[tuple[int, ...]]()
    for log, length in joined[:-1] if stays and is_used else joined:
        rows.append((tenant, run.number, kind, start, log, length))
        start += length
    await _FORGET_RANGES.run(connection, tenant=tenant, run=run.number, kind=kind)
    await _INSERT_RANGE.many(connection, rows)
    if not stays:
        await _DISOWN.run(connection, tenant=tenant, log=own)
        log = await _new_log(connection, tenant, kind, run=run.number)
        await _OWN[kind].run(connection, tenant=tenant, id=run.id, log=log)


async def _copied(connection: Connection, tenant: int, kind: int, parts: Sequence[Range]) -> Range:
    log, total = await _new_log(connection, tenant, kind, run=0), 0
    for part, length in parts:
        await _COPY.run(connection, tenant=tenant, log=log, shift=total, part=part, length=length)
        total += length
    return log, total


async def _new_log(connection: Connection, tenant: int, kind: int, *, run: int) -> int:
    log: int = 2 * await _NEXT_NUMBER.value(connection) + kind
    await _INSERT_LOG.run(
        connection,
        tenant=tenant, number=log, id=secrets.token_hex(16), run=run, written_here=True,
        staged=None, trimmable=False,
    )  # fmt: skip
    return log
