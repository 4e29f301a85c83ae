"""Operations of one store each that look at no tenant, or look at it too late."""

from collections import Counter
from typing import ClassVar

from conformance_tests.broken.defect import (
    BrokenAdmin,
    BrokenMemory,
    BrokenMoving,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from stores_core.admin import Admin, VerifyRequest, VerifyResponse
from stores_core.memory import (
    DeleteMemoryRequest,
    DeleteMemoryResponse,
    MemoryStore,
    PutMemoriesRequest,
    PutMemoriesResponse,
)
from stores_core.moving import ExportEntriesRequest, ExportEntriesResponse, Moving
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    CreateRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    GetRunResponse,
    RunStore,
)
from stores_core.tool_results import (
    PutToolResultRequest,
    PutToolResultResponse,
    ReadToolResultRequest,
    ReadToolResultResponse,
    ToolResultStore,
)

_RUN = "test_isolation.py::test_to_a_stranger_a_run_is_as_if_it_had_never_been"
_NOTE = "test_isolation.py::test_to_a_stranger_a_note_is_as_if_it_had_never_been"
_RESULT = "test_isolation.py::test_to_a_stranger_a_result_is_as_if_it_had_never_been"
_MOVED = "test_isolation.py::test_a_stranger_exports_and_imports_only_its_own"
_SEAM = "test_isolation.py::test_the_operators_seam_counts_and_sweeps_one_tenant"
_COST = "test_isolation_costs.py::test_a_strangers_id_costs_what_an_unused_one_costs"


class _Claiming(BrokenRuns):
    """Knows who created which run, over all tenants."""

    homes: ClassVar[dict[str, RunStore]] = {}

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        answer = await self.good.create_run(request)
        if answer.created:
            self.homes.setdefault(request.run_id, self.good)
        return answer

    def home(self, run_id: str) -> RunStore:
        return self.homes.get(run_id, self.good)


@defect("ALL-10", caught_by=_RUN)
class AppendsLookAtNoTenant(_Claiming):
    """An append finds the run by its id alone, whoever it is of."""

    homes: ClassVar[dict[str, RunStore]] = {}

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.home(request.run_id).append_messages(request)


@defect("ALL-10", caught_by=_RUN)
class IdsAreTakenForAll(_Claiming):
    """An id that another tenant's run bears is refused to a fork, and so betrays that run."""

    homes: ClassVar[dict[str, RunStore]] = {}

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if self.home(request.new_run_id) is self.good:
            return answer
        return changed(answer, created=False, parent_id="", fork_point=0, found=True)


@defect("ALL-10", caught_by=_COST)
class TenantIsCheckedAfterReading(_Claiming):
    """A header is read by its id, and only then thrown away if it is another tenant's."""

    homes: ClassVar[dict[str, RunStore]] = {}

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        if self.home(request.run_id) is not self.good:
            await self.good.get_run(request)
        return await self.good.get_run(request)


@defect("ALL-10", caught_by=_NOTE)
class DeletesLookAtNoTenant(BrokenMemory):
    """A note is deleted by its namespace and key, whoever it is of."""

    homes: ClassVar[dict[tuple[str, str], MemoryStore]] = {}

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        for item in request.items:
            self.homes.setdefault((request.namespace, item.key), self.good)
        return await self.good.put_memories(request)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        home = self.homes.pop((request.namespace, request.key), self.good)
        return await home.delete_memory(request)


@defect("ALL-10", caught_by=_RESULT)
class SlicesLookAtNoTenant(BrokenToolResults):
    """A slice is read from the text of a ref, whoever put it."""

    homes: ClassVar[dict[str, ToolResultStore]] = {}

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        self.homes.setdefault(request.ref, self.good)
        return await self.good.put_tool_result(request)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        return await self.homes.get(request.ref, self.good).read_tool_result(request)


@defect("ALL-10", caught_by=_MOVED)
class LogsAreExportedToAll(BrokenMoving):
    """The entries of a log go to everybody who knows its id."""

    opened: ClassVar[list[Moving]] = []

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        for moving in (self.good, *self.opened[-5:]):
            answer = await moving.export_entries(request)
            if answer.length:
                return answer
        return await self.good.export_entries(request)

    def prepare(self) -> None:
        self.opened.append(self.good)


@defect("ALL-10", caught_by=_SEAM)
class VerifyReadsStrangers(BrokenAdmin):
    """What verify checked counts the tenant that was opened before as well."""

    opened: ClassVar[list[Admin]] = []

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        own = await self.good.verify(request)
        theirs = await self.opened[self.opened.index(self.good) - 1].verify(request)
        counts = Counter(own.checked) + Counter(theirs.checked)
        return changed(own, checked=dict(counts))

    def prepare(self) -> None:
        self.opened.append(self.good)
