"""The run store."""

import secrets
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from stores_core import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    CorruptRecordError,
    CreateRunRequest,
    CreateRunResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    GetRunResponse,
    KeyRecord,
    ListRunsRequest,
    ListRunsResponse,
    LoadRunRequest,
    LoadRunResponse,
    ReadEventsRequest,
    ReadEventsResponse,
    ReadMessagesRequest,
    ReadMessagesResponse,
    Run,
    RunInfo,
    UpdateRunRequest,
    UpdateRunResponse,
)
from stores_core.codec import decode_events, decode_messages, encode
from stores_core.keys import KEYS_KEPT, repeated
from stores_core.limits import page_length
from stores_core.pages import check_load, check_start, load_starts
from stores_core.values import from_micros, merge_labels, micros

from lmdb_stores.listing import Order, filters_of
from lmdb_stores.logs import View
from lmdb_stores.storage import Storage, Transaction, name_key

A = TypeVar("A", AppendMessagesResponse, AppendEventsResponse)


@dataclass
class StoredRun:
    """A run as it is stored. Its ``uid`` tells it from others that bore the id before."""

    id: str
    created: int
    updated: int
    labels: dict[str, str]
    parent: str = ""
    fork_point: int = 0
    uid: str = field(default_factory=lambda: secrets.token_hex(16))
    messages: View = field(default_factory=View)
    events: View = field(default_factory=View)

    @property
    def reader(self) -> bytes:
        """What stands for the run as a reader of logs."""
        return bytes.fromhex(self.uid)

    def info(self) -> RunInfo:
        return RunInfo(
            id=self.id,
            parent_id=self.parent,
            fork_point=self.fork_point,
            created_at=from_micros(self.created),
            updated_at=from_micros(self.updated),
            labels=self.labels,
            message_count=self.messages.count,
            event_count=self.events.count,
        )

    def has_lengths(self, messages: int | None, events: int | None) -> bool:
        """Whether the logs have the lengths expected of them; None expects nothing."""
        return messages in (None, self.messages.count) and events in (None, self.events.count)

    def filters(self) -> list[str]:
        return filters_of(self.labels, self.parent)

    def counts(self) -> dict[str, int]:
        return {"message_count": self.messages.count, "event_count": self.events.count}


class LmdbRunStore:
    """A RunStore. Requests come from the front: valid, complete, with limits filled in."""

    def __init__(self, storage: Storage, tenant: bytes) -> None:
        self._storage, self._tenant = storage, tenant
        self._order = Order("run_order", tenant)

    def _find(self, t: Transaction, id: str) -> StoredRun | None:
        held = t.record("runs", self._tenant + name_key(id), "runs", id)
        if held is None:
            return None
        for log in ("messages", "events"):
            ranges = [(name, length) for name, length in held[log]["ranges"]]
            held[log] = View(ranges, held[log]["own"])
        return StoredRun(**held)

    def _keep(self, t: Transaction, run: StoredRun) -> None:
        t.put_record("runs", self._tenant + name_key(run.id), asdict(run))

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        now = micros(request.at)
        new = StoredRun(request.run_id, now, now, dict(request.labels))

        def claim(t: Transaction) -> bool:
            if self._find(t, new.id) is not None:
                return False
            self._keep(t, new)
            self._order.add(t, new.created, new.id, new.filters())
            return True

        return CreateRunResponse(run_id=new.id, created=await self._storage.write(claim))

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        run = await self._storage.read(lambda t: self._find(t, request.run_id))
        return GetRunResponse(info=run.info() if run else None, found=run is not None)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = [encode(message) for message in request.messages]
        lengths = request.expected_count, request.expected_events
        return await self._append(request, messages, lengths, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        lengths = request.expected_messages, request.expected_count
        return await self._append(request, [], lengths, AppendEventsResponse)

    async def _append(
        self,
        request: AppendMessagesRequest | AppendEventsRequest,
        messages: list[bytes],
        lengths: tuple[int | None, int | None],
        answer: type[A],
    ) -> A:
        events = [encode(event) for event in request.events]

        def append(t: Transaction) -> A:
            run = self._find(t, request.run_id)
            if run is None:
                return answer(found=False)
            if not messages and not events:
                return answer(found=True, **run.counts())
            keys: dict[str, list[Any]] = {}
            if request.idempotency_key:
                keys = t.record("keys", run.reader, "runs", run.id) or {}
                if request.idempotency_key in keys:
                    digest, message_count, event_count = keys[request.idempotency_key]
                    known = KeyRecord(
                        key=request.idempotency_key,
                        digest=digest,
                        message_count=message_count,
                        event_count=event_count,
                    )
                    return repeated(answer, known, request.digest)
            if not run.has_lengths(*lengths):
                return answer(found=True, conflict=True, **run.counts())
            run.messages.append(t, run.reader, messages)
            run.events.append(t, run.reader, events)
            run.updated = micros(request.at)
            self._keep(t, run)
            if request.idempotency_key:
                keys[request.idempotency_key] = [request.digest, *run.counts().values()]
                for old in list(keys)[:-KEYS_KEPT]:
                    del keys[old]
                t.put_record("keys", run.reader, keys)
            return answer(found=True, applied=True, **run.counts())

        return await self._storage.write(append)

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        def load(t: Transaction) -> tuple[StoredRun, int, list[bytes], int, list[bytes]] | None:
            run = self._find(t, request.run_id)
            if run is None:
                return None
            counts = run.messages.count, run.events.count
            first = load_starts(request, *counts)
            messages = run.messages.read(t, first[0], counts[0])
            return run, first[0], messages, first[1], run.events.read(t, first[1], counts[1])

        loaded = await self._storage.read(load)
        if loaded is None:
            return LoadRunResponse(found=False)
        stored, first_message, messages, first_event, events = loaded
        check_load(map(len, messages + events))
        run = Run(
            **stored.info().__dict__,
            messages=decode_messages(messages, id=stored.id, start=first_message),
            events=decode_events(events, id=stored.id, start=first_event),
        )
        return LoadRunResponse(run=run, found=True)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        page = await self._page(request, "messages")
        if page is None:
            return ReadMessagesResponse(found=False)
        entries = decode_messages(page[0], id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadMessagesResponse(entries=entries, next=following, count=page[1], found=True)

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        page = await self._page(request, "events")
        if page is None:
            return ReadEventsResponse(found=False)
        entries = decode_events(page[0], id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadEventsResponse(entries=entries, next=following, count=page[1], found=True)

    async def _page(
        self, request: ReadMessagesRequest | ReadEventsRequest, log: str
    ) -> tuple[list[bytes], int] | None:
        def read(t: Transaction) -> tuple[list[bytes], int] | None:
            run = self._find(t, request.run_id)
            if run is None:
                return None
            view: View = getattr(run, log)
            check_start(request.start, view.count)
            return view.read(t, request.start, request.start + request.limit), view.count

        page = await self._storage.read(read)
        return page and (page[0][: page_length(map(len, page[0]))], page[1])

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        def fork(t: Transaction) -> ForkRunResponse:
            source = self._find(t, request.run_id)
            standing = self._find(t, request.new_run_id)
            created = source is not None and standing is None
            if source is not None and standing is None:
                standing = self._forked(t, source, request)
            return ForkRunResponse(
                run_id=request.new_run_id,
                found=source is not None,
                created=created,
                parent_id=standing.parent if standing else "",
                fork_point=standing.fork_point if standing else 0,
            )

        return await self._storage.write(fork)

    def _forked(self, t: Transaction, source: StoredRun, request: ForkRunRequest) -> StoredRun:
        source.messages.join(t, source.reader)
        source.events.join(t, source.reader)
        self._keep(t, source)
        count, now = source.messages.count, micros(request.at)
        whole = not 0 < request.at_message < count
        taken = count if whole else request.at_message
        new = StoredRun(
            id=request.new_run_id,
            created=now,
            updated=now,
            labels=dict(source.labels if request.labels is None else request.labels),
            parent=source.id,
            fork_point=taken,
            messages=source.messages.first(taken),
            events=source.events.first(source.events.count if whole else 0),
        )
        new.messages.refer(t, new.reader)
        new.events.refer(t, new.reader)
        self._keep(t, new)
        self._order.add(t, new.created, new.id, new.filters())
        return new

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = None if request.updated_before is None else micros(request.updated_before)
        filters = filters_of(request.labels, request.parent_id)

        def page(t: Transaction) -> ListRunsResponse:
            def fits(id: str) -> bool:
                run = self._found(t, id)
                return (
                    request.labels.items() <= run.labels.items()
                    and request.parent_id in (None, run.parent)
                    and (before is None or (run.updated < before and run.created < before))
                )

            keep = fits if filters or before is not None else None
            ids, following = self._order.page(t, request.cursor, request.limit, filters, keep)
            runs = [self._found(t, id).info() for id in ids]
            return ListRunsResponse(runs=runs, next_cursor=following)

        return await self._storage.read(page)

    def _found(self, t: Transaction, id: str) -> StoredRun:
        run = self._find(t, id)
        if run is None:
            raise CorruptRecordError(store="runs", id=id)
        return run

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        def update(t: Transaction) -> bool:
            run = self._find(t, request.run_id)
            if run is not None and request.labels:
                self._order.remove(t, run.created, run.id, run.filters())
                run.labels = merge_labels(run.labels, request.labels)
                self._order.add(t, run.created, run.id, run.filters())
                run.updated = micros(request.at)
                self._keep(t, run)
            return run is not None

        return UpdateRunResponse(found=await self._storage.write(update))

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        def delete(t: Transaction) -> DeleteRunResponse:
            run = self._find(t, request.run_id)
            if run is None:
                return DeleteRunResponse(deleted=False)
            if not run.has_lengths(request.expected_messages, request.expected_events):
                return DeleteRunResponse(deleted=False, conflict=True)
            run.messages.leave(t, run.reader)
            run.events.leave(t, run.reader)
            t.delete("keys", run.reader)
            t.delete("runs", self._tenant + name_key(run.id))
            self._order.remove(t, run.created, run.id, run.filters())
            return DeleteRunResponse(deleted=True)

        return await self._storage.write(delete)
