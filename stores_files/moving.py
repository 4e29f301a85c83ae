"""Export and import in files; notes are in stores_files.note_moving."""

import contextlib
import secrets

from stores_core.codec import canonical
from stores_core.errors import InvalidRequestError
from stores_core.keys import KEYS_KEPT
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
    RunRecord,
    ToolResultRecord,
)
from stores_core.values import from_micros, micros
from stores_files.commits import EVENTS, MESSAGES, PREFIX, Batch
from stores_files.failures import perhaps_applied
from stores_files.finding_logs import Homes, among_logs
from stores_files.headers import Header, Range, as_json
from stores_files.journal import Journal
from stores_files.layout import HEADER, LOGS
from stores_files.links import link_or_copy
from stores_files.listing import Entry, line_of
from stores_files.logs import free, journals_of, new_id
from stores_files.making import claim
from stores_files.note_moving import export_memories, import_memories
from stores_files.places import NEW, Place, replace
from stores_files.result_folders import NewResult, StoredResult, entered, put, read_result
from stores_files.run_folders import RunFolder, shared_name
from stores_files.storage import Tenant


class FileMoving:
    """Exports and imports the runs of one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._homes = Homes()

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        def work(place: Place) -> ExportRunsResponse:
            self._homes.forget()
            if request.run_id:
                with self._tenant.folders.entered(place, request.run_id) as run:
                    return ExportRunsResponse(runs=[_record(run)] if run else [])
            records: list[RunRecord] = []
            position = request.cursor

            def keep(entry: Entry) -> bool:
                with self._tenant.folders.entered(place, entry[0]) as run:
                    if run is None or run.header.generation != entry[1]:
                        return False
                    records.append(_record(run))
                    return True

            while True:
                _, position, _ = self._tenant.listing.page(
                    place.folder, [], position, request.limit - len(records), keep=keep
                )
                if not position or len(records) == request.limit:
                    return ExportRunsResponse(runs=records, next_cursor=position)

        return await self._tenant.read(work, ExportRunsResponse())

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        def work(place: Place) -> ExportEntriesResponse:
            with self._homes.opened(place, request.log) as found:
                if found is None:
                    return ExportEntriesResponse()
                journal, kind = found
                length = journal.length(kind)
                start = min(request.start, length)
                texts = journal.read(kind, start, min(length, start + request.limit))
                fitting = texts[: page_length(map(len, texts))]
                return ExportEntriesResponse(entries=fitting, length=length)

        return await self._tenant.read(work, ExportEntriesResponse())

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        for index, text in enumerate(request.entries):
            if text.startswith(PREFIX) or b"\n" in text:
                raise InvalidRequestError(
                    field=f"entries[{index}]", found="no entry", allowed="what export_entries gave"
                )

        def work(place: Place) -> int:
            # One import at a time: each looks at how much of the log is there and adds to it.
            with (
                place.locked(LOGS, self._tenant.storage.lock_timeout),
                among_logs(place, request.log) as found,
            ):
                if found is None:
                    journal, kind, written_here = self._new_log(place, request.log), MESSAGES, False
                else:
                    journal, kind = found
                    written_here = journal.id != request.log
                try:
                    length = journal.length(kind)
                    there = length - request.start
                    more = request.entries[max(there, 0) :]
                    # A log that a run here writes to is its own: no import makes it longer.
                    if there < 0 or written_here or not more:
                        return length
                    with perhaps_applied():
                        journal.append([Batch(more, (), micros(request.at))])
                        place.disk.sync_folder(place[LOGS])
                    return length + len(more)
                finally:
                    if found is None:
                        journal.close()

        return ImportEntriesResponse(length=await self._tenant.write(work))

    def _new_log(self, place: Place, log: str) -> Journal:
        with contextlib.suppress(FileNotFoundError):
            place.disk.unlink(place[LOGS], shared_name(log))
        return Journal.make(place.disk, place[LOGS], shared_name(log), log)

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        record = request.run

        def work(place: Place) -> ImportOutcome:
            header = _header(place, record)
            while True:
                with self._tenant.folders.entered(place, record.info.id, alone=True) as standing:
                    if standing is not None:
                        if canonical(_record(standing)) == canonical(record):
                            return ImportOutcome.SAME
                        if not standing.header.imported:
                            return ImportOutcome.CONFLICT
                        self._bring_up_to_date(place, standing, header)
                        return ImportOutcome.UPDATED
                if claim(place, self._tenant, header):
                    return ImportOutcome.CREATED

        return ImportRunResponse(outcome=await self._tenant.write(work))

    def _bring_up_to_date(self, place: Place, run: RunFolder, header: Header) -> None:
        disk, old = place.disk, run.header
        wanted = journals_of(header) - {header.journal}
        for name in map(shared_name, wanted):
            if disk.identity_of(run.folder, name) != disk.identity_of(place[LOGS], name):
                # Not there yet, or a copy, which may lack what was imported since.
                new = NEW + secrets.token_hex(8)
                link_or_copy(disk, place[LOGS], name, run.folder, new)
                disk.rename(run.folder, new, run.folder, name)
        disk.sync_folder(run.folder)  # before the file that speaks of them
        line = line_of(
            header.id, header.generation, header.created, header.labels, parent=header.parent
        )
        self._tenant.listing.add(place.folder, line)
        replace(disk, run.folder, HEADER, as_json(header))
        self._tenant.listing.strike(place.folder, old.id, old.generation)
        for journal in journals_of(old) - wanted - {old.journal}:
            with contextlib.suppress(FileNotFoundError):
                disk.unlink(run.folder, shared_name(journal))
            free(place, journal)

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        return await self._tenant.read(
            lambda place: export_memories(place, self._tenant, request), ExportMemoriesResponse()
        )

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        imported = await self._tenant.write(
            lambda place: import_memories(place, self._tenant, request)
        )
        return ImportMemoriesResponse(imported=imported, kept=len(request.memories) - imported)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        tenant = self._tenant

        def work(place: Place) -> ExportToolResultsResponse:
            records: list[ToolResultRecord] = []
            sizes: list[int] = []
            entries: list[Entry] = []
            position = request.cursor

            def keep(entry: Entry) -> bool:
                with entered(place, tenant, entry[0]) as found:
                    if found is None or found[0].generation != entry[1]:
                        return False
                    sizes.append(found[0].size)
                    entries.append(entry)
                    if page_length(sizes) == len(sizes):
                        records.append(_result(place, *found))
                    return True

            while True:
                _, position, _ = tenant.result_listing.page(
                    place.folder, [], position, request.limit - len(sizes), keep=keep
                )
                if len(records) < len(sizes):
                    position = tenant.result_listing.position(entries[len(records) - 1])
                if not position or len(records) < len(sizes) or len(sizes) == request.limit:
                    return ExportToolResultsResponse(results=records, next_cursor=position)

        return await tenant.read(work, ExportToolResultsResponse())

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        def work(place: Place) -> None:
            for record in request.results:
                new = NewResult.of(record.ref, record.created_at, record.labels, record.result)
                put(place, self._tenant, new)

        await self._tenant.write(work)
        return ImportToolResultsResponse(imported=len(request.results))


def _result(place: Place, stored: StoredResult, folder: int) -> ToolResultRecord:
    return ToolResultRecord(
        ref=stored.ref,
        created_at=from_micros(stored.created),
        labels=dict(stored.labels),
        result=read_result(place, stored, folder),
    )


def _record(run: RunFolder) -> RunRecord:
    ranges = [
        tuple(LogRange(log=part.log, length=part.length) for part in run.ranges(kind))
        for kind in (MESSAGES, EVENTS)
    ]
    keys = tuple(run.keys().values())
    return RunRecord(info=run.info(), keys=keys, messages=ranges[MESSAGES], events=ranges[EVENTS])


def _header(place: Place, record: RunRecord) -> Header:
    """The header of a run that is imported; its logs must be here to that length."""
    info = record.info
    return Header(
        id=info.id,
        generation=new_id(),
        journal=new_id(),
        created=micros(info.created_at),
        updated=micros(info.updated_at),
        labels=info.labels,
        parent=info.parent_id,
        fork_point=info.fork_point,
        imported=True,
        keys=record.keys[-KEYS_KEPT:],
        ranges=(_brought(place, record, "messages"), _brought(place, record, "events")),
    )


def _brought(place: Place, record: RunRecord, field: str) -> list[Range]:
    ranges = record.messages if field == "messages" else record.events
    found: list[Range] = []
    for index, part in enumerate(ranges):
        with among_logs(place, part.log) as opened:
            there = opened[0].length(opened[1]) if opened else 0
            if opened is None or there < part.length:
                raise InvalidRequestError(
                    field=f"run.{field}[{index}]",
                    found=f"a log of which {there} entries are here",
                    allowed=f"{part.length} brought by import_entries first",
                )
            journal, kind = opened
            commit = journal.commit_of(kind, part.length - 1).offset
            found.append(Range(part.log, journal.id, kind, commit, part.length))
    return found
