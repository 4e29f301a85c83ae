"""Export and import of runs in Postgres."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, func, insert, null, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_not

from stores_core.codec import canonical
from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_core.keys import KEYS_KEPT
from stores_core.limits import page_length
from stores_core.moving import (
    ExportEntriesRequest,
    ExportEntriesResponse,
    ExportRunsRequest,
    ExportRunsResponse,
    ImportEntriesRequest,
    ImportEntriesResponse,
    ImportOutcome,
    ImportRunRequest,
    ImportRunResponse,
    LogRange,
    RunRecord,
)
from stores_core.ranges import MAX_RANGES
from stores_core.values import micros
from stores_sql.catalog import page, place_of
from stores_sql.headers import NewRun, StoredRun, header
from stores_sql.parameters import fixed, given
from stores_sql.postgres.logs import (
    FREED_AT_ONCE,
    Range,
    free,
    hold,
    hold_of_run,
    log_lengths,
    ranges_of,
)
from stores_sql.postgres.run_rows import HOLD, enter, find, keep_keys, keys_of, take_away
from stores_sql.postgres.runs import ALL_RUNS
from stores_sql.postgres.statements import Connection, Statement, inserting
from stores_sql.postgres.storage import TRIES, Tenant
from stores_sql.postgres.tables import EVENTS, MESSAGES, NUMBERS, entries, logs, run_ranges

_LOG = Statement(
    select(logs.c.number, logs.c.written_here).where(
        logs.c.tenant == given("tenant"), logs.c.id == given("id")
    )
)
_HOLD_LOG = Statement(
    select(logs.c.number, logs.c.written_here)
    .where(logs.c.tenant == given("tenant"), logs.c.id == given("id"))
    .with_for_update()
)
_IDS = Statement(
    select(logs.c.number, logs.c.id).where(
        logs.c.tenant == given("tenant"),
        logs.c.number == func.any(given("logs", ARRAY(BigInteger))),
    )
)
_NUMBERS = Statement(
    select(logs.c.id, logs.c.number).where(
        logs.c.tenant == given("tenant"), logs.c.id == func.any(given("ids", ARRAY(Text)))
    )
)
_ENTRIES = Statement(
    select(entries.c.body)
    .where(
        entries.c.tenant == given("tenant"),
        entries.c.log == given("log"),
        entries.c.position >= given("first"),
        entries.c.position < given("last"),
    )
    .order_by(entries.c.position)
)
_IS_USED = Statement(
    select(run_ranges.c.run)
    .where(run_ranges.c.tenant == given("tenant"), run_ranges.c.log == given("log"))
    .limit(fixed(1))
)
_stage: dict[str, Any] = {
    "tenant": given("tenant"), "number": fixed(2) * NUMBERS.next_value(), "id": given("id"),
    "run": fixed(0), "written_here": given("written_here"), "staged": given("staged"),
    "trimmable": given("trimmable"),
}  # fmt: skip
_STAGE_NEW = Statement(insert_or_not(logs).values(_stage).on_conflict_do_nothing())
_STAGE = Statement(
    update(logs)
    .where(logs.c.tenant == given("tenant"), logs.c.number == given("log"))
    .values(staged=given("staged"))
)
_UNSTAGE = Statement(
    update(logs)
    .where(
        logs.c.tenant == given("tenant"),
        logs.c.number == func.any(given("logs", ARRAY(BigInteger))),
        logs.c.staged.is_not(None),
    )
    .values(staged=null())
)
_bodies = (
    func.unnest(given("bodies", ARRAY(Text)))
    .table_valued("body", with_ordinality="nth")
    .render_derived("bodies")
)
_ADD = Statement(
    insert(entries).from_select(
        ["tenant", "log", "position", "body"],
        select(
            given("tenant", BigInteger),
            given("log", BigInteger),
            given("begin", BigInteger) + _bodies.c.nth - fixed(1),
            _bodies.c.body,
        ),
    )
)
_INSERT_RANGE = inserting(run_ranges)


async def export_runs(tenant: Tenant, request: ExportRunsRequest) -> ExportRunsResponse:
    age, id = place_of(request.cursor)

    async def work(connection: Connection, number: int) -> ExportRunsResponse:
        if request.run_id:
            one = await find(connection, number, request.run_id)
            return ExportRunsResponse(runs=await _records(connection, number, [one] if one else []))
        most = request.limit
        rows = await ALL_RUNS.all(connection, name=tenant.name, age=age, id=id, most=most + 1)
        found, position, _ = page(rows, StoredRun._make, most, most)
        records = await _records(connection, number, found)
        return ExportRunsResponse(runs=records, next_cursor=position)

    return await tenant.read(work)


async def export_entries(tenant: Tenant, request: ExportEntriesRequest) -> ExportEntriesResponse:
    async def work(connection: Connection, number: int) -> ExportEntriesResponse:
        row = await _LOG.one(connection, tenant=number, id=request.log)
        if row is None:
            return ExportEntriesResponse()
        log = row[0]
        length = (await log_lengths(connection, number, [log]))[log]
        start = min(request.start, length)
        rows = await _ENTRIES.all(
            connection,
            tenant=number, log=log, first=start, last=start + min(request.limit, length - start),
        )  # fmt: skip
        texts = [row[0].encode() for row in rows]
        return ExportEntriesResponse(
            entries=tuple(texts[: page_length(map(len, texts))]), length=length
        )

    return await tenant.read(work)


async def import_entries(tenant: Tenant, request: ImportEntriesRequest) -> ImportEntriesResponse:
    bodies = [entry.decode() for entry in request.entries]

    async def work(connection: Connection, number: int) -> int:
        at = micros(request.at)
        await _STAGE_NEW.run(
            connection,
            tenant=number, id=request.log, written_here=False, staged=at, trimmable=False,
        )  # fmt: skip
        row = await _HOLD_LOG.one(connection, tenant=number, id=request.log)
        if row is None:
            raise StoreUnavailableError("the log was swept just now; nothing was applied")
        log, written_here = row
        length = (await log_lengths(connection, number, [log]))[log]
        # A log that a run here writes to is its own: an import never makes it longer.
        if written_here:
            return length
        if await _IS_USED.one(connection, tenant=number, log=log) is None:
            await _STAGE.run(connection, tenant=number, log=log, staged=at)
        there = length - request.start
        if there < 0:
            return length
        more = bodies[there:]
        await _ADD.run(connection, tenant=number, log=log, begin=length, bodies=more)
        return length + len(more)

    return ImportEntriesResponse(length=await tenant.write(work))


async def import_run(tenant: Tenant, request: ImportRunRequest) -> ImportRunResponse:
    record = request.run

    async def work(connection: Connection, number: int) -> ImportOutcome | None:
        row = await HOLD.one(connection, tenant=number, id=record.info.id)
        standing = None if row is None else StoredRun._make(row)
        if standing is None:
            done = await _import(connection, tenant.name, number, record, None)
            return ImportOutcome.CREATED if done else None
        [stored] = await _records(connection, number, [standing])
        if canonical(stored) == canonical(record):
            return ImportOutcome.SAME
        if not standing.imported:
            return ImportOutcome.CONFLICT
        await _import(connection, tenant.name, number, record, standing)
        return ImportOutcome.UPDATED

    for _ in range(TRIES):
        outcome = await tenant.write(work)
        if outcome is not None:
            return ImportRunResponse(outcome=outcome)
    raise StoreUnavailableError(f"others were in the way {TRIES} times; nothing was applied")


async def _records(
    connection: Connection, tenant: int, found: Sequence[StoredRun]
) -> list[RunRecord]:
    ranges = await ranges_of(connection, tenant, found)
    used = list({log for both in ranges.values() for part in both for log, _ in part})
    ids = {row[0]: row[1] for row in await _IDS.all(connection, tenant=tenant, logs=used)}
    keys = await keys_of(connection, tenant, list(ranges))
    return [
        RunRecord(
            info=header(run),
            keys=tuple(keys[run.number]),
            messages=tuple(LogRange(log=ids[log], length=n) for log, n in ranges[run.number][0]),
            events=tuple(LogRange(log=ids[log], length=n) for log, n in ranges[run.number][1]),
        )
        for run in found
    ]


async def _import(
    connection: Connection,
    name: str,
    tenant: int,
    record: RunRecord,
    standing: StoredRun | None,
) -> bool:
    """Put the run in place of ``standing``; False where one came to be at its id meanwhile."""
    info = record.info
    numbers = await _hold_all(connection, tenant, record, standing)
    messages = _brought(record, "messages", numbers)
    events = _brought(record, "events", numbers)
    used: list[int] = []
    if standing is not None:
        used = await hold_of_run(connection, tenant, standing)
        await take_away(connection, tenant, standing)
    new = NewRun(
        info.id,
        created=micros(info.created_at),
        updated=micros(info.updated_at),
        labels=info.labels,
        parent=info.parent_id,
        fork_point=info.fork_point,
        imported=True,
    )
    keys = record.keys[-KEYS_KEPT:]
    row = await enter(
        connection,
        name,
        new,
        (info.message_count, info.event_count),
        key_count=len(keys),
        full=max(len(messages), len(events)) >= MAX_RANGES,
    )
    if row is None or row[1] is None:
        return False
    run = row[1]
    await _insert_ranges(connection, tenant, run, MESSAGES, messages)
    await _insert_ranges(connection, tenant, run, EVENTS, events)
    await keep_keys(connection, tenant, run, keys)
    await _UNSTAGE.run(connection, tenant=tenant, logs=[log for log, _ in messages + events])
    await free(connection, tenant, used, FREED_AT_ONCE)  # last, so that what both read stays
    return True


async def _insert_ranges(
    connection: Connection, tenant: int, run: int, kind: int, ranges: list[Range]
) -> None:
    start, rows = 0, list[tuple[int, ...]]()
    for log, length in ranges:
        rows.append((tenant, run, kind, start, log, length))
        start += length
    await _INSERT_RANGE.many(connection, rows)


async def _hold_all(
    connection: Connection, tenant: int, record: RunRecord, standing: StoredRun | None
) -> dict[str, tuple[int, int]]:
    """The logs of a record that are here, held: number and length by id."""
    ids = list({part.log for part in (*record.messages, *record.events)})
    rows = await _NUMBERS.all(connection, tenant=tenant, ids=ids)
    numbers: dict[str, int] = {row[0]: row[1] for row in rows}
    held = set(numbers.values())
    if standing is not None:  # together, since all are held in the order of their numbers
        both = (await ranges_of(connection, tenant, [standing]))[standing.number]
        held |= {log for part in both for log, _ in part}
        held |= {standing.message_log, standing.event_log}
    await hold(connection, tenant, held)
    lengths = await log_lengths(connection, tenant, numbers.values())
    return {id: (log, lengths.get(log, 0)) for id, log in numbers.items()}


def _brought(record: RunRecord, field: str, numbers: dict[str, tuple[int, int]]) -> list[Range]:
    """The ranges of a record in logs that are here to that length."""
    ranges = record.messages if field == "messages" else record.events
    found: list[Range] = []
    for index, part in enumerate(ranges):
        log, there = numbers.get(part.log, (0, 0))
        if there < part.length:
            raise InvalidRequestError(
                field=f"run.{field}[{index}]",
                found=f"a log of which {there} entries are here",
                allowed=f"{part.length} brought by import_entries first",
            )
        found.append((log, part.length))
    return found
