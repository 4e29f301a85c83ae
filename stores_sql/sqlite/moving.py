"""Export and import in SQLite."""

import numpy as np
from sqlalchemy import select, update

from stores_core.codec import canonical
from stores_core.embedding import Vector
from stores_core.errors import InvalidRequestError
from stores_core.keys import KEYS_KEPT
from stores_core.limits import PAGE_BYTES, page_length
from stores_core.moving import (
    ExportEntriesRequest,
    ExportEntriesResponse,
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ExportRunsRequest,
    ExportRunsResponse,
    ExportToolResultsRequest,
    ExportToolResultsResponse,
    ImportEntriesRequest,
    ImportEntriesResponse,
    ImportMemoriesRequest,
    ImportMemoriesResponse,
    ImportOutcome,
    ImportRunRequest,
    ImportRunResponse,
    ImportToolResultsRequest,
    ImportToolResultsResponse,
    LogRange,
    MemoryRecord,
    RunRecord,
    ToolResultRecord,
)
from stores_core.values import from_micros, micros
from stores_sql.catalog import page, place_of, position_of
from stores_sql.headers import NewRun, StoredRun, header
from stores_sql.parameters import fixed, given
from stores_sql.results import NewResult, StoredResult
from stores_sql.sqlite import tool_results
from stores_sql.sqlite.embedding import (
    active,
    enter_embedder,
    find_embedder,
    put_vector,
    set_active,
    vector_bytes,
)
from stores_sql.sqlite.logs import Range, View, add_entries, free, length_of, new_log
from stores_sql.sqlite.memory import NAMESPACES_FROM
from stores_sql.sqlite.notes import (
    BEFORE_ALL,
    Place,
    enter_namespace,
    find,
    find_namespace,
    listed,
    put,
    version_floor,
)
from stores_sql.sqlite.run_rows import (
    enter,
    events_of,
    grow,
    keep_keys,
    keys_of,
    messages_of,
    take_away,
)
from stores_sql.sqlite.run_rows import find as find_run
from stores_sql.sqlite.runs import ALL_RUNS
from stores_sql.sqlite.statements import Connection, Statement
from stores_sql.sqlite.storage import Tenant, raise_version_floor
from stores_sql.sqlite.tables import ENTRY_SPAN, EVENTS, MESSAGES, entries, logs, run_ranges

_LOG = Statement(
    select(logs.c.number, logs.c.written_here).where(
        logs.c.tenant == given("tenant"), logs.c.id == given("id")
    )
)
_LOG_ID = Statement(select(logs.c.id).where(logs.c.number == given("log")))
_ENTRIES = Statement(
    select(entries.c.body)
    .where(entries.c.place >= given("first"), entries.c.place < given("last"))
    .order_by(entries.c.place)
)
_IS_USED = Statement(
    select(run_ranges.c.run).where(run_ranges.c.log == given("log")).limit(fixed(1))
)
_STAGE = Statement(update(logs).values(staged=given("staged")).where(logs.c.number == given("log")))


class SqliteMoving:
    """Exports and imports one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        age, id = place_of(request.cursor)

        def work(connection: Connection, tenant: int) -> ExportRunsResponse:
            most = request.limit
            if request.run_id:
                one = find_run(connection, tenant, request.run_id)
                found, position = [one] if one else [], ""
            else:
                rows = ALL_RUNS.run(connection, tenant=tenant, age=age, id=id, most=most + 1)
                found, position, _ = page(rows, StoredRun._make, most, most)
            records = tuple(_record(connection, tenant, run) for run in found)
            return ExportRunsResponse(runs=records, next_cursor=position)

        return await self._tenant.read(work)

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        def work(connection: Connection, tenant: int) -> ExportEntriesResponse:
            row = _LOG.one(connection, tenant=tenant, id=request.log)
            if row is None:
                return ExportEntriesResponse()
            length = length_of(connection, row[0])
            start = min(request.start, length)
            first = row[0] * ENTRY_SPAN + start
            last = first + min(request.limit, length - start)
            texts = [body for (body,) in _ENTRIES.all(connection, first=first, last=last)]
            return ExportEntriesResponse(
                entries=tuple(texts[: page_length(map(len, texts))]), length=length
            )

        return await self._tenant.read(work)

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        def work(connection: Connection, tenant: int) -> int:
            row = _LOG.one(connection, tenant=tenant, id=request.log)
            if row is None:
                log, written_here = new_log(connection, tenant, request.log), 0
            else:
                log, written_here = row
            if _IS_USED.one(connection, log=log) is None:
                _STAGE.run(connection, log=log, staged=micros(request.at))
            length = length_of(connection, log)
            there = length - request.start
            # A log that a run here writes to is its own: an import never makes it longer.
            if there < 0 or written_here:
                return length
            more = request.entries[there:]
            add_entries(connection, log, length, more)
            return length + len(more)

        return ImportEntriesResponse(length=await self._tenant.write(work))

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        record = request.run

        def work(connection: Connection, tenant: int) -> ImportOutcome:
            standing = find_run(connection, tenant, record.info.id)
            if standing is None:
                _import(connection, tenant, record, None)
                return ImportOutcome.CREATED
            if canonical(_record(connection, tenant, standing)) == canonical(record):
                return ImportOutcome.SAME
            if not standing.imported:
                return ImportOutcome.CONFLICT
            _import(connection, tenant, record, standing)
            return ImportOutcome.UPDATED

        return ImportRunResponse(outcome=await self._tenant.write(work))

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        return await self._tenant.read(
            lambda connection, tenant: _export_memories(connection, tenant, request)
        )

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        imported = await self._tenant.write(
            lambda connection, tenant: _import_memories(connection, tenant, request)
        )
        return ImportMemoriesResponse(imported=imported, kept=len(request.memories) - imported)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        age, id = place_of(request.cursor)

        def work(connection: Connection, tenant: int) -> ExportToolResultsResponse:
            most = request.limit
            rows = tool_results.ALL_RESULTS.run(
                connection, tenant=tenant, age=age, id=id, most=most + 1
            )
            found, position, _ = page(rows, StoredResult._make, most, most)
            fitting = page_length(stored.size for stored in found)
            if fitting < len(found):
                position = position_of(found[fitting - 1].place)
            records = tuple(
                ToolResultRecord(
                    ref=stored.ref,
                    created_at=from_micros(-stored.age),
                    labels=stored.named(),
                    result=tool_results.result_of(connection, stored),
                )
                for stored in found[:fitting]
            )
            return ExportToolResultsResponse(results=records, next_cursor=position)

        return await self._tenant.read(work)

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        news = [
            NewResult.of(record.ref, record.created_at, record.labels, record.result)
            for record in request.results
        ]

        def work(connection: Connection, tenant: int) -> None:
            for new in news:
                tool_results.enter(connection, tenant, new)

        await self._tenant.write(work)
        return ImportToolResultsResponse(imported=len(news))


def _record(connection: Connection, tenant: int, run: StoredRun) -> RunRecord:
    return RunRecord(
        info=header(run),
        keys=tuple(keys_of(connection, run.number)),
        messages=_ranges(connection, messages_of(run, tenant)),
        events=_ranges(connection, events_of(run, tenant)),
    )


def _ranges(connection: Connection, view: View) -> tuple[LogRange, ...]:
    return tuple(
        LogRange(log=_LOG_ID.value(connection, log=log), length=length)
        for log, length in view.ranges(connection)
    )


def _import(
    connection: Connection, tenant: int, record: RunRecord, standing: StoredRun | None
) -> None:
    info = record.info
    messages = _brought(connection, tenant, record, "messages")
    events = _brought(connection, tenant, record, "events")
    left = [] if standing is None else take_away(connection, tenant, standing)
    new = NewRun(
        info.id,
        created=micros(info.created_at),
        updated=micros(info.updated_at),
        labels=info.labels,
        parent=info.parent_id,
        fork_point=info.fork_point,
        imported=True,
    )
    number = enter(connection, tenant, new, (info.message_count, info.event_count))
    views = View(tenant, number, MESSAGES), View(tenant, number, EVENTS)
    views[0].take(connection, messages)
    views[1].take(connection, events)
    keys = keep_keys(connection, number, 0, record.keys[-KEYS_KEPT:])
    grow(connection, number, *views, updated=new.updated, key_count=keys, imported=True)
    free(connection, left)  # last, so that what both read stays


def _brought(connection: Connection, tenant: int, record: RunRecord, field: str) -> list[Range]:
    """The ranges of a record in logs that are here to that length."""
    ranges = record.messages if field == "messages" else record.events
    found: list[Range] = []
    for index, part in enumerate(ranges):
        row = _LOG.one(connection, tenant=tenant, id=part.log)
        there = length_of(connection, row[0]) if row else 0
        if row is None or there < part.length:
            raise InvalidRequestError(
                field=f"run.{field}[{index}]",
                found=f"a log of which {there} entries are here",
                allowed=f"{part.length} brought by import_entries first",
            )
        found.append((row[0], part.length))
    return found


def _export_memories(
    connection: Connection, tenant: int, request: ExportMemoriesRequest
) -> ExportMemoriesResponse:
    info = active(connection, tenant)
    embedder = find_embedder(connection, tenant, info) if info else 0
    start, place = _start_of(request.cursor)
    records: list[MemoryRecord] = []
    position, last, size = "", "", 0
    for name in _names(connection, tenant, start):
        namespace = find_namespace(connection, tenant, name)
        if namespace is None:
            continue
        for note in listed(connection, namespace, place if name == start else BEFORE_ALL):
            if len(records) == request.limit or (records and size + note.size > PAGE_BYTES):
                position = last
                break
            vector = vector_bytes(connection, embedder, note.number) if info else None
            records.append(MemoryRecord(namespace=name, item=note.stored(), vector=vector))
            last = f"{note.created}:{note.number}:{name}"
            size += note.size
        if position:
            break
    return ExportMemoriesResponse(
        memories=tuple(records),
        embedder=info,
        version_floor=version_floor(connection, tenant),
        next_cursor=position,
    )


def _names(connection: Connection, tenant: int, start: str) -> list[str]:
    return [name for (name,) in NAMESPACES_FROM.all(connection, tenant=tenant, prefix=start)]


def _start_of(position: str) -> tuple[str, Place]:
    if not position:
        return "", BEFORE_ALL
    created, number, name = position.split(":", 2)
    return name, (int(created), int(number))


def _import_memories(connection: Connection, tenant: int, request: ImportMemoriesRequest) -> int:
    raise_version_floor(connection, tenant, request.version_floor)
    brought = request.embedder
    has_vectors = any(record.vector for record in request.memories)
    if brought is not None and has_vectors and active(connection, tenant) is None:
        set_active(connection, tenant, enter_embedder(connection, tenant, brought))
    takes_vectors = brought is not None and active(connection, tenant) == brought
    embedder = find_embedder(connection, tenant, brought) if brought else 0
    imported = 0
    for record in request.memories:
        item = record.item
        namespace = enter_namespace(connection, tenant, record.namespace)
        old = find(connection, namespace, item.key)
        if old is None or old.version < item.version:
            imported += 1
            created, updated = micros(item.created_at), micros(item.updated_at)
            note = put(connection, namespace, old, item, created, updated)
            if record.vector is not None and takes_vectors:
                vector: Vector = np.frombuffer(record.vector, dtype="<f4").astype(np.float32)
                put_vector(connection, namespace, embedder, note, vector)
        namespace.save(connection)
    return imported
