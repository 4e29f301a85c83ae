"""Export and import in memory."""

import numpy as np

from stores_core.codec import canonical, encode
from stores_core.errors import InvalidRequestError
from stores_core.in_memory.logs import View
from stores_core.in_memory.runs import enter, header, remove
from stores_core.in_memory.storage import StoredResult, StoredRun, Tenant
from stores_core.in_memory.tool_results import enter as enter_result
from stores_core.limits import page_length
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
from stores_core.notes import Namespace
from stores_core.shape import replaced
from stores_core.tool_text import join, split


class InMemoryMoving:
    """Exports and imports one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        tenant = self._tenant
        with tenant.lock:
            if request.run_id:
                ids, position = [id for id in (request.run_id,) if id in tenant.runs], ""
            else:
                ids, position, _ = tenant.run_catalog.page([], request.cursor, request.limit)
            runs = [_record(tenant.runs[id]) for id in ids]
        return ExportRunsResponse(runs=runs, next_cursor=position)

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        with self._tenant.lock:
            log = self._tenant.logs.by_id.get(request.log)
            held = log.entries if log else []
            texts = held[request.start : request.start + request.limit]
            length = len(held)
        return ExportEntriesResponse(entries=texts[: page_length(map(len, texts))], length=length)

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        logs = self._tenant.logs
        with self._tenant.lock:
            log = logs.by_id.get(request.log)
            if log is None:
                log = logs.new(request.log)
            if not log.users:
                log.staged_at = request.at
            there = len(log.entries) - request.start
            # A log that a run here writes to is its own: an import never makes it longer.
            if there >= 0 and not log.written_here:
                log.entries.extend(request.entries[there:])
            return ImportEntriesResponse(length=len(log.entries))

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        tenant, record = self._tenant, request.run
        with tenant.lock:
            standing = tenant.runs.get(record.info.id)
            outcome = ImportOutcome.CREATED
            if standing is not None:
                if canonical(_record(standing)) == canonical(record):
                    return ImportRunResponse(outcome=ImportOutcome.SAME)
                if not standing.imported:
                    return ImportRunResponse(outcome=ImportOutcome.CONFLICT)
                outcome = ImportOutcome.UPDATED
            run = self._imported(record)
            remove(tenant, record.info.id)
            enter(tenant, run)
        return ImportRunResponse(outcome=outcome)

    def _imported(self, record: RunRecord) -> StoredRun:
        info = record.info
        run = StoredRun(
            id=info.id,
            created_at=info.created_at,
            updated_at=info.updated_at,
            labels=dict(info.labels),
            messages=self._view(record, "messages"),
            events=self._view(record, "events"),
            parent_id=info.parent_id,
            fork_point=info.fork_point,
            imported=True,
        )
        run.keys.update((key.key, key) for key in record.keys)
        return run

    def _view(self, record: RunRecord, field: str) -> View:
        logs = self._tenant.logs
        ranges = record.messages if field == "messages" else record.events
        for index, part in enumerate(ranges):
            log = logs.by_id.get(part.log)
            there = len(log.entries) if log else 0
            if there < part.length:
                raise InvalidRequestError(
                    field=f"run.{field}[{index}]",
                    found=f"a log of which {there} entries are here",
                    allowed=f"{part.length} brought by import_entries first",
                )
        return View(logs, [(logs.by_id[part.log], part.length) for part in ranges])

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        tenant = self._tenant
        with tenant.lock:
            active = tenant.vectors.active
            start = _start_of(request.cursor)
            found = [
                (name, note)
                for name in sorted(tenant.namespaces)
                if start is None or name >= start[0]
                for note in tenant.namespaces[name].after(
                    start[1:] if start and name == start[0] else None
                )
            ]
            page = found[: request.limit]
            page = page[: page_length(note.size for _, note in page)]
            records: list[MemoryRecord] = []
            for name, note in page:
                vector = tenant.vectors.table(active, name).get(note.item.key) if active else None
                data = None if vector is None else vector.astype("<f4").tobytes()
                records.append(MemoryRecord(namespace=name, item=note.stored(), vector=data))
            floor = tenant.version_floor
        position = ""
        if len(page) < len(found):
            name, last = page[-1]
            position = f"{last.place[0]}:{last.place[1]}:{name}"
        return ExportMemoriesResponse(
            memories=records, embedder=active, version_floor=floor, next_cursor=position
        )

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        tenant, embedder = self._tenant, request.embedder
        imported = 0
        with tenant.lock:
            tenant.version_floor = max(tenant.version_floor, request.version_floor)
            vectors = tenant.vectors
            if vectors.active is None and any(record.vector for record in request.memories):
                vectors.active = embedder
            for record in request.memories:
                notes = tenant.namespaces.setdefault(record.namespace, Namespace())
                old = notes.notes.get(record.item.key)
                if old is not None and old.item.version >= record.item.version:
                    continue
                imported += 1
                notes.put(replaced(record.item, {"metadata": {}}), record.item.metadata)
                vectors.discard(record.namespace, record.item.key)
                if (
                    record.vector is not None
                    and embedder is not None
                    and vectors.active == embedder
                ):
                    vector = np.frombuffer(record.vector, dtype="<f4").astype(np.float32)
                    vectors.table(embedder, record.namespace).put(record.item.key, vector)
        return ImportMemoriesResponse(imported=imported, kept=len(request.memories) - imported)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        tenant = self._tenant
        with tenant.lock:
            ids, position, _ = tenant.result_catalog.page([], request.cursor, request.limit)
            held = [(ref, tenant.results[ref]) for ref in ids]
            fitting = page_length(stored.bytes for _, stored in held)
            if fitting < len(held):
                position = tenant.result_catalog.position(held[fitting - 1][0])
        records = [
            ToolResultRecord(
                ref=ref,
                created_at=stored.created_at,
                labels=dict(stored.labels),
                result=join(stored.text, stored.rest, ref=ref),
            )
            for ref, stored in held[:fitting]
        ]
        return ExportToolResultsResponse(results=records, next_cursor=position)

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        for record in request.results:
            text, rest = split(record.result)
            stored = StoredResult(
                created_at=record.created_at,
                labels=dict(record.labels),
                text=text,
                rest=rest,
                bytes=len(encode(record.result)),
            )
            with self._tenant.lock:
                enter_result(self._tenant, record.ref, stored)
        return ImportToolResultsResponse(imported=len(request.results))


def _record(run: StoredRun) -> RunRecord:
    return RunRecord(
        info=header(run),
        keys=tuple(run.keys.values()),
        messages=_ranges(run.messages),
        events=_ranges(run.events),
    )


def _ranges(view: View) -> tuple[LogRange, ...]:
    return tuple(LogRange(log=log.id, length=length) for log, length in view.ranges)


def _start_of(position: str) -> tuple[str, int, int] | None:
    if not position:
        return None
    created, arrival, name = position.split(":", 2)
    return name, int(created), int(arrival)
