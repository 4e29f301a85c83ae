"""Exports and imports that lose, copy, or show too early."""

import asyncio
from datetime import timedelta
from typing import ClassVar

from conformance_tests.broken.defect import BrokenAdmin, BrokenMoving, changed, defect
from stores_core.admin import SweepRequest, SweepResponse
from stores_core.memory import DeleteMemoryRequest
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
)
from stores_core.runs import CreateRunRequest, DeleteRunRequest, GetRunRequest

_ALL = "test_moving.py::test_an_export_holds_every_note_and_every_result"
_EQUAL = "test_moving.py::test_export_import_and_export_again_give_equal_exports"
_NOTES = "test_moving_notes.py::test_notes_keep_place_times_and_versions"
_RESULTS = "test_moving_notes.py::test_tool_results_keep_time_and_labels"
_WHOLE = "test_importing.py::test_a_run_whose_entries_are_not_all_there_is_refused"
_PIECES = "test_importing.py::test_pieces_of_a_log_may_overlap_and_a_gap_adds_nothing"
_LATER = "test_importing.py::test_a_later_import_brings_a_run_up_to_date"
_UNFINISHED = (
    "test_importing.py::test_what_an_import_never_finished_is_freed_a_day_later_and_no_sooner"
)
_ANOTHER = "test_importing.py::test_a_run_that_is_another_here_is_left_alone"


@defect("MOVE-2", caught_by=_UNFINISHED)
class UnfinishedImportsStay(BrokenAdmin):
    """A sweep frees a log that no run refers to a month after it came, in place of a day."""

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        return await self.good.sweep(changed(request, at=request.at - timedelta(days=29)))


@defect("MOVE-2", caught_by=_UNFINISHED)
class UnfinishedImportsGoAtOnce(BrokenAdmin):
    """A sweep frees a log that no run refers to although its import goes on."""

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        return await self.good.sweep(changed(request, at=request.at + timedelta(days=1)))


@defect(
    "MOVE-1",
    caught_by="test_moving_notes.py::test_an_import_leaves_no_vector_of_another_embedder_or_version",
)
class NotesOfAnotherEmbedderArePassedOver(BrokenMoving):
    """An import leaves out the notes whose vectors it cannot use."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        ours = (await self.good.export_memories(ExportMemoriesRequest(limit=1))).embedder
        if ours is not None and request.embedder not in (None, ours):
            return ImportMemoriesResponse(kept=len(request.memories))
        return await self.good.import_memories(request)


@defect("MOVE-1", "RUN-A7", caught_by="test_moving.py::test_keys_stay_known_after_a_move")
class KeysStayBehind(BrokenMoving):
    """An import leaves out the idempotency keys of a run."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        return await self.good.import_run(changed(request, run=changed(request.run, keys=())))


@defect(
    "MOVE-1",
    "RUN-A7",
    caught_by="test_moving.py::test_the_latest_128_keys_stay_the_latest_after_a_move",
)
class KeysComeBackwards(BrokenMoving):
    """An import takes the keys of a run newest first, so that the newest are forgotten first."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        run = changed(request.run, keys=request.run.keys[::-1])
        return await self.good.import_run(changed(request, run=run))


@defect(
    "MOVE-1",
    "RUN-Q5",
    caught_by="test_moving.py::test_imported_runs_are_listed_as_they_were",
)
class LineageStaysBehind(BrokenMoving):
    """An import leaves out which run a fork was made of."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        info = changed(request.run.info, parent_id="", fork_point=0)
        return await self.good.import_run(changed(request, run=changed(request.run, info=info)))


@defect("MOVE-1", caught_by="test_moving.py::test_times_stay_what_they_were")
class RunsAreStampedAnew(BrokenMoving):
    """An imported run is updated at the moment of its import."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        info = changed(request.run.info, updated_at=request.at)
        return await self.good.import_run(changed(request, run=changed(request.run, info=info)))


@defect("MOVE-1", caught_by="test_moving.py::test_imported_runs_read_as_they_did")
class EventsStayBehind(BrokenMoving):
    """An import brings the messages of a run and not its events."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        run = changed(request.run, events=(), info=changed(request.run.info, event_count=0))
        return await self.good.import_run(changed(request, run=run))


@defect("MOVE-2", caught_by=_WHOLE)
class RunsComeInPart(BrokenMoving):
    """An import takes of a run what is there of its logs."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        run, info = request.run, request.run.info
        for field, counted in (("messages", "message_count"), ("events", "event_count")):
            parts: list[LogRange] = []
            for part in getattr(run, field):
                log = await self.good.export_entries(ExportEntriesRequest(log=part.log, limit=1))
                length = min(part.length, log.length)
                parts += [changed(part, length=length)] if length else []
            info = changed(info, **{counted: sum(part.length for part in parts)})
            run = changed(run, **{field: tuple(parts), "info": info})
        return await self.good.import_run(changed(request, run=run))


@defect(
    "MOVE-2",
    caught_by="test_importing.py::test_a_reader_sees_a_run_whole_or_not_at_all_while_it_is_imported",
)
class ImportClaimsFirst(BrokenMoving):
    """An import claims the id with an empty run and fills it in a second step."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        run_id, runs = request.run.info.id, self.stores.runs
        claim = changed(CreateRunRequest(run_id=run_id), at=request.at)
        if (await runs.create_run(claim)).created:
            await asyncio.sleep(0)
            await runs.delete_run(changed(DeleteRunRequest(run_id=run_id), at=request.at))
        return await self.good.import_run(request)


@defect("ALL-10", caught_by="test_isolation.py::test_a_stranger_exports_and_imports_only_its_own")
class LogsAreCachedForAll(BrokenMoving):
    """Logs that were exported are cached by their id, for all tenants of the process."""

    cache: ClassVar[dict[tuple[str, int], ExportEntriesResponse]] = {}

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        answer = await self.good.export_runs(request)
        for run in answer.runs:
            for part in run.messages:
                log = ExportEntriesRequest(log=part.log, limit=100)
                self.cache[part.log, 0] = await self.good.export_entries(log)
        return answer

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        answer = await self.good.export_entries(request)
        return answer if answer.length else self.cache.get((request.log, request.start), answer)


@defect("MOVE-2", caught_by=_PIECES)
class PiecesAreAdded(BrokenMoving):
    """Pieces of a log are added to what is there, wherever they start."""

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        log = await self.good.export_entries(ExportEntriesRequest(log=request.log, limit=1))
        return await self.good.import_entries(changed(request, start=log.length))


@defect("MOVE-2", caught_by=_PIECES)
class OverlapsAreRefused(BrokenMoving):
    """A piece of a log is taken only where it starts at the end of what is there."""

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        log = await self.good.export_entries(ExportEntriesRequest(log=request.log, limit=1))
        if request.start < log.length:
            return ImportEntriesResponse(length=log.length)
        return await self.good.import_entries(request)


@defect("MOVE-3", caught_by="test_moving.py::test_a_shared_prefix_is_exported_and_imported_once")
class SharedPrefixesAreCopied(BrokenMoving):
    """An import copies the logs of a run to logs of its own."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        run = request.run
        for field in ("messages", "events"):
            parts: list[LogRange] = []
            for part in getattr(run, field):
                log = ExportEntriesRequest(log=part.log, limit=part.length)
                entries = (await self.good.export_entries(log)).entries
                name = f"{part.log} of {run.info.id}"[-200:]
                copy = ImportEntriesRequest(log=name, start=0, entries=entries)
                await self.good.import_entries(changed(copy, at=request.at))
                parts.append(changed(part, log=name))
            run = changed(run, **{field: tuple(parts)})
        return await self.good.import_run(changed(request, run=run))


@defect("MOVE-2", caught_by=_ANOTHER)
class OtherRunsAreReplaced(BrokenMoving):
    """An import replaces whatever run stands at the id."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        answer = await self.good.import_run(request)
        if answer.outcome is ImportOutcome.CONFLICT:
            delete = DeleteRunRequest(run_id=request.run.info.id)
            await self.stores.runs.delete_run(changed(delete, at=request.at))
            return await self.good.import_run(request)
        return answer


@defect("MOVE-2", caught_by=_LATER)
class LaterImportsAreConflicts(BrokenMoving):
    """A run that was imported before is left as it was, and called another."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        get = GetRunRequest(run_id=request.run.info.id)
        standing = (await self.stores.runs.get_run(get)).info
        if standing and standing.updated_at != request.run.info.updated_at:
            return ImportRunResponse(outcome=ImportOutcome.CONFLICT)
        return await self.good.import_run(request)


@defect("MOVE-2", caught_by=_LATER)
class EveryImportIsNew(BrokenMoving):
    """An import says that it created a run which it brought up to date."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        answer = await self.good.import_run(request)
        updated = answer.outcome is ImportOutcome.UPDATED
        return changed(answer, outcome=ImportOutcome.CREATED) if updated else answer


@defect("MOVE-1", caught_by=_NOTES)
class VersionsOfNotesRestart(BrokenMoving):
    """An imported note has version 1."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        notes = tuple(
            changed(record, item=changed(record.item, version=1)) for record in request.memories
        )
        return await self.good.import_memories(changed(request, memories=notes))


@defect("MOVE-1", "MEM-6", caught_by=_NOTES)
class VersionFloorStaysBehind(BrokenMoving):
    """An import forgets the versions that deleted notes had."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        return await self.good.import_memories(changed(request, version_floor=0))


@defect("MOVE-1", caught_by=_NOTES)
class NotesAreStampedAnew(BrokenMoving):
    """An imported note is updated at the moment of its import."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        notes = tuple(
            changed(record, item=changed(record.item, updated_at=request.at))
            for record in request.memories
        )
        return await self.good.import_memories(changed(request, memories=notes))


@defect("MOVE-1", caught_by="test_moving_notes.py::test_vectors_travel_with_their_notes")
class VectorsStayBehind(BrokenMoving):
    """An import leaves out the vectors of notes."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        notes = tuple(changed(record, vector=None) for record in request.memories)
        return await self.good.import_memories(changed(request, memories=notes))


@defect("MOVE-2", caught_by="test_moving_notes.py::test_an_import_of_notes_leaves_newer_ones_alone")
class NewerNotesAreReplaced(BrokenMoving):
    """An import replaces notes whatever version stands there."""

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        for record in request.memories:
            delete = DeleteMemoryRequest(key=record.item.key, namespace=record.namespace)
            await self.stores.memory.delete_memory(changed(delete, at=request.at))
        return await self.good.import_memories(request)


@defect("MOVE-1", caught_by=_ALL)
class EmptyNamespaceStaysBehind(BrokenMoving):
    """An export leaves out the namespace ""."""

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        answer = await self.good.export_memories(request)
        named = tuple(record for record in answer.memories if record.namespace)
        return changed(answer, memories=named)


@defect("MOVE-1", caught_by=_RESULTS)
class ResultsAreStampedAnew(BrokenMoving):
    """An imported result has the time of its import."""

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        results = tuple(changed(record, created_at=request.at) for record in request.results)
        return await self.good.import_tool_results(changed(request, results=results))


@defect("MOVE-1", caught_by=_RESULTS)
class LabelsOfResultsStayBehind(BrokenMoving):
    """An import leaves out the labels of results."""

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        results = tuple(changed(record, labels={}) for record in request.results)
        return await self.good.import_tool_results(changed(request, results=results))


@defect("MOVE-1", caught_by=_EQUAL)
class ExportIsOnePage(BrokenMoving):
    """An export of runs ends with its first page."""

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        return changed(await self.good.export_runs(request), next_cursor="")


@defect("MOVE-1", caught_by="test_moving.py::test_a_run_that_is_asked_for_by_id_is_exported_alone")
class ExportOverlooksTheId(BrokenMoving):
    """An export of one run by its id gives a page of all."""

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        return await self.good.export_runs(changed(request, run_id=""))


@defect("MOVE-1", caught_by=_ALL)
class LastResultStaysBehind(BrokenMoving):
    """An export ends one page early when a single result is left."""

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        answer = await self.good.export_tool_results(request)
        if answer.next_cursor:
            following = changed(request, cursor=answer.next_cursor, limit=2)
            if len((await self.good.export_tool_results(following)).results) == 1:
                return changed(answer, next_cursor="")
        return answer
