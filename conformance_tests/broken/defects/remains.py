"""What is left of what was deleted, and an operator's seam that measures and warns too little."""

from conformance_tests.broken.defect import (
    BrokenAdmin,
    BrokenMoving,
    BrokenRuns,
    changed,
    defect,
)
from stores_core.admin import (
    CheckRequest,
    CheckResponse,
    EraseTenantRequest,
    EraseTenantResponse,
    MeasureRequest,
    MeasureResponse,
    Problem,
    SweepRequest,
    SweepResponse,
    VerifyRequest,
    VerifyResponse,
)
from stores_core.moving import (
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ImportRunRequest,
    ImportRunResponse,
)
from stores_core.runs import ListRunsRequest, ListRunsResponse

_CHUNK = Problem(store="tool_results", id="", what="1 chunk of no result")


@defect(
    "ALL-10", caught_by="test_remains.py::test_an_erased_tenant_leaves_nothing_that_verify_finds"
)
class ErasingForgetsChunks(BrokenAdmin):
    """Erasing a tenant leaves pieces of its tool results, which verify finds."""

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        self.kept["forgotten"] = True
        return await self.good.erase_tenant(request)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        found = await self.good.verify(request)
        more = (_CHUNK,) if self.kept.get("forgotten") else ()
        return changed(found, problems=(*found.problems, *more))


@defect("RUN-D2", caught_by="test_remains.py::test_deleted_runs_leave_nothing_that_verify_finds")
class SweepingDamages(BrokenAdmin):
    """Sweep takes something that is still needed, which verify finds."""

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        self.kept["swept"] = True
        return await self.good.sweep(request)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        found = await self.good.verify(request)
        missing = Problem(store="runs", id="r", what="1 messages are missing from here on")
        return changed(found, problems=(missing,)) if self.kept.get("swept") else found


@defect(
    "MOVE-2",
    caught_by="test_importing.py::test_a_run_that_is_imported_anew_leaves_nothing_of_what_it_was",
)
class ImportedAnewLeavesTheOldLog(BrokenMoving):
    """A run that is imported anew keeps what it was under a name of its own."""

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        answer = await self.good.import_run(request)
        if answer.outcome == "updated":
            other = f"{request.run.info.id} as it was"
            info = changed(request.run.info, id=other)
            await self.good.import_run(changed(request, run=changed(request.run, info=info)))
        return answer


@defect("RUN-F12", caught_by="test_costs.py::test_what_is_large_is_measured_wherever_it_lies")
class MeasuresInKibibytes(BrokenAdmin):
    """What a tenant holds is measured in KiB and given as bytes."""

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        found = await self.good.measure(request)
        return changed(found, bytes=None if found.bytes is None else found.bytes // 1024)


@defect(
    "ALL-6", caught_by="test_absence.py::test_check_warns_where_what_was_acknowledged_may_be_lost"
)
class CheckWarnsOfNothing(BrokenAdmin):
    """Check says nothing of a durability that loses what was acknowledged."""

    async def check(self, request: CheckRequest) -> CheckResponse:
        return changed(await self.good.check(request), warnings=())


@defect("MOVE-1", caught_by="test_moving.py::test_a_page_of_an_export_is_as_long_as_was_asked_for")
class NotesAreExportedOneByOne(BrokenMoving):
    """Each page of an export of notes has one note, however many are asked for."""

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        return await self.good.export_memories(changed(request, limit=1))


@defect(
    "RUN-Q5",
    caught_by="test_filters.py::test_updated_before_alone_keeps_the_runs_that_were_idle_since",
)
class IdleRunsNeedAnotherFilter(BrokenRuns):
    """`updated_before` is looked at only beside a label or a parent."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        if not request.labels and request.parent_id is None:
            request = changed(request, updated_before=None)
        return await self.good.list_runs(request)
