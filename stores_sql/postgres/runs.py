"""The run store in Postgres."""

from typing import Any, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Select, Subquery, Text, and_, func, or_, select

from stores_core.codec import decode_events, decode_messages, encode
from stores_core.errors import StoreUnavailableError
from stores_core.keys import repeated
from stores_core.limits import looked_at_most, page_length
from stores_core.pages import check_load, check_start
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    AppendResponse,
    CreateRunRequest,
    CreateRunResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    GetRunResponse,
    ListRunsRequest,
    ListRunsResponse,
    LoadRunRequest,
    LoadRunResponse,
    ReadEventsRequest,
    ReadEventsResponse,
    ReadMessagesRequest,
    ReadMessagesResponse,
    Run,
    UpdateRunRequest,
    UpdateRunResponse,
)
from stores_core.values import merge_labels, micros
from stores_sql.catalog import Place, page, place_of
from stores_sql.headers import NewRun, StoredRun, counted, header
from stores_sql.parameters import EMPTY, given
from stores_sql.postgres.catalog import (
    along_label,
    bears_all,
    behind,
    filtered,
    page_of,
    rarest_label,
)
from stores_sql.postgres.failures import is_duplicate
from stores_sql.postgres.forking import fork, join_ranges
from stores_sql.postgres.logs import (
    BEYOND,
    FREED_AT_ONCE,
    NOTHING,
    Part,
    Texts,
    free,
    hold_of_run,
    read,
)
from stores_sql.postgres.run_rows import (
    APPEND,
    APPEND_KEYED,
    FIND,
    HEADER,
    HOLD,
    HOLD_LABELS,
    enter,
    find_with_key,
    relabel,
    take_away,
)
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT, TRIES, Tenant
from stores_sql.postgres.tables import RUNS, runs

A = TypeVar("A", bound=AppendResponse)

_in_tenant = runs.c.tenant == TENANT
_of_parent = (
    _in_tenant,
    runs.c.parent == given("parent"),
    runs.c.parent != EMPTY,  # as the index says, so that Postgres sees that it fits
)


def _rows(*along: ColumnElement[bool]) -> Select[Any]:
    in_order = select(runs.c.tenant, *HEADER).where(*along, behind(runs.c.age, runs.c.id))
    return in_order.order_by(runs.c.age, runs.c.id)


def _is_wanted(run: Subquery) -> ColumnElement[bool]:
    parent, before = given("parent", Text), given("before", BigInteger)
    return and_(
        or_(parent.is_(None), run.c.parent == parent),
        or_(before.is_(None), run.c.updated < before),
        bears_all(RUNS, run, "id"),
    )


ALL_RUNS = Statement(
    select(*HEADER)
    .where(_in_tenant, behind(runs.c.age, runs.c.id))
    .order_by(runs.c.age, runs.c.id)
    .limit(given("most"))
)
_FITTING = filtered(_rows(_in_tenant), "id", _is_wanted)
_FITTING_OF_PARENT = filtered(_rows(*_of_parent), "id", _is_wanted)
_FITTING_WITH_LABEL = filtered(along_label(runs, "id", HEADER), "id", _is_wanted)
_few: Select[Any] = select(runs.c.id).where(*_of_parent).limit(given("most"))
_COUNT_OF_PARENT = Statement(select(func.count()).select_from(_few.subquery()))


class PostgresRunStore:
    """Keeps runs of a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        at, tenant = micros(request.at), self._tenant
        new = NewRun(request.run_id, created=at, updated=at, labels=request.labels)
        for _ in range(TRIES):
            row = await tenant.storage.write_once(
                lambda connection: enter(connection, tenant.name, new)
            )
            if row is not None:
                return CreateRunResponse(run_id=request.run_id, created=row[1] is not None)
            await tenant.enter()
        raise StoreUnavailableError("the tenant is erased again and again; nothing was applied")

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        run = await self._find(request.run_id)
        info = None if run is None else header(run)
        return GetRunResponse(info=info, found=info is not None)

    async def _find(self, run_id: str) -> StoredRun | None:
        self.entries_read += 1
        row = await self._tenant.storage.read_once(
            lambda connection: FIND.one(connection, name=self._tenant.name, id=run_id)
        )
        return None if row is None else StoredRun._make(row)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = [encode(message).decode() for message in request.messages]
        expected = request.expected_count, request.expected_events
        return await self._append(request, messages, expected, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        expected = request.expected_messages, request.expected_count
        return await self._append(request, [], expected, AppendEventsResponse)

    async def _append(
        self,
        request: AppendMessagesRequest | AppendEventsRequest,
        messages: list[str],
        expected: tuple[int | None, int | None],
        answer: type[A],
    ) -> A:
        events = [encode(event).decode() for event in request.events]
        if not messages and not events:
            return counted(answer, await self._find(request.run_id))
        tenant, key = self._tenant, request.idempotency_key
        values: dict[str, Any] = {
            "name": tenant.name, "id": request.run_id, "updated": micros(request.at),
            "messages": messages, "messages_more": len(messages), "expected_messages": expected[0],
            "events": events, "events_more": len(events), "expected_events": expected[1],
        }  # fmt: skip
        if key:
            values |= {"key": key, "digest": request.digest}
        append = APPEND_KEYED if key else APPEND
        for _ in range(TRIES):
            try:
                row = await tenant.storage.write_once(
                    lambda connection: append.one(connection, **values)
                )
            except StoreUnavailableError as error:
                if not is_duplicate(error):
                    raise
                row = None
            if row is not None:
                return answer(found=True, applied=True, message_count=row[0], event_count=row[1])
            # Nothing was written. Why not is for another statement to see, which waits for nobody.
            run, known = await tenant.storage.read_once(
                lambda connection: find_with_key(connection, tenant.name, request.run_id, key)
            )
            if known is not None:
                return repeated(answer, known, request.digest)
            if run is None or not run.has_lengths(*expected):
                return counted(answer, run, conflict=run is not None)
            if not run.message_log:
                await join_ranges(tenant, request.run_id)
        raise StoreUnavailableError(f"others were in the way {TRIES} times; nothing was applied")

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        last_messages, last_events = request.last_messages, request.last_events
        if last_events is None:
            last_events = BEYOND if last_messages is None else 0
        if last_messages is None:
            last_messages = BEYOND
        found = await self._read(request.run_id, Part(last=last_messages), Part(last=last_events))
        if found is None:
            return LoadRunResponse(found=False)
        run, (messages, events) = found
        check_load(map(len, messages + events))
        starts = run.message_count - len(messages), run.event_count - len(events)
        loaded = Run(
            **header(run).__dict__,
            messages=tuple(decode_messages(messages, id=run.id, start=starts[0])),
            events=tuple(decode_events(events, id=run.id, start=starts[1])),
        )
        return LoadRunResponse(run=loaded, found=True)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        part = Part.page(request.start, request.limit)
        found = await self._read(request.run_id, part, NOTHING, paged=True)
        if found is None:
            return ReadMessagesResponse(found=False)
        run, (texts, _) = found
        check_start(request.start, run.message_count)
        del texts[page_length(map(len, texts)) :]
        entries = tuple(decode_messages(texts, id=run.id, start=request.start))
        following = request.start + len(entries)
        return ReadMessagesResponse(
            entries=entries, next=following, count=run.message_count, found=True
        )

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        part = Part.page(request.start, request.limit)
        found = await self._read(request.run_id, NOTHING, part, paged=True)
        if found is None:
            return ReadEventsResponse(found=False)
        run, (_, texts) = found
        check_start(request.start, run.event_count)
        del texts[page_length(map(len, texts)) :]
        entries = tuple(decode_events(texts, id=run.id, start=request.start))
        following = request.start + len(entries)
        return ReadEventsResponse(
            entries=entries, next=following, count=run.event_count, found=True
        )

    async def _read(
        self, run_id: str, messages: Part, events: Part, *, paged: bool = False
    ) -> tuple[StoredRun, Texts] | None:
        name = self._tenant.name
        found = await self._tenant.storage.read_once(
            lambda connection: read(connection, name, run_id, messages, events, paged=paged)
        )
        self.entries_read += 1 if found is None else 1 + sum(map(len, found[1]))
        return found

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await fork(self._tenant, request)

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = None if request.updated_before is None else micros(request.updated_before)
        start = place_of(request.cursor)
        if before is not None:  # only what was created before can have been idle since
            start = max(start, (1 - before, ""))
        filtered_by = bool(request.labels) or request.parent_id is not None or before is not None

        async def work(connection: Connection) -> tuple[list[StoredRun], str, int]:
            if filtered_by:
                return await _fitting(connection, self._tenant.name, request, start, before)
            rows = await ALL_RUNS.all(
                connection,
                name=self._tenant.name, age=start[0], id=start[1], most=request.limit + 1,
            )  # fmt: skip
            return page(rows, StoredRun._make, request.limit, request.limit)

        storage = self._tenant.storage
        alone = len(request.labels) + (request.parent_id is not None) <= 1
        found, position, looked = await (storage.read_once if alone else storage.read)(work)
        self.entries_read += looked
        return ListRunsResponse(runs=tuple(map(header, found)), next_cursor=position)

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        if not request.labels:
            return UpdateRunResponse(found=await self._find(request.run_id) is not None)

        async def work(connection: Connection, tenant: int) -> bool:
            row = await HOLD_LABELS.one(connection, tenant=tenant, id=request.run_id)
            if row is not None:
                run = StoredRun._make(row)
                merged = merge_labels(run.named(), request.labels)
                await relabel(connection, tenant, run, merged, micros(request.at))
            return row is not None

        return UpdateRunResponse(found=await self._tenant.write(work))

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        async def work(connection: Connection, tenant: int) -> DeleteRunResponse:
            row = await HOLD.one(connection, tenant=tenant, id=request.run_id)
            if row is None:
                return DeleteRunResponse(deleted=False)
            run = StoredRun._make(row)
            if not run.has_lengths(request.expected_messages, request.expected_events):
                return DeleteRunResponse(deleted=False, conflict=True)
            used = await hold_of_run(connection, tenant, run)
            await take_away(connection, tenant, run)
            await free(connection, tenant, used, FREED_AT_ONCE)
            return DeleteRunResponse(deleted=True)

        return await self._tenant.write(work)


async def _fitting(
    connection: Connection, tenant: str, request: ListRunsRequest, start: Place, before: int | None
) -> tuple[list[StoredRun], str, int]:
    """A page along the rarest filter given."""
    most, parent = looked_at_most(request.limit), request.parent_id
    values: dict[str, Any] = {
        "name": tenant, "age": start[0], "id": start[1], "most": most, "limit": request.limit,
        "parent": parent, "before": before,
        "keys": list(request.labels.keys()), "values": list(request.labels.values()),
    }  # fmt: skip
    walk, rarest, fewest = _FITTING, next(iter(request.labels.items()), None), most + 1
    if len(request.labels) + (parent is not None) > 1:
        rarest, fewest = await rarest_label(connection, tenant, RUNS, request.labels, most)
    if parent is not None:
        walk = _FITTING_OF_PARENT
        if rarest is not None:
            counted = await _COUNT_OF_PARENT.value(
                connection, name=tenant, parent=parent, most=most
            )
            rarest = rarest if counted > fewest else None
    if rarest is not None:
        walk = _FITTING_WITH_LABEL
        values |= {"store": RUNS, "key": rarest[0], "value": rarest[1]}
    rows = await walk.all(connection, **values)
    return page_of(rows, StoredRun._make, request.limit, most)
