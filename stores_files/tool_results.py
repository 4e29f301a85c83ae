"""The store of tool results in files."""

from datetime import datetime, timedelta

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
from stores_core.tool_text import search
from stores_core.values import from_micros, micros
from stores_files.layout import RESULTS
from stores_files.listing import Entry
from stores_files.places import Place
from stores_files.result_folders import (
    NewResult,
    StoredResult,
    entered,
    put,
    read_result,
    read_text,
    remove,
)
from stores_files.storage import Tenant


class FileToolResultStore:
    """Keeps tool results of a tenant. Used bare, without a Backend, it skips all checks."""

    def __init__(self, tenant: Tenant, retention: Retention) -> None:
        self._tenant = tenant
        self._retention = retention

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        def work(place: Place) -> None:
            new = NewResult.of(request.ref, request.at, request.labels, request.result)
            put(place, self._tenant, new)
            retain(place, self._tenant, self._retention, request.at)

        await self._tenant.write(work)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        def work(place: Place) -> GetToolResultResponse:
            with entered(place, self._tenant, request.ref) as found:
                if found is None:
                    return GetToolResultResponse(found=False)
                return GetToolResultResponse(result=read_result(place, *found), found=True)

        return await self._tenant.read(work, GetToolResultResponse(found=False))

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        def work(place: Place) -> ReadToolResultResponse:
            with entered(place, self._tenant, request.ref) as found:
                if found is None:
                    return ReadToolResultResponse(found=False)
                text = read_text(place, *found, request.offset, request.limit)
                return ReadToolResultResponse(text=text, characters=found[0].characters, found=True)

        return await self._tenant.read(work, ReadToolResultResponse(found=False))

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        def searched(text: str, *, found: bool) -> SearchToolResultResponse:
            matches, following = search(
                text,
                request.pattern,
                ignore_case=request.ignore_case,
                regex=request.regex,
                start=request.start,
                limit=request.limit,
            )
            return SearchToolResultResponse(
                matches=matches, next=following, characters=len(text), found=found
            )

        def work(place: Place) -> SearchToolResultResponse:
            with entered(place, self._tenant, request.ref) as found:
                if found is None:
                    return searched("", found=False)
                text = read_text(place, *found, 0, found[0].characters)
            return searched(text, found=True)

        missing = searched("", found=False)  # which refuses a bad pattern, result or none
        return await self._tenant.read(work, missing)

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        labels = [("label", *label) for label in request.labels.items()]

        def work(place: Place) -> ListToolResultsResponse:
            infos: list[ToolResultInfo] = []
            position = request.cursor

            def keep(entry: Entry) -> bool:
                with entered(place, self._tenant, entry[0]) as found:
                    if found is None or found[0].generation != entry[1]:
                        return False
                    infos.append(_info(found[0]))
                    return True

            while True:
                _, position, _ = self._tenant.result_listing.page(
                    place.folder, labels, position, request.limit - len(infos), keep=keep
                )
                if not position or labels or len(infos) == request.limit:
                    return ListToolResultsResponse(infos=infos, next_cursor=position)

        return await self._tenant.read(work, ListToolResultsResponse())

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        def work(place: Place) -> bool:
            with entered(place, self._tenant, request.ref, alone=True) as found:
                if found is not None:
                    remove(place, self._tenant, found[0])
                else:
                    place.disk.sync_folder(place[RESULTS])  # gone for certain
                return found is not None

        return DeleteToolResultResponse(deleted=await self._tenant.read(work, otherwise=False))


def _info(stored: StoredResult) -> ToolResultInfo:
    return ToolResultInfo(
        ref=stored.ref,
        created_at=from_micros(stored.created),
        labels=dict(stored.labels),
        bytes=stored.size,
        characters=stored.characters,
    )


def retain(
    place: Place, tenant: Tenant, retention: Retention, now: datetime, budget: int | None = None
) -> int:
    """Give up what retention does not keep; how many."""
    freed = 0
    while retention.is_set() and (budget is None or freed < budget):
        count, size, oldest = tenant.result_listing.oldest(place.folder)
        if oldest is None or count <= 1:
            break
        with entered(place, tenant, oldest[0], alone=True) as found:
            if found is None or found[0].generation != oldest[1]:
                tenant.result_listing.strike(place.folder, *oldest)
                continue
            stored = found[0]
            horizon = micros(now - timedelta(seconds=retention.age)) if retention.age else None
            if not (
                (horizon is not None and stored.created < horizon)
                or (retention.count and count > retention.count)
                or (retention.bytes and size > retention.bytes)
            ):
                break
            remove(place, tenant, stored)
        freed += 1
    return freed
