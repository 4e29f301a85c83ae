"""The store of tool results in memory."""

from datetime import datetime, timedelta

from stores_core.codec import encode
from stores_core.in_memory.storage import StoredResult, Tenant
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
    ToolResultInfo,
)
from stores_core.tool_text import join, read_slice, search, split
from stores_core.values import micros


class InMemoryToolResultStore:
    """Keeps tool results in a tenant. Used bare, without a Backend, it skips all checks."""

    def __init__(self, tenant: Tenant, retention: Retention) -> None:
        self._tenant = tenant
        self._retention = retention

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        text, rest = split(request.result)
        stored = StoredResult(
            created_at=request.at,
            labels=dict(request.labels),
            text=text,
            rest=rest,
            bytes=len(encode(request.result)),
        )
        with self._tenant.lock:
            enter(self._tenant, request.ref, stored)
            retain(self._tenant, self._retention, request.at)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        stored = self._stored(request.ref)
        if stored is None:
            return GetToolResultResponse(found=False)
        result = join(stored.text, stored.rest, ref=request.ref)
        return GetToolResultResponse(result=result, found=True)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        stored = self._stored(request.ref)
        if stored is None:
            return ReadToolResultResponse(found=False)
        text = read_slice(stored.text, request.offset, request.limit)
        return ReadToolResultResponse(text=text, characters=len(stored.text), found=True)

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        stored = self._stored(request.ref)
        matches, following = search(
            stored.text if stored else "",
            request.pattern,
            ignore_case=request.ignore_case,
            regex=request.regex,
            start=request.start,
            limit=request.limit,
        )
        return SearchToolResultResponse(
            matches=matches,
            next=following,
            characters=len(stored.text) if stored else 0,
            found=stored is not None,
        )

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        tenant = self._tenant
        with tenant.lock:
            ids, position, _ = tenant.result_catalog.page(
                list(request.labels.items()), request.cursor, request.limit
            )
            infos = [_info(ref, tenant.results[ref]) for ref in ids]
        return ListToolResultsResponse(infos=infos, next_cursor=position)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        with self._tenant.lock:
            deleted = remove(self._tenant, request.ref)
        return DeleteToolResultResponse(deleted=deleted)

    def _stored(self, ref: str) -> StoredResult | None:
        with self._tenant.lock:
            return self._tenant.results.get(ref)


def _info(ref: str, stored: StoredResult) -> ToolResultInfo:
    return ToolResultInfo(
        ref=ref,
        created_at=stored.created_at,
        labels=dict(stored.labels),
        bytes=stored.bytes,
        characters=len(stored.text),
    )


def enter(tenant: Tenant, ref: str, stored: StoredResult) -> None:
    """Put a result, in place of one of that ref. The tenant's lock is held."""
    remove(tenant, ref)
    tenant.results[ref] = stored
    tenant.result_catalog.put(ref, micros(stored.created_at), list(stored.labels.items()))
    tenant.result_bytes += stored.bytes


def remove(tenant: Tenant, ref: str) -> bool:
    """Take a result away; whether it was there. The tenant's lock is held."""
    stored = tenant.results.pop(ref, None)
    if stored is None:
        return False
    tenant.result_catalog.remove(ref)
    tenant.result_bytes -= stored.bytes
    return True


def retain(tenant: Tenant, retention: Retention, now: datetime, budget: int | None = None) -> int:
    """Give up what retention does not keep; how many. The tenant's lock is held."""
    freed = 0
    while len(tenant.results) > 1 and (budget is None or freed < budget):
        oldest = tenant.result_catalog.oldest()
        if oldest is None or not _is_surplus(tenant, retention, now, tenant.results[oldest]):
            break
        remove(tenant, oldest)
        freed += 1
    return freed


def _is_surplus(tenant: Tenant, retention: Retention, now: datetime, oldest: StoredResult) -> bool:
    return bool(
        (retention.age and oldest.created_at < now - timedelta(seconds=retention.age))
        or (retention.count and len(tenant.results) > retention.count)
        or (retention.bytes and tenant.result_bytes > retention.bytes)
    )
