"""Values that store and caller share."""

from typing import Any

from conformance_tests.broken.defect import BrokenMemory, BrokenToolResults, changed, defect
from stores_core.memory import (
    GetMemoryRequest,
    GetMemoryResponse,
    ListMemoriesRequest,
    ListMemoriesResponse,
)
from stores_core.tool_results import (
    GetToolResultRequest,
    GetToolResultResponse,
    ListToolResultsRequest,
    ListToolResultsResponse,
    PutToolResultRequest,
    PutToolResultResponse,
    ToolResult,
)

_NOTES = "test_ownership.py::test_notes_belong_to_whoever_holds_them"
_RESULTS = "test_ownership.py::test_tool_results_belong_to_whoever_holds_them"


class _Remembering:
    """Gives the object that it gave before where an equal one would do."""

    def prepare(self) -> None:
        self.given: dict[Any, Any] = {}

    def same(self, name: Any, value: Any) -> Any:
        return self.given.setdefault(name, value)


@defect("ALL-5", caught_by=_NOTES)
class NoteIsGivenAgain(_Remembering, BrokenMemory):
    """A client gives the same note to all who ask for that version of it."""

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        if answer.item is None:
            return answer
        name = (request.namespace, request.key, answer.item.version)
        return changed(answer, item=self.same(name, answer.item))


@defect("ALL-5", caught_by=_NOTES)
class ListedNotesAreGivenAgain(_Remembering, BrokenMemory):
    """A client gives the same notes in every listing of them."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        items = [
            changed(one, item=self.same((request.namespace, repr(one.item)), one.item))
            for one in answer.items
        ]
        return changed(answer, items=tuple(items))


@defect("ALL-5", caught_by=_RESULTS)
class ResultIsGivenAgain(_Remembering, BrokenToolResults):
    """A client gives the same result to all who ask, until the ref is put again."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        self.given.pop(request.ref, None)
        return await self.good.put_tool_result(request)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        answer = await self.good.get_tool_result(request)
        if answer.result is None:
            return answer
        return changed(answer, result=self.same(request.ref, answer.result))


@defect("ALL-5", caught_by=_RESULTS)
class ResultIsTheCallersOwn(BrokenToolResults):
    """The store keeps the very result that it was given."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        self.kept[request.ref] = request.result
        return await self.good.put_tool_result(request)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        answer = await self.good.get_tool_result(request)
        own: ToolResult | None = self.kept.get(request.ref)
        return changed(answer, result=own) if answer.result and own else answer


@defect("ALL-5", caught_by=_RESULTS)
class LabelsAreGivenAgain(_Remembering, BrokenToolResults):
    """A client gives the same labels of a result in every listing."""

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        answer = await self.good.list_tool_results(request)
        infos = [
            changed(i, labels=self.same((i.ref, i.created_at), i.labels)) for i in answer.infos
        ]
        return changed(answer, infos=tuple(infos))
