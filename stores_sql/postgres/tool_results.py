"""The store of tool results in Postgres."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import select

from stores_core.errors import OutcomeUnknownError, StoreUnavailableError
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
    ToolResultInfo,
)
from stores_core.tool_text import read_slice, search
from stores_core.values import from_micros
from stores_sql.catalog import page, place_of
from stores_sql.parameters import given
from stores_sql.postgres.catalog import (
    along_label,
    bears_all,
    behind,
    filtered,
    page_of,
    rarest_label,
)
from stores_sql.postgres.result_rows import (
    CHUNK_CHARACTERS,
    INFO,
    hold,
    is_surplus,
    parameters,
    put,
    put_in_place,
    remove,
    result_of,
    retain,
    slice_of,
    text_of,
)
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT, Tenant
from stores_sql.postgres.tables import RESULTS, results
from stores_sql.results import NewResult, StoredResult

LONG_TEXT = 1 << 18
"""A longer text is searched in a thread, so that others need not wait for it."""

_in_order: Any = (
    select(*INFO)
    .where(results.c.tenant == TENANT, behind(results.c.age, results.c.ref))
    .order_by(results.c.age, results.c.ref)
)
ALL_RESULTS = Statement(_in_order.limit(given("most")))
_WITH_LABEL = filtered(
    along_label(results, "ref", INFO), "ref", partial(bears_all, RESULTS, id="ref")
)


class PostgresToolResultStore:
    """Keeps tool results of a tenant. Used bare, without a Backend, it skips all checks."""

    def __init__(self, tenant: Tenant, retention: Retention) -> None:
        self._tenant = tenant
        self._storage = tenant.storage
        self._name = tenant.name
        self._retention = retention

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        new = parameters(NewResult.of(request.ref, request.at, request.labels, request.result))
        if not await self._storage.write_once(lambda connection: put(connection, self._name, new)):
            await self._tenant.write(
                lambda connection, tenant: put_in_place(connection, tenant, self._name, new)
            )
        if self._retention.is_set():
            await self._retain(request)
        return PutToolResultResponse(ref=request.ref)

    async def _retain(self, request: PutToolResultRequest) -> None:
        """The put was done, so what fails here is left to a later one."""
        with suppress(StoreUnavailableError, OutcomeUnknownError):
            if await self._storage.read_once(
                lambda connection: is_surplus(connection, self._name, self._retention, request.at)
            ):
                await self._tenant.write(
                    lambda connection, tenant: retain(
                        connection, tenant, self._retention, request.at
                    )
                )

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        result = await self._storage.read_once(
            lambda connection: result_of(connection, self._name, request.ref)
        )
        return GetToolResultResponse(result=result, found=result is not None)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        first, offset = divmod(request.offset, CHUNK_CHARACTERS)
        last = first + max(0, offset + request.limit - 1) // CHUNK_CHARACTERS
        found = await self._storage.read_once(
            lambda connection: slice_of(connection, self._name, request.ref, first, last)
        )
        if found is None:
            return ReadToolResultResponse(found=False)
        text, characters = found
        return ReadToolResultResponse(
            text=read_slice(text, offset, request.limit), characters=characters, found=True
        )

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        text = await self._storage.read_once(
            lambda connection: text_of(connection, self._name, request.ref)
        )
        matching = partial(_found_in, text or "", request, found=text is not None)
        if text is None or len(text) < LONG_TEXT:
            return matching()
        return await asyncio.to_thread(matching)

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        read = self._storage.read if len(request.labels) > 1 else self._storage.read_once
        found, position, _ = await read(lambda connection: _listed(connection, self._name, request))
        return ListToolResultsResponse(infos=tuple(map(_info, found)), next_cursor=position)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        async def work(connection: Connection, tenant: int) -> bool:
            stored = await hold(connection, tenant, request.ref)
            if stored is not None:
                await remove(connection, tenant, [stored])
            return stored is not None

        return DeleteToolResultResponse(deleted=await self._tenant.write(work))


async def _listed(
    connection: Connection, tenant: str, request: ListToolResultsRequest
) -> tuple[list[StoredResult], str, int]:
    age, id = place_of(request.cursor)
    along: dict[str, Any] = {"name": tenant, "age": age, "id": id}
    limit, wanted = request.limit, request.labels
    if not wanted:
        rows = await ALL_RESULTS.all(connection, most=limit + 1, **along)
        return page(rows, StoredResult._make, limit, limit)
    most = looked_at_most(limit)
    rarest = next(iter(wanted.items()))
    if len(wanted) > 1:
        rarest, _ = await rarest_label(connection, tenant, RESULTS, wanted, most)
    rows = await _WITH_LABEL.all(
        connection,
        store=RESULTS, key=rarest[0], value=rarest[1], keys=list(wanted),
        values=list(wanted.values()), most=most, limit=limit, **along,
    )  # fmt: skip
    return page_of(rows, StoredResult._make, limit, most)


def _found_in(
    text: str, request: SearchToolResultRequest, *, found: bool
) -> SearchToolResultResponse:
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


def _info(stored: StoredResult) -> ToolResultInfo:
    return ToolResultInfo(
        ref=stored.ref,
        created_at=from_micros(-stored.age),
        labels=stored.named(),
        bytes=stored.size,
        characters=stored.characters,
    )
