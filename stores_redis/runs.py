"""The run store in Redis."""

from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TypeVar

from stores_core.codec import decode_events, decode_messages
from stores_core.limits import PAGE_BYTES, page_length
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
from stores_core.values import MAX_LABELS, micros, too_many_labels
from stores_redis.appending import append
from stores_redis.forking import TRIES, fork
from stores_redis.listing import list_page
from stores_redis.logs import RunChangedError, gone_meanwhile, read_entries
from stores_redis.run_rows import (
    ALL,
    NONE,
    Wanted,
    expected_arg,
    find,
    label_args,
    new_token,
)
from stores_redis.scripts import Script
from stores_redis.storage import Tenant

A = TypeVar("A", bound=AppendResponse)
T = TypeVar("T")

_CREATE = Script("create_run")
_UPDATE = Script("update_run")
_DELETE = Script("delete_run")


class RedisRunStore:
    """Keeps runs of a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        bucket = self._tenant.home(request.run_id)
        args = (
            bucket.tag, request.run_id, micros(request.at), new_token(),
            len(request.labels), *label_args(request.labels.items()),
        )  # fmt: skip
        keys = [bucket.run(request.run_id), bucket.run_keys(request.run_id)]
        reply = await self._tenant.run(_CREATE, keys, args, writes=True)
        return CreateRunResponse(run_id=request.run_id, created=reply[0] == b"created")

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        self.entries_read += 1
        found = await find(self._tenant, self._tenant.home(request.run_id), request.run_id)
        return GetRunResponse(info=found.run.info() if found else None, found=found is not None)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.messages or request.events:
            bucket = self._tenant.home(request.run_id)
            return await append(self._tenant, bucket, request, AppendMessagesResponse)
        return await self._counted(request.run_id, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        if request.events:
            bucket = self._tenant.home(request.run_id)
            return await append(self._tenant, bucket, request, AppendEventsResponse)
        return await self._counted(request.run_id, AppendEventsResponse)

    async def _counted(self, run_id: str, answer: type[A]) -> A:
        """The answer to an empty batch."""
        found = await find(self._tenant, self._tenant.home(run_id), run_id)
        if found is None:
            return answer(found=False)
        run = found.run
        return answer(found=True, message_count=run.messages.count, event_count=run.events.count)

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        return await _until_unchanged(lambda: self._load(request))

    async def _load(self, request: LoadRunRequest) -> LoadRunResponse:
        bucket = self._tenant.home(request.run_id)
        messages = _newest(request.last_messages, ALL)
        events = _newest(request.last_events, ALL if request.last_messages is None else NONE)
        found = await find(self._tenant, bucket, request.run_id, messages, events, entries=True)
        if found is None:
            self.entries_read += 1
            return LoadRunResponse(found=False)
        run = found.run
        starts = load_starts(request, run.messages.count, run.events.count)
        rows = [*found.message_rows, *found.event_rows]
        parts = await read_entries(self._tenant, bucket, run, rows, refuse=check_load)
        split = len(found.message_rows)
        message_texts = [*chain.from_iterable(parts[:split]), *found.messages]
        event_texts = [*chain.from_iterable(parts[split:]), *found.events]
        self.entries_read += 1 + len(message_texts) + len(event_texts)
        loaded = Run(
            **run.info().__dict__,
            messages=tuple(decode_messages(message_texts, id=run.id, start=starts[0])),
            events=tuple(decode_events(event_texts, id=run.id, start=starts[1])),
        )
        return LoadRunResponse(run=loaded, found=True)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        found = await _until_unchanged(lambda: self._read_page(request, "messages"))
        if found is None:
            return ReadMessagesResponse(found=False)
        texts, count = found
        entries = tuple(decode_messages(texts, id=request.run_id, start=request.start))
        return ReadMessagesResponse(
            entries=entries, next=request.start + len(entries), count=count, found=True
        )

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        found = await _until_unchanged(lambda: self._read_page(request, "events"))
        if found is None:
            return ReadEventsResponse(found=False)
        texts, count = found
        entries = tuple(decode_events(texts, id=request.run_id, start=request.start))
        return ReadEventsResponse(
            entries=entries, next=request.start + len(entries), count=count, found=True
        )

    async def _read_page(
        self, request: ReadMessagesRequest | ReadEventsRequest, log: str
    ) -> tuple[list[bytes], int] | None:
        """The texts of a page and the log's length; None where the run is unknown."""
        bucket = self._tenant.home(request.run_id)
        wanted = request.start, request.limit
        of = (wanted, NONE) if log == "messages" else (NONE, wanted)
        found = await find(self._tenant, bucket, request.run_id, *of, entries=True)
        self.entries_read += 1
        if found is None:
            return None
        is_message = log == "messages"
        count = (found.run.messages if is_message else found.run.events).count
        check_start(request.start, count)
        rows = found.message_rows if is_message else found.event_rows
        parts = await read_entries(
            self._tenant, bucket, found.run, rows, ahead=2, enough=PAGE_BYTES
        )
        texts = list(chain.from_iterable(parts))
        if len(parts) == len(rows):
            texts += found.messages if is_message else found.events
        texts = texts[: page_length(map(len, texts))]
        self.entries_read += len(texts)
        return texts, count

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await fork(self._tenant, self._tenant.home(request.run_id), request)

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        page = await list_page(self._tenant, request)
        self.entries_read += page.looked
        runs = tuple(run.info() for run in page.runs)
        return ListRunsResponse(runs=runs, next_cursor=page.position)

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        bucket = self._tenant.home(request.run_id)
        args = (
            bucket.tag, request.run_id, micros(request.at), MAX_LABELS,
            *label_args(request.labels.items()),
        )  # fmt: skip
        keys = [bucket.run(request.run_id)]
        status, *told = await self._tenant.run(_UPDATE, keys, args, writes=True)
        if status == b"many":
            raise too_many_labels(int(told[0]))
        return UpdateRunResponse(found=status == b"updated")

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        bucket = self._tenant.home(request.run_id)
        keys = [bucket.run(request.run_id), bucket.run_keys(request.run_id)]
        args = (
            bucket.tag, request.run_id,
            expected_arg(request.expected_messages), expected_arg(request.expected_events),
        )  # fmt: skip
        status = (await self._tenant.run(_DELETE, keys, args, writes=True))[0]
        return DeleteRunResponse(deleted=status == b"deleted", conflict=status == b"conflict")


def _newest(count: int | None, otherwise: Wanted) -> Wanted:
    """How a script is told of the newest ``count`` entries."""
    if count is None:
        return otherwise
    return (-count, -1) if count else NONE


async def _until_unchanged(read: Callable[[], Awaitable[T]]) -> T:
    """Read again while what is read becomes another run, or its ranges others."""
    for _ in range(TRIES):
        try:
            return await read()
        except RunChangedError:
            continue
    raise gone_meanwhile()
