"""The store of tool results in SQLite."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import delete, select, tuple_, update

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
    ToolResult,
    ToolResultInfo,
)
from stores_core.tool_text import join, read_slice, search
from stores_core.values import from_micros, micros
from stores_sql.catalog import encode_labels, page, place_of
from stores_sql.parameters import given
from stores_sql.results import NewResult, StoredResult
from stores_sql.sqlite.catalog import count_label, enter_labels, remove_labels
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.storage import Tenant
from stores_sql.sqlite.tables import CHUNK_SPAN, RESULTS, chunks, labels, results, tenants

T = TypeVar("T")

CHUNK_CHARACTERS = 1 << 16

_INFO = (
    results.c.number, results.c.ref, results.c.age, results.c.bytes, results.c.characters,
    results.c.labels,
)  # fmt: skip
_named = (results.c.tenant == given("tenant"), results.c.ref == given("ref"))
_FIND = Statement(select(*_INFO).where(*_named))
_REST = Statement(select(results.c.rest).where(results.c.number == given("result")))
_INSERT = inserting(results, numbered=True)
_DELETE = Statement(delete(results).where(results.c.number == given("result")))
ALL_RESULTS = Statement(
    select(*_INFO)
    .where(
        results.c.tenant == given("tenant"),
        tuple_(results.c.age, results.c.ref) > tuple_(given("age"), given("id")),
    )
    .order_by(results.c.age, results.c.ref)
    .limit(given("most"))
)
_WITH_LABEL = Statement(
    select(*_INFO)
    .select_from(labels.join(results, results.c.number == labels.c.target))
    .where(
        labels.c.tenant == given("tenant"),
        labels.c.store == given("store"),
        labels.c.key == given("key"),
        labels.c.value == given("value"),
        tuple_(labels.c.age, labels.c.id) > tuple_(given("age"), given("id")),
    )
    .order_by(labels.c.age, labels.c.id)
    .limit(given("most"))
)
_OLDEST = Statement(
    select(*_INFO)
    .where(results.c.tenant == given("tenant"))
    .order_by(results.c.age.desc(), results.c.ref.desc())
    .limit(given("most"))
)
_INSERT_CHUNK = inserting(chunks)
_in_result = (chunks.c.place >= given("first"), chunks.c.place < given("last"))
_CHUNKS = Statement(select(chunks.c.text).where(*_in_result).order_by(chunks.c.place))
_DELETE_CHUNKS = Statement(delete(chunks).where(*_in_result))
_COUNT = Statement(
    update(tenants)
    .values(
        result_count=tenants.c.result_count + given("count"),
        result_bytes=tenants.c.result_bytes + given("size"),
    )
    .where(tenants.c.number == given("tenant"))
)
_COUNTED = Statement(
    select(tenants.c.result_count, tenants.c.result_bytes).where(
        tenants.c.number == given("tenant")
    )
)


class SqliteToolResultStore:
    """Keeps tool results of a tenant. Used bare, without a Backend, it skips all checks."""

    def __init__(self, tenant: Tenant, retention: Retention) -> None:
        self._tenant = tenant
        self._retention = retention

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        new = NewResult.of(request.ref, request.at, request.labels, request.result)

        def work(connection: Connection, tenant: int) -> None:
            enter(connection, tenant, new)
            retain(connection, tenant, self._retention, request.at)

        await self._tenant.write(work)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        def answer(connection: Connection, stored: StoredResult) -> GetToolResultResponse:
            return GetToolResultResponse(result=result_of(connection, stored), found=True)

        return await self._answer(request.ref, answer, GetToolResultResponse(found=False))

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        def answer(connection: Connection, stored: StoredResult) -> ReadToolResultResponse:
            begin = min(request.offset, stored.characters)
            first, offset = divmod(begin, CHUNK_CHARACTERS)
            text = text_of(connection, stored, first, (offset + request.limit) // CHUNK_CHARACTERS)
            return ReadToolResultResponse(
                text=read_slice(text, offset, request.limit),
                characters=stored.characters,
                found=True,
            )

        return await self._answer(request.ref, answer, ReadToolResultResponse(found=False))

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        def found_in(text: str, *, found: bool) -> SearchToolResultResponse:
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

        def work(connection: Connection, tenant: int) -> SearchToolResultResponse:
            stored = find(connection, tenant, request.ref)
            text = "" if stored is None else text_of(connection, stored)
            return found_in(text, found=stored is not None)

        return await self._tenant.read(work)

    async def _answer(
        self, ref: str, answer: Callable[[Connection, StoredResult], T], otherwise: T
    ) -> T:
        def work(connection: Connection, tenant: int) -> T:
            stored = find(connection, tenant, ref)
            return otherwise if stored is None else answer(connection, stored)

        return await self._tenant.read(work)

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        wanted = dict(request.labels).items()
        most = looked_at_most(request.limit) if wanted else request.limit
        age, id = place_of(request.cursor)

        def is_wanted(stored: StoredResult) -> bool:
            return wanted <= stored.named().items()

        def work(connection: Connection, tenant: int) -> ListToolResultsResponse:
            along = {"tenant": tenant, "age": age, "id": id, "most": most + 1}
            if wanted:
                key, value = min(
                    wanted,
                    key=lambda label: count_label(connection, tenant, RESULTS, label, most),
                )
                rows = _WITH_LABEL.run(connection, store=RESULTS, key=key, value=value, **along)
            else:
                rows = ALL_RESULTS.run(connection, **along)
            found, position, _ = page(
                rows, StoredResult._make, request.limit, most, is_wanted if wanted else None
            )
            return ListToolResultsResponse(infos=tuple(map(_info, found)), next_cursor=position)

        return await self._tenant.read(work)

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        def work(connection: Connection, tenant: int) -> bool:
            stored = find(connection, tenant, request.ref)
            if stored is not None:
                remove(connection, tenant, stored)
            return stored is not None

        return DeleteToolResultResponse(deleted=await self._tenant.write(work))


def _info(stored: StoredResult) -> ToolResultInfo:
    return ToolResultInfo(
        ref=stored.ref,
        created_at=from_micros(-stored.age),
        labels=stored.named(),
        bytes=stored.size,
        characters=stored.characters,
    )


def find(connection: Connection, tenant: int, ref: str) -> StoredResult | None:
    row = _FIND.one(connection, tenant=tenant, ref=ref)
    return None if row is None else StoredResult._make(row)


def text_of(
    connection: Connection, stored: StoredResult, first: int = 0, further: int = CHUNK_SPAN
) -> str:
    """The text from chunk ``first`` on, with so many chunks behind it."""
    start = stored.number * CHUNK_SPAN
    last = start + min(CHUNK_SPAN, first + 1 + further)
    rows = _CHUNKS.all(connection, first=start + first, last=last)
    return rows[0][0] if len(rows) == 1 else "".join([text for (text,) in rows])


def result_of(connection: Connection, stored: StoredResult) -> ToolResult:
    """The whole result. Raises CorruptRecordError."""
    rest: bytes = _REST.value(connection, result=stored.number)
    return join(text_of(connection, stored), rest, ref=stored.ref)


def enter(connection: Connection, tenant: int, new: NewResult) -> None:
    """Put a result, in place of one of that ref."""
    standing = find(connection, tenant, new.ref)
    if standing is not None:
        remove(connection, tenant, standing)
    number = _INSERT.number(
        connection,
        tenant=tenant, ref=new.ref, age=-new.created, bytes=new.bytes,
        characters=len(new.text), labels=encode_labels(new.labels), rest=new.rest,
    )  # fmt: skip
    _INSERT_CHUNK.many(
        connection,
        [
            (number * CHUNK_SPAN + index, new.text[start : start + CHUNK_CHARACTERS])
            for index, start in enumerate(range(0, len(new.text), CHUNK_CHARACTERS))
        ],
    )
    enter_labels(connection, tenant, RESULTS, number, (-new.created, new.ref), new.labels)
    _COUNT.run(connection, tenant=tenant, count=1, size=new.bytes)


def remove(connection: Connection, tenant: int, stored: StoredResult) -> None:
    """Take a result away."""
    remove_labels(connection, tenant, RESULTS, stored.place, stored.named())
    start = stored.number * CHUNK_SPAN
    _DELETE_CHUNKS.run(connection, first=start, last=start + CHUNK_SPAN)
    _DELETE.run(connection, result=stored.number)
    _COUNT.run(connection, tenant=tenant, count=-1, size=-stored.size)


def retain(
    connection: Connection,
    tenant: int,
    retention: Retention,
    now: datetime,
    budget: int | None = None,
) -> int:
    """Give up what retention does not keep; how many."""
    freed = 0
    horizon = -(1 << 63)
    if retention.age:
        horizon = micros(now) - timedelta(seconds=retention.age) // timedelta(microseconds=1)
    while retention.is_set() and (budget is None or freed < budget):
        count, size = _COUNTED.one(connection, tenant=tenant) or (0, 0)
        row = _OLDEST.one(connection, tenant=tenant, most=1)
        if row is None or count <= 1:
            break
        oldest = StoredResult._make(row)
        if not (
            -oldest.age < horizon
            or (retention.count and count > retention.count)
            or (retention.bytes and size > retention.bytes)
        ):
            break
        remove(connection, tenant, oldest)
        freed += 1
    return freed
