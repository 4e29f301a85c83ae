"""The run store in Redis."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import TypeVar

from stores_core.codec import decode_events, decode_messages
from stores_core.errors import StoreError
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
from stores_redis.forking import fork
from stores_redis.keys import Place
from stores_redis.logs import TRIES, RunChangedError, gone_meanwhile, read_entries
from stores_redis.merging import list_page
from stores_redis.places import Places
from stores_redis.run_rows import (
    ALL,
    NONE,
    Found,
    Wanted,
    expected_arg,
    find,
    label_args,
    new_token,
)
from stores_redis.scripts import Script

A = TypeVar("A", bound=AppendResponse)
T = TypeVar("T")

_CREATE = Script("create_run")
_UPDATE = Script("update_run")


class RedisRunStore:
    """Keeps runs of a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, places: Places) -> None:
        self._tenant, self._places = places.tenant, places
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        home = self._places.home(request.run_id)
        args = (
            home.bucket.tag, request.run_id, micros(request.at), new_token(),
            len(request.labels), *label_args(request.labels.items()),
        )  # fmt: skip
        for _ in range(TRIES):
            [status] = await self._tenant.run(_CREATE, [home.run, home.keys], args, writes=True)
            if status == b"away" and (await self._places.look(home.id)).lineage is None:
                continue  # the run that it was claimed for is gone
            return CreateRunResponse(run_id=home.id, created=status == b"created")
        raise gone_meanwhile()

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        self.entries_read += 1
        found = await self._find(request.run_id)
        return GetRunResponse(info=found.run.info() if found else None, found=found is not None)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.messages or request.events:
            return await self._appended(request, AppendMessagesResponse)
        return await self._counted(request.run_id, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        if request.events:
            return await self._appended(request, AppendEventsResponse)
        return await self._counted(request.run_id, AppendEventsResponse)

    async def _appended(
        self, request: AppendMessagesRequest | AppendEventsRequest, answer: type[A]
    ) -> A:
        async def at_place(place: Place) -> A | None:
            response = await append(self._tenant, place, request, answer)
            return response if response.found else None

        return await self._places.at(request.run_id, at_place) or answer(found=False)

    async def _find(self, run_id: str) -> Found | None:
        """A run's header."""
        return await self._places.at(run_id, lambda place: find(self._tenant, place))

    async def _counted(self, run_id: str, answer: type[A]) -> A:
        """The answer to an empty batch."""
        found = await self._find(run_id)
        if found is None:
            return answer(found=False)
        run = found.run
        return answer(found=True, message_count=run.messages.count, event_count=run.events.count)

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        response = await _until_unchanged(
            lambda: self._places.at(request.run_id, lambda place: self._load(place, request))
        )
        if response is None:
            self.entries_read += 1
            return LoadRunResponse(found=False)
        return response

    async def _load(self, place: Place, request: LoadRunRequest) -> LoadRunResponse | None:
        messages = _newest(request.last_messages, ALL)
        events = _newest(request.last_events, ALL if request.last_messages is None else NONE)
        found = await find(self._tenant, place, messages, events, entries=True)
        if found is None:
            return None
        run = found.run
        starts = load_starts(request, run.messages.count, run.events.count)
        rows = [*found.message_rows, *found.event_rows]
        parts = await read_entries(self._tenant, place, run, rows, refuse=check_load)
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
        found = await self._read_page(request, "messages")
        if found is None:
            return ReadMessagesResponse(found=False)
        texts, count = found
        entries = tuple(decode_messages(texts, id=request.run_id, start=request.start))
        return ReadMessagesResponse(
            entries=entries, next=request.start + len(entries), count=count, found=True
        )

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        found = await self._read_page(request, "events")
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

        async def at_place(place: Place) -> tuple[list[bytes], int] | None:
            return await self._page_at(place, request, log)

        self.entries_read += 1
        return await _until_unchanged(lambda: self._places.at(request.run_id, at_place))

    async def _page_at(
        self, place: Place, request: ReadMessagesRequest | ReadEventsRequest, log: str
    ) -> tuple[list[bytes], int] | None:
        wanted = request.start, request.limit
        of = (wanted, NONE) if log == "messages" else (NONE, wanted)
        found = await find(self._tenant, place, *of, entries=True)
        if found is None:
            return None
        is_message = log == "messages"
        count = (found.run.messages if is_message else found.run.events).count
        check_start(request.start, count)
        rows = found.message_rows if is_message else found.event_rows
        parts = await read_entries(self._tenant, place, found.run, rows, ahead=2, enough=PAGE_BYTES)
        texts = list(chain.from_iterable(parts))
        if len(parts) == len(rows):
            texts += found.messages if is_message else found.events
        texts = texts[: page_length(map(len, texts))]
        self.entries_read += len(texts)
        return texts, count

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await fork(self._places, request)

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        page = await list_page(self._places, request)
        self.entries_read += page.looked
        runs = tuple(run.info() for run in page.runs)
        return ListRunsResponse(runs=runs, next_cursor=page.position)

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        async def at_place(place: Place) -> bool | None:
            args = (
                place.bucket.tag, place.member, micros(request.at), MAX_LABELS,
                *label_args(request.labels.items()),
            )  # fmt: skip
            status, *told = await self._tenant.run(_UPDATE, [place.run], args, writes=True)
            if status == b"many":
                raise too_many_labels(int(told[0]))
            return status == b"updated" or None

        return UpdateRunResponse(found=await self._places.at(request.run_id, at_place) or False)

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        expected = expected_arg(request.expected_messages), expected_arg(request.expected_events)

        async def at_place(place: Place) -> bytes | None:
            status = await self._places.remove(place, expected)
            if status == b"deleted" and place.token:
                with suppress(StoreError):  # the run is gone; whoever meets the claim sees to it
                    await self._places.drop_claim(place)
            return None if status == b"unknown" else status

        status = await self._places.at(request.run_id, at_place)
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
