"""The store of tool results in Redis."""

from stores_core.errors import CorruptRecordError
from stores_core.limits import looked_at_most
from stores_core.retention import Retention
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
    SearchToolResultRequest,
    SearchToolResultResponse,
)
from stores_core.tool_text import read_slice, search
from stores_redis.keys import filter_name
from stores_redis.results import (
    PART_CHARACTERS,
    Header,
    NewResult,
    Results,
    merged,
    result_of,
    text_of,
)
from stores_redis.retaining import retain
from stores_redis.storage import Tenant


class RedisToolResultStore:
    """Keeps tool results of a tenant. Used bare, without a Backend, it skips all checks."""

    def __init__(self, tenant: Tenant, retention: Retention) -> None:
        self._tenant = tenant
        self._results = Results(tenant)
        self._retention = retention

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        await self._results.put(
            NewResult.of(request.ref, request.at, request.labels, request.result)
        )
        await retain(self._results, self._retention, request.at)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        found = await self._results.whole(request.ref)
        if found is None:
            return GetToolResultResponse(found=False)
        return GetToolResultResponse(result=result_of(*found), found=True)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        first, offset = divmod(request.offset, PART_CHARACTERS)
        last = first + (offset + request.limit) // PART_CHARACTERS
        found = await self._results.read(request.ref, first, last)
        if found is None:
            return ReadToolResultResponse(found=False)
        header, parts = found
        wanted = min(last + 1, header.text_parts) - first
        if len(parts) < wanted:
            raise CorruptRecordError(store="tool_results", id=request.ref)
        text = text_of(header, parts[: max(0, wanted)])
        return ReadToolResultResponse(
            text=read_slice(text, offset, request.limit),
            characters=header.characters,
            found=True,
        )

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        found = await self._results.whole(request.ref)
        text = found[1] if found else ""
        matches, following = search(
            text,
            request.pattern,
            ignore_case=request.ignore_case,
            regex=request.regex,
            start=request.start,
            limit=request.limit,
        )
        return SearchToolResultResponse(
            matches=matches, next=following, characters=len(text), found=found is not None
        )

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        names = [filter_name(key, value) for key, value in request.labels.items()]
        most = looked_at_most(request.limit) if names else request.limit
        pages: list[tuple[list[Header], str]] = []
        for bucket in self._tenant.buckets:
            pages.append(
                await self._results.page(bucket, request.cursor, request.limit, most, names)
            )
        found, position = merged(pages, request.limit)
        infos = tuple(header.info() for header in found)
        return ListToolResultsResponse(infos=infos, next_cursor=position)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        return DeleteToolResultResponse(deleted=await self._results.remove(request.ref))
