"""Walls between tenants that have holes, and an operator's seam that erases or counts wrongly."""

from typing import Any, ClassVar

from conformance_tests.broken.defect import (
    BrokenAdmin,
    BrokenMemory,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from conformance_tests.broken.reading import ALL
from stores_core.admin import (
    Admin,
    EraseTenantRequest,
    EraseTenantResponse,
    ListTenantsRequest,
    ListTenantsResponse,
    MeasureRequest,
    MeasureResponse,
    SweepRequest,
    SweepResponse,
)
from stores_core.memory import (
    GetMemoryRequest,
    GetMemoryResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    PutMemoriesRequest,
    PutMemoriesResponse,
    StoredMemory,
)
from stores_core.tool_results import (
    DeleteToolResultRequest,
    DeleteToolResultResponse,
    GetToolResultRequest,
    GetToolResultResponse,
    PutToolResultRequest,
    PutToolResultResponse,
    ToolResult,
)

_NOTE = "test_isolation.py::test_to_a_stranger_a_note_is_as_if_it_had_never_been"
_RESULT = "test_isolation.py::test_to_a_stranger_a_result_is_as_if_it_had_never_been"
_ERASED = "test_isolation.py::test_erasing_a_tenant_erases_all_of_that_tenant_alone"
_ALIKE = "test_ids.py::test_tenants_that_look_alike_share_nothing"
_LISTED = "test_isolation.py::test_tenants_are_listed_in_code_point_order_by_any_page"
_SWEPT = "test_retention.py::test_a_sweep_keeps_to_its_budget_and_says_what_is_left"


@defect("ALL-10", caught_by=_RESULT)
class ResultsAreCachedForAll(BrokenToolResults):
    """A cache of results knows them by ref alone, for all tenants of the process."""

    cache: ClassVar[dict[str, ToolResult]] = {}

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        self.cache[request.ref] = request.result
        return await self.good.put_tool_result(request)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        self.cache.pop(request.ref, None)
        return await self.good.delete_tool_result(request)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        answer = await self.good.get_tool_result(request)
        result = answer.result or self.cache.get(request.ref)
        return changed(answer, result=result, found=result is not None)


@defect("ALL-10", caught_by=_RESULT)
class RefsAreForbiddenToOthers(BrokenToolResults):
    """A ref of another tenant is not answered as one that never was: a delete tells it apart."""

    taken: ClassVar[set[str]] = set()

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        self.taken.add(request.ref)
        return await self.good.put_tool_result(request)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        answer = await self.good.delete_tool_result(request)
        there = answer.deleted or request.ref in self.taken
        self.taken.discard(request.ref)
        return changed(answer, deleted=there)


@defect("ALL-10", caught_by=_NOTE)
class NotesOfBatchesAreCachedForAll(BrokenMemory):
    """Notes of a batch go into a cache that all tenants of the process share."""

    cache: ClassVar[dict[Any, StoredMemory]] = {}

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        answer = await self.good.put_memories(request)
        for item in request.items:
            get = GetMemoryRequest(key=item.key, namespace=request.namespace)
            stored = (await self.good.get_memory(get)).item
            if stored is not None:
                self.cache[request.namespace, item.key] = stored
        return answer

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        item = answer.item or self.cache.get((request.namespace, request.key))
        return changed(answer, item=item, found=item is not None)


@defect("ALL-10", caught_by=_NOTE)
class NamespacesOfAllTenantsAreListed(BrokenMemory):
    """The listing of namespaces looks at no tenant."""

    names: ClassVar[set[str]] = set()

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        self.names.add(request.namespace)
        return await self.good.put_memories(request)

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        answer = await self.good.list_namespaces(request)
        if request.cursor or answer.next_cursor or not request.prefix:
            return answer
        names = {name for name in self.names if name.startswith(request.prefix)}
        return changed(answer, namespaces=tuple(sorted(names.union(answer.namespaces))))


class _Tenants(BrokenRuns):
    """Opens another tenant than the one that was named."""

    @classmethod
    def tenant(cls, name: str) -> str:
        raise NotImplementedError

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"tenant": cls.tenant(values.get("tenant", ""))}


@defect("ALL-10", "ALL-3", caught_by=_ALIKE)
class TenantsHaveNoCase(_Tenants):
    """Names of tenants are compared in any case."""

    @classmethod
    def tenant(cls, name: str) -> str:
        return name.casefold()


@defect("ALL-10", "ALL-3", caught_by=_ALIKE)
class TenantsAreTrimmed(_Tenants):
    """The name of a tenant loses the spaces around it."""

    @classmethod
    def tenant(cls, name: str) -> str:
        return name.strip()


@defect("ALL-10", "ALL-3", caught_by=_ALIKE)
class TenantsAreCutAt63Bytes(_Tenants):
    """The name of a tenant is cut to the 63 bytes that a schema's name may have."""

    @classmethod
    def tenant(cls, name: str) -> str:
        return name.encode()[:63].decode(errors="ignore")


@defect(
    "ALL-10",
    caught_by="test_isolation.py::test_the_tenant_without_a_name_is_none_that_has_one",
)
class NoTenantIsDefault(_Tenants):
    """The tenant "" and the one called "default" are the same."""

    @classmethod
    def tenant(cls, name: str) -> str:
        return name or "default"


@defect(
    "ALL-10",
    caught_by="test_isolation.py::test_what_one_tenant_writes_is_counted_for_no_other",
)
class MeasureCountsStrangers(BrokenAdmin):
    """The bytes of a tenant are counted with those of tenants that were opened lately."""

    opened: ClassVar[list[Admin]] = []

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        own = await self.good.measure(request)
        others = [await one.measure(request) for one in self.opened[-3:] if one is not self.good]
        total = (own.bytes or 0) + sum(one.bytes or 0 for one in others)
        return changed(own, bytes=total)

    def prepare(self) -> None:
        self.opened.append(self.good)


@defect("ALL-10", caught_by=_ERASED)
class ErasingGoesByPrefix(BrokenAdmin):
    """Erasing a tenant erases those whose name starts with its name."""

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        listed = await self.good.list_tenants(ListTenantsRequest(limit=ALL))
        answer = await self.good.erase_tenant(request)
        for name in listed.tenants:
            if name.startswith(request.tenant):
                await self.good.erase_tenant(changed(request, tenant=name))
        return answer


@defect("ALL-10", caught_by=_ERASED)
class ErasingAlwaysSaysYes(BrokenAdmin):
    """Erasing a tenant that has nothing says that it was erased."""

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        return changed(await self.good.erase_tenant(request), erased=True)


@defect("ALL-10", caught_by=_ERASED)
class ErasedTenantsStayListed(BrokenAdmin):
    """A tenant stays listed when it has been erased."""

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        self.kept[request.tenant] = True
        return await self.good.erase_tenant(request)

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        answer = await self.good.list_tenants(request)
        if answer.next_cursor:
            return answer
        return changed(answer, tenants=tuple(sorted({*self.kept, *answer.tenants})))


@defect("ALL-10", caught_by=_LISTED)
class TenantsComeInAnyCase(BrokenAdmin):
    """Tenants are listed in an order that ignores case."""

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        answer = await self.good.list_tenants(request)
        return changed(answer, tenants=tuple(sorted(answer.tenants, key=str.casefold)))


@defect("ALL-10", caught_by=_LISTED)
class TenantsAreListedOnce(BrokenAdmin):
    """The first page of tenants has no cursor."""

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        return changed(await self.good.list_tenants(request), next_cursor="")


@defect("TOOL-5", caught_by=_SWEPT)
class SweepHasNoBudget(BrokenAdmin):
    """A sweep does all there is to do, whatever its budget."""

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        return await self.good.sweep(changed(request, budget=ALL))


@defect("TOOL-5", caught_by=_SWEPT)
class SweepSaysThatItIsDone(BrokenAdmin):
    """A sweep that its budget ended says that nothing is left."""

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        return changed(await self.good.sweep(request), more=False)
