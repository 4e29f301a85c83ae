"""The run store in SQLite."""

from collections.abc import Iterator
from typing import TypeVar

from sqlalchemy import Select, func, select, tuple_

from stores_core.codec import decode_events, decode_messages, encode
from stores_core.keys import repeated
from stores_core.limits import looked_at_most, page_length
from stores_core.moving import KeyRecord
from stores_core.pages import check_load, check_start, load_starts
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
from stores_sql.catalog import page, place_of
from stores_sql.headers import NewRun, StoredRun, counted, header
from stores_sql.parameters import EMPTY, given
from stores_sql.sqlite.catalog import count_label
from stores_sql.sqlite.logs import free
from stores_sql.sqlite.run_rows import (
    HEADER,
    enter,
    events_of,
    find,
    grow,
    keep_keys,
    known_key,
    messages_of,
    relabel,
    take_away,
)
from stores_sql.sqlite.statements import Connection, Row, Statement
from stores_sql.sqlite.storage import Tenant
from stores_sql.sqlite.tables import RUNS, labels, runs

A = TypeVar("A", bound=AppendResponse)

_behind = tuple_(runs.c.age, runs.c.id) > tuple_(given("age"), given("id"))
ALL_RUNS = Statement(
    select(*HEADER)
    .where(runs.c.tenant == given("tenant"), _behind)
    .order_by(runs.c.age, runs.c.id)
    .limit(given("most"))
)
_of_parent = (
    runs.c.tenant == given("tenant"),
    runs.c.parent == given("parent"),
    runs.c.parent != EMPTY,  # as the index says, so that SQLite sees that it fits
)
_few: Select[tuple[str]] = select(runs.c.id).where(*_of_parent).limit(given("most"))
_OF_PARENT = Statement(
    select(*HEADER).where(*_of_parent, _behind).order_by(runs.c.age, runs.c.id).limit(given("most"))
)
_COUNT_OF_PARENT = Statement(select(func.count()).select_from(_few.subquery()))
_WITH_LABEL = Statement(
    select(*HEADER)
    .select_from(labels.join(runs, runs.c.number == labels.c.target))
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


class SqliteRunStore:
    """Keeps runs of a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        at = micros(request.at)
        new = NewRun(request.run_id, created=at, updated=at, labels=request.labels)

        def work(connection: Connection, tenant: int) -> bool:
            if find(connection, tenant, new.id) is not None:
                return False
            enter(connection, tenant, new, (0, 0))
            return True

        created = await self._tenant.write(work)
        return CreateRunResponse(run_id=request.run_id, created=created)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        def work(connection: Connection, tenant: int) -> GetRunResponse:
            run = find(connection, tenant, request.run_id)
            info = None if run is None else header(run)
            return GetRunResponse(info=info, found=info is not None)

        self.entries_read += 1
        return await self._tenant.read(work)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = [encode(message) for message in request.messages]
        return await self._append(request, messages, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        return await self._append(request, [], AppendEventsResponse)

    async def _append(
        self,
        request: AppendMessagesRequest | AppendEventsRequest,
        messages: list[bytes],
        answer: type[A],
    ) -> A:
        events = [encode(event) for event in request.events]
        if not messages and not events:
            return await self._tenant.read(
                lambda connection, tenant: counted(answer, find(connection, tenant, request.run_id))
            )
        return await self._tenant.write(
            lambda connection, tenant: _append(
                connection, tenant, request, messages, events, answer
            )
        )

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        def work(connection: Connection, tenant: int) -> tuple[LoadRunResponse, int]:
            run = find(connection, tenant, request.run_id)
            if run is None:
                return LoadRunResponse(found=False), 1
            starts = load_starts(request, run.message_count, run.event_count)
            messages = messages_of(run, tenant).read(connection, starts[0], run.message_count)
            events = events_of(run, tenant).read(connection, starts[1], run.event_count)
            check_load(map(len, messages + events))
            loaded = Run(
                **header(run).__dict__,
                messages=tuple(decode_messages(messages, id=run.id, start=starts[0])),
                events=tuple(decode_events(events, id=run.id, start=starts[1])),
            )
            return LoadRunResponse(run=loaded, found=True), 1 + len(messages) + len(events)

        response, looked = await self._tenant.read(work)
        self.entries_read += looked
        return response

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        def work(connection: Connection, tenant: int) -> ReadMessagesResponse:
            found = _read_page(connection, tenant, request, "messages")
            if found is None:
                return ReadMessagesResponse(found=False)
            texts, count = found
            entries = tuple(decode_messages(texts, id=request.run_id, start=request.start))
            return ReadMessagesResponse(
                entries=entries, next=request.start + len(entries), count=count, found=True
            )

        response = await self._tenant.read(work)
        self.entries_read += 1 + len(response.entries)
        return response

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        def work(connection: Connection, tenant: int) -> ReadEventsResponse:
            found = _read_page(connection, tenant, request, "events")
            if found is None:
                return ReadEventsResponse(found=False)
            texts, count = found
            entries = tuple(decode_events(texts, id=request.run_id, start=request.start))
            return ReadEventsResponse(
                entries=entries, next=request.start + len(entries), count=count, found=True
            )

        response = await self._tenant.read(work)
        self.entries_read += 1 + len(response.entries)
        return response

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await self._tenant.write(
            lambda connection, tenant: _fork(connection, tenant, request)
        )

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = None if request.updated_before is None else micros(request.updated_before)
        wanted, parent = dict(request.labels).items(), request.parent_id
        filtered = bool(wanted) or parent is not None or before is not None
        most = looked_at_most(request.limit) if filtered else request.limit
        start = place_of(request.cursor)
        if before is not None:  # only what was created before can have been idle since
            start = max(start, (1 - before, ""))

        def is_wanted(run: StoredRun) -> bool:
            return (
                (parent is None or run.parent == parent)
                and (before is None or run.updated < before)
                and (not wanted or wanted <= run.named().items())
            )

        def work(connection: Connection, tenant: int) -> tuple[ListRunsResponse, int]:
            rows = _walk(connection, tenant, request, start, most)
            keep = is_wanted if filtered else None
            found, position, looked = page(rows, StoredRun._make, request.limit, most, keep)
            infos = tuple(map(header, found))
            return ListRunsResponse(runs=infos, next_cursor=position), looked

        response, looked = await self._tenant.read(work)
        self.entries_read += looked
        return response

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        def work(connection: Connection, tenant: int) -> bool:
            run = find(connection, tenant, request.run_id)
            if run is not None and request.labels:
                merged = merge_labels(run.named(), request.labels)
                relabel(connection, tenant, run, merged, micros(request.at))
            return run is not None

        return UpdateRunResponse(found=await self._tenant.write(work))

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        def work(connection: Connection, tenant: int) -> DeleteRunResponse:
            run = find(connection, tenant, request.run_id)
            if run and not run.has_lengths(request.expected_messages, request.expected_events):
                return DeleteRunResponse(deleted=False, conflict=True)
            if run is not None:
                free(connection, take_away(connection, tenant, run))
            return DeleteRunResponse(deleted=run is not None)

        return await self._tenant.write(work)


def _append(
    connection: Connection,
    tenant: int,
    request: AppendMessagesRequest | AppendEventsRequest,
    messages: list[bytes],
    events: list[bytes],
    answer: type[A],
) -> A:
    run = find(connection, tenant, request.run_id)
    if run is None:
        return answer(found=False)
    key = request.idempotency_key
    known = known_key(connection, run.number, key) if key else None
    if known is not None:
        return repeated(answer, known, request.digest)
    if isinstance(request, AppendMessagesRequest):
        fits = run.has_lengths(request.expected_count, request.expected_events)
    else:
        fits = run.has_lengths(request.expected_messages, request.expected_count)
    if not fits:
        return counted(answer, run, conflict=True)
    message_view, event_view = messages_of(run, tenant), events_of(run, tenant)
    message_view.append(connection, messages)
    event_view.append(connection, events)
    counts = message_view.count, event_view.count
    key_count = run.key_count
    if key:
        record = KeyRecord(
            key=key, digest=request.digest, message_count=counts[0], event_count=counts[1]
        )
        key_count = keep_keys(connection, run.number, key_count, [record])
    grow(
        connection, run.number, message_view, event_view,
        updated=micros(request.at), key_count=key_count, imported=False,
    )  # fmt: skip
    return answer(found=True, applied=True, message_count=counts[0], event_count=counts[1])


def _read_page(
    connection: Connection,
    tenant: int,
    request: ReadMessagesRequest | ReadEventsRequest,
    log: str,
) -> tuple[list[bytes], int] | None:
    """The texts of a page and the log's length; None where the run is unknown."""
    run = find(connection, tenant, request.run_id)
    if run is None:
        return None
    view = messages_of(run, tenant) if log == "messages" else events_of(run, tenant)
    check_start(request.start, view.count)
    texts = view.read(connection, request.start, min(view.count, request.start + request.limit))
    return texts[: page_length(map(len, texts))], view.count


def _fork(connection: Connection, tenant: int, request: ForkRunRequest) -> ForkRunResponse:
    source = find(connection, tenant, request.run_id)
    standing = find(connection, tenant, request.new_run_id)
    if source is None or standing is not None:
        return ForkRunResponse(
            run_id=request.new_run_id,
            found=source is not None,
            parent_id=standing.parent if standing else "",
            fork_point=standing.fork_point if standing else 0,
        )
    whole = not 0 < request.at_message < source.message_count
    count = source.message_count if whole else request.at_message
    event_count = source.event_count if whole else 0
    new = NewRun(
        request.new_run_id,
        created=micros(request.at),
        updated=micros(request.at),
        labels=source.named() if request.labels is None else request.labels,
        parent=source.id,
        fork_point=count,
    )
    number = enter(connection, tenant, new, (count, event_count))
    messages, events = messages_of(source, tenant), events_of(source, tenant)
    messages.fork(connection, number, count)
    if event_count:
        events.fork(connection, number, event_count)
    if (messages.log, events.log) != (source.message_log, source.event_log):
        grow(
            connection, source.number, messages, events,
            updated=source.updated, key_count=source.key_count, imported=bool(source.imported),
        )  # fmt: skip
    return ForkRunResponse(
        run_id=new.id, found=True, created=True, parent_id=source.id, fork_point=count
    )


def _walk(
    connection: Connection,
    tenant: int,
    request: ListRunsRequest,
    start: tuple[int, str],
    most: int,
) -> Iterator[Row]:
    """Rows along the rarest filter given, or all, from a place on, and one beyond ``most``."""
    age, id = start
    along = {"tenant": tenant, "age": age, "id": id, "most": most + 1}
    rarest = next(iter(request.labels.items()), None)
    fewest = most + 1
    if len(request.labels) + (request.parent_id is not None) > 1:
        counts = {
            label: count_label(connection, tenant, RUNS, label, most)
            for label in request.labels.items()
        }
        rarest = min(counts, key=lambda label: counts[label])
        fewest = counts[rarest]
    if request.parent_id is not None and (
        rarest is None
        or _COUNT_OF_PARENT.value(connection, tenant=tenant, parent=request.parent_id, most=most)
        <= fewest
    ):
        return _OF_PARENT.run(connection, parent=request.parent_id, **along)
    if rarest is not None:
        return _WITH_LABEL.run(connection, store=RUNS, key=rarest[0], value=rarest[1], **along)
    return ALL_RUNS.run(connection, **along)
