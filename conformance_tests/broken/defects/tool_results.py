"""Tool results that are kept, replaced, listed or deleted wrongly."""

import asyncio
from collections.abc import Sequence

from conformance_tests.broken.defect import BrokenToolResults, changed, defect
from conformance_tests.broken.reading import infos_of
from stores_core.codec import encode_json
from stores_core.tool_results import (
    DeleteToolResultRequest,
    DeleteToolResultResponse,
    GetToolResultRequest,
    GetToolResultResponse,
    ListToolResultsRequest,
    ListToolResultsResponse,
    PutToolResultRequest,
    PutToolResultResponse,
    ReadToolResultRequest,
    ReadToolResultResponse,
    ToolResult,
    ToolResultInfo,
)
from stores_core.tool_text import text_of

_REPLACED = "test_tool_results.py::test_a_ref_put_again_is_replaced_whole"
_UNKNOWN = "test_tool_results.py::test_an_unknown_ref_answers_not_found_everywhere"
_ORDER = "test_tool_results.py::test_results_are_listed_newest_first_and_ties_by_ref"
_LABELS = "test_tool_results.py::test_labels_filter_results_by_equality_on_all_given"
_INFO = "test_tool_results.py::test_an_info_tells_ref_labels_characters_and_bytes"
_SIZES = "test_tool_results.py::test_a_text_of_any_size_comes_back_whole"
_WALKING = "test_tool_results.py::test_pages_of_results_miss_and_repeat_nothing_meanwhile"


@defect("TOOL-3", caught_by=_REPLACED)
class OldStructureStays(BrokenToolResults):
    """A ref put again keeps the structured content that the new result lacks."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        old = (await self.good.get_tool_result(GetToolResultRequest(ref=request.ref))).result
        if old and old.structured_content and request.result.structured_content is None:
            result = changed(request.result, structured_content=old.structured_content)
            request = changed(request, result=result)
        return await self.good.put_tool_result(request)


@defect("TOOL-3", caught_by=_REPLACED)
class OldLabelsStay(BrokenToolResults):
    """A ref put again keeps the labels that it had."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        labels = {**self.kept.get(request.ref, {}), **request.labels}
        self.kept[request.ref] = labels
        return await self.good.put_tool_result(changed(request, labels=labels))


@defect("TOOL-3", caught_by=_REPLACED)
class FirstResultStays(BrokenToolResults):
    """A ref that is taken keeps its result, and the put says that all is well."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        if (await self.good.get_tool_result(GetToolResultRequest(ref=request.ref))).found:
            return PutToolResultResponse(ref=request.ref)
        return await self.good.put_tool_result(request)


@defect(
    "TOOL-3",
    "ALL-6",
    caught_by="test_tool_results.py::"
    "test_a_reader_sees_the_old_result_or_the_new_one_and_never_a_mix",
)
class ReplacedInTwoSteps(BrokenToolResults):
    """A put deletes the old result before it writes the new one."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        delete = DeleteToolResultRequest(ref=request.ref)
        await self.good.delete_tool_result(changed(delete, at=request.at))
        await asyncio.sleep(0)
        return await self.good.put_tool_result(request)


@defect(
    "TOOL-3",
    "ALL-6",
    caught_by="test_tool_results.py::"
    "test_a_reader_sees_the_old_result_or_the_new_one_and_never_a_mix",
)
class TextAndRestAreReadApart(BrokenToolResults):
    """A result is read in two steps: its text, then the rest of it."""

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        first = await self.good.get_tool_result(request)
        await asyncio.sleep(0)
        second = await self.good.get_tool_result(request)
        if first.result is None or second.result is None:
            return second
        return changed(second, result=changed(second.result, content=first.result.content))


@defect("TOOL-2", caught_by=_UNKNOWN)
class UnknownResultIsEmpty(BrokenToolResults):
    """An unknown ref gives an empty result."""

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        answer = await self.good.get_tool_result(request)
        return changed(answer, found=True, result=answer.result or ToolResult())


@defect("TOOL-2", "TOOL-4", caught_by=_UNKNOWN)
class UnknownTextIsEmpty(BrokenToolResults):
    """A slice of an unknown ref is empty, and found."""

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        return changed(await self.good.read_tool_result(request), found=True)


@defect("TOOL-2", caught_by=_UNKNOWN)
class ResultDeleteAlwaysSaysYes(BrokenToolResults):
    """Deleting an unknown ref says that it was deleted."""

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        return changed(await self.good.delete_tool_result(request), deleted=True)


@defect(
    "TOOL-2", caught_by="test_tool_results.py::test_a_deleted_result_is_gone_and_its_ref_is_free"
)
class DeletedResultStaysListed(BrokenToolResults):
    """A listing is kept beside the results, and deleting leaves it as it was."""

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        infos = {info.ref: info for info in await infos_of(self.good)}
        self.kept.update({ref: info for ref, info in infos.items() if ref == request.ref})
        return await self.good.delete_tool_result(request)

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        answer = await self.good.list_tool_results(request)
        if request.cursor or not request.labels:
            return answer
        wanted = request.labels.items()
        gone = [info for info in self.kept.values() if wanted <= info.labels.items()]
        return changed(answer, infos=(*gone, *answer.infos))


@defect("ALL-3", caught_by="test_ids.py::test_removing_one_id_leaves_those_that_begin_with_it")
class DeletingGoesByPrefix(BrokenToolResults):
    """Deleting a ref deletes those that start with it."""

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        answer = await self.good.delete_tool_result(request)
        for info in await infos_of(self.good):
            if info.ref.startswith(request.ref):
                await self.good.delete_tool_result(changed(request, ref=info.ref))
        return answer


@defect("TOOL-1", caught_by=_SIZES)
class TextIsCutAt64Kib(BrokenToolResults):
    """A column takes 65,535 characters of a text and drops the rest."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        result = request.result
        content = [
            {**item, "text": str(item["text"])[:65_535]} if len(str(item)) > 65_535 else item
            for item in result.content or ()
        ]
        if text_of(result)[65_535:] and len(content) == 1:
            request = changed(request, result=changed(result, content=tuple(content)))
        return await self.good.put_tool_result(request)


@defect("TOOL-1", "ALL-1", caught_by="test_tool_results.py::test_a_result_comes_back_equal")
class OnlyTextItemsAreKept(BrokenToolResults):
    """Content that is no text is dropped."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        content = request.result.content or ()
        texts = tuple(item for item in content if '"text"' in encode_json(item).decode())
        if content:
            request = changed(request, result=changed(request.result, content=texts))
        return await self.good.put_tool_result(request)


class _Listed(BrokenToolResults):
    """Lists what fits, in an order of its own, by pages whose cursors are offsets."""

    def order(self, infos: list[ToolResultInfo]) -> Sequence[ToolResultInfo]:
        return infos

    async def infos(self, request: ListToolResultsRequest) -> list[ToolResultInfo]:
        return await infos_of(self.good, request.labels)

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        infos = self.order(await self.infos(request))
        start = int(request.cursor or 0)
        end = start + request.limit
        following = str(end) if end < len(infos) else ""
        return ListToolResultsResponse(infos=infos[start:end], next_cursor=following)


@defect("TOOL-7", caught_by=_WALKING)
class ResultCursorIsAnOffset(_Listed):
    """The cursor of results counts those already given."""


@defect("TOOL-7", caught_by=_ORDER)
class OldestResultsFirst(_Listed):
    """Results are listed oldest first."""

    def order(self, infos: list[ToolResultInfo]) -> Sequence[ToolResultInfo]:
        return infos[::-1]


@defect("TOOL-7", caught_by=_ORDER)
class ResultsOfOneMomentByArrival(_Listed):
    """Results of one moment are listed by ref, descending, as the moments are."""

    def order(self, infos: list[ToolResultInfo]) -> Sequence[ToolResultInfo]:
        return sorted(infos, key=lambda info: (info.created_at, info.ref), reverse=True)


@defect("TOOL-7", caught_by=_ORDER)
class RefsComeIn16Bits(_Listed):
    """Results of one moment are listed in the order of the UTF-16 units of their refs."""

    def order(self, infos: list[ToolResultInfo]) -> Sequence[ToolResultInfo]:
        by_ref = sorted(infos, key=lambda info: info.ref.encode("utf-16-be"))
        return sorted(by_ref, key=lambda info: info.created_at, reverse=True)


@defect("TOOL-7", caught_by=_LABELS)
class AnyLabelFits(_Listed):
    """A filter of several labels is content with one."""

    async def infos(self, request: ListToolResultsRequest) -> list[ToolResultInfo]:
        infos = await infos_of(self.good)
        wanted = set(request.labels.items())
        return [info for info in infos if not wanted or wanted & set(info.labels.items())]


@defect("TOOL-7", caught_by=_LABELS)
class LabelsMatchInAnyCase(_Listed):
    """A filter compares labels in any case."""

    async def infos(self, request: ListToolResultsRequest) -> list[ToolResultInfo]:
        def folded(info: ToolResultInfo | ListToolResultsRequest) -> set[tuple[str, str]]:
            return {(key.casefold(), value.casefold()) for key, value in info.labels.items()}

        infos = await infos_of(self.good)
        return [info for info in infos if folded(request) <= folded(info)]


@defect(
    "TOOL-7",
    caught_by="test_tool_results.py::test_pages_of_results_miss_and_repeat_nothing_meanwhile",
)
class LastResultIsLost(BrokenToolResults):
    """A listing ends one page early when a single result is left."""

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        answer = await self.good.list_tool_results(request)
        if answer.next_cursor:
            following = changed(request, cursor=answer.next_cursor)
            rest = await self.good.list_tool_results(following)
            if len(rest.infos) == 1 and not rest.next_cursor:
                return changed(answer, next_cursor="")
        return answer


class _Told(BrokenToolResults):
    """Tells of each result something else."""

    async def info(self, info: ToolResultInfo) -> ToolResultInfo:
        raise NotImplementedError

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        answer = await self.good.list_tool_results(request)
        infos = [await self.info(info) for info in answer.infos]
        return changed(answer, infos=tuple(infos))


@defect("TOOL-7", "TOOL-4", caught_by=_INFO)
class InfoCountsBytesForCharacters(_Told):
    """An info gives the bytes of the text as its characters."""

    async def info(self, info: ToolResultInfo) -> ToolResultInfo:
        got = await self.good.get_tool_result(GetToolResultRequest(ref=info.ref))
        text = text_of(got.result or ToolResult())
        return changed(info, characters=len(text.encode()))


@defect("TOOL-7", caught_by=_INFO)
class InfoCountsTheTextAlone(_Told):
    """An info gives the bytes of the text as those of the result."""

    async def info(self, info: ToolResultInfo) -> ToolResultInfo:
        got = await self.good.get_tool_result(GetToolResultRequest(ref=info.ref))
        return changed(info, bytes=len(text_of(got.result or ToolResult()).encode()))


@defect(
    "TOOL-7",
    "ALL-4",
    caught_by="test_ownership.py::test_every_time_comes_from_the_one_clock_to_the_microsecond",
)
class ResultKeepsItsFirstTime(_Told):
    """A ref put again keeps the time of its first put."""

    async def info(self, info: ToolResultInfo) -> ToolResultInfo:
        first = self.kept.setdefault(info.ref, info.created_at)
        return changed(info, created_at=first)
