"""The run store in memory."""

from typing import Any, TypeVar

from stores_core.codec import decode_events, decode_messages, encode
from stores_core.in_memory.logs import View
from stores_core.in_memory.storage import StoredRun, Tenant
from stores_core.keys import KEYS_KEPT, repeated
from stores_core.limits import page_length
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
    RunInfo,
    UpdateRunRequest,
    UpdateRunResponse,
)
from stores_core.shape import EPOCH, replaced
from stores_core.values import merge_labels, micros

_NO_RUN = RunInfo(id="-", created_at=EPOCH, updated_at=EPOCH)
A = TypeVar("A", bound=AppendResponse)


class InMemoryRunStore:
    """Keeps runs in a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        tenant = self._tenant
        with tenant.lock:
            created = request.run_id not in tenant.runs
            if created:
                run = StoredRun(
                    id=request.run_id,
                    created_at=request.at,
                    updated_at=request.at,
                    labels=dict(request.labels),
                    messages=View(tenant.logs),
                    events=View(tenant.logs),
                )
                enter(tenant, run)
        return CreateRunResponse(run_id=request.run_id, created=created)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        with self._tenant.lock:
            self.entries_read += 1
            run = self._tenant.runs.get(request.run_id)
            info = None if run is None else header(run)
        return GetRunResponse(info=info, found=info is not None)

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = [encode(message) for message in request.messages]
        events = [encode(event) for event in request.events]
        with self._tenant.lock:
            return self._append(request, messages, events, AppendMessagesResponse)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        events = [encode(event) for event in request.events]
        with self._tenant.lock:
            return self._append(request, [], events, AppendEventsResponse)

    def _append(
        self,
        request: AppendMessagesRequest | AppendEventsRequest,
        messages: list[bytes],
        events: list[bytes],
        answer: type[A],
    ) -> A:
        run = self._tenant.runs.get(request.run_id)
        if run is None:
            return answer(found=False)
        if not messages and not events:
            return _answered(answer, run)
        known = run.keys.get(request.idempotency_key)
        if known is not None:
            return repeated(answer, known, request.digest)
        if isinstance(request, AppendMessagesRequest):
            fits = has_lengths(run, request.expected_count, request.expected_events)
        else:
            fits = has_lengths(run, request.expected_messages, request.expected_count)
        if not fits:
            return _answered(answer, run, conflict=True)
        run.messages.append(messages)
        run.events.append(events)
        run.updated_at = request.at
        run.imported = False
        if request.idempotency_key:
            run.keys[request.idempotency_key] = KeyRecord(
                key=request.idempotency_key,
                digest=request.digest,
                message_count=run.messages.count,
                event_count=run.events.count,
            )
            if len(run.keys) > KEYS_KEPT:
                run.keys.popitem(last=False)
        return _answered(answer, run, applied=True)

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        with self._tenant.lock:
            run = self._tenant.runs.get(request.run_id)
            if run is None:
                return LoadRunResponse(found=False)
            info = header(run)
            starts = load_starts(request, info.message_count, info.event_count)
            messages = run.messages.read(starts[0], info.message_count)
            events = run.events.read(starts[1], info.event_count)
            self.entries_read += 1 + len(messages) + len(events)
        check_load(map(len, messages + events))
        loaded = Run(
            **info.__dict__,
            messages=tuple(decode_messages(messages, id=info.id, start=starts[0])),
            events=tuple(decode_events(events, id=info.id, start=starts[1])),
        )
        return LoadRunResponse(run=loaded, found=True)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        page = self._read(request, "messages")
        if page is None:
            return ReadMessagesResponse(found=False)
        texts, count = page
        entries = decode_messages(texts, id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadMessagesResponse(entries=entries, next=following, count=count, found=True)

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        page = self._read(request, "events")
        if page is None:
            return ReadEventsResponse(found=False)
        texts, count = page
        entries = decode_events(texts, id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadEventsResponse(entries=entries, next=following, count=count, found=True)

    def _read(
        self, request: ReadMessagesRequest | ReadEventsRequest, log: str
    ) -> tuple[list[bytes], int] | None:
        with self._tenant.lock:
            run = self._tenant.runs.get(request.run_id)
            if run is None:
                return None
            view = run.messages if log == "messages" else run.events
            check_start(request.start, view.count)
            texts = view.read(request.start, min(view.count, request.start + request.limit))
            self.entries_read += 1 + len(texts)
            return texts[: page_length(map(len, texts))], view.count

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        tenant = self._tenant
        with tenant.lock:
            source = tenant.runs.get(request.run_id)
            standing = tenant.runs.get(request.new_run_id)
            created = source is not None and standing is None
            if source is not None and standing is None:
                standing = _forked(source, request)
                enter(tenant, standing)
        return ForkRunResponse(
            run_id=request.new_run_id,
            found=source is not None,
            created=created,
            parent_id=standing.parent_id if standing else "",
            fork_point=standing.fork_point if standing else 0,
        )

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        tenant, before = self._tenant, request.updated_before
        filters: list[object] = [("label", *label) for label in request.labels.items()]
        if request.parent_id is not None:
            filters.append(("parent", request.parent_id))

        def is_idle(run_id: str) -> bool:
            return before is not None and tenant.runs[run_id].updated_at < before

        with tenant.lock:
            ids, position, looked = tenant.run_catalog.page(
                filters,
                request.cursor,
                request.limit,
                before=None if before is None else micros(before),
                keep=None if before is None else is_idle,
            )
            self.entries_read += looked
            runs = [header(tenant.runs[id]) for id in ids]
        return ListRunsResponse(runs=runs, next_cursor=position)

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        tenant = self._tenant
        with tenant.lock:
            run = tenant.runs.get(request.run_id)
            if run is not None and request.labels:
                run.labels = merge_labels(run.labels, request.labels)
                run.updated_at = request.at
                run.imported = False
                enter(tenant, run)
        return UpdateRunResponse(found=run is not None)

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        tenant = self._tenant
        with tenant.lock:
            run = tenant.runs.get(request.run_id)
            if run and not has_lengths(run, request.expected_messages, request.expected_events):
                return DeleteRunResponse(deleted=False, conflict=True)
            deleted = remove(tenant, request.run_id)
        return DeleteRunResponse(deleted=deleted)


def has_lengths(run: StoredRun, messages: int | None, events: int | None) -> bool:
    """Whether the logs have the lengths expected of them; None expects nothing."""
    return messages in (None, run.messages.count) and events in (None, run.events.count)


def _answered(
    answer: type[A], run: StoredRun, *, applied: bool = False, conflict: bool = False
) -> A:
    return answer(
        found=True,
        applied=applied,
        conflict=conflict,
        message_count=run.messages.count,
        event_count=run.events.count,
    )


def _forked(source: StoredRun, request: ForkRunRequest) -> StoredRun:
    count, at = source.messages.count, request.at_message
    whole = not 0 < at < count
    messages = source.messages.fork(count if whole else at)
    labels = source.labels if request.labels is None else request.labels
    return StoredRun(
        id=request.new_run_id,
        created_at=request.at,
        updated_at=request.at,
        labels=dict(labels),
        messages=messages,
        events=source.events.fork(source.events.count if whole else 0),
        parent_id=source.id,
        fork_point=messages.count,
    )


def header(run: StoredRun) -> RunInfo:
    """The run's header, as it is handed out. The tenant's lock is held."""
    # Not checked again: a listing would spend most of its time on that.
    fields: dict[str, Any] = {
        "id": run.id,
        "parent_id": run.parent_id,
        "fork_point": run.fork_point,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "labels": dict(run.labels),
        "message_count": run.messages.count,
        "event_count": run.events.count,
    }
    return replaced(_NO_RUN, fields)


def enter(tenant: Tenant, run: StoredRun) -> None:
    """Put a run, or its changed header, where it is found and listed. The lock is held."""
    tenant.runs[run.id] = run
    filters: list[object] = [("label", *label) for label in run.labels.items()]
    if run.parent_id:
        filters.append(("parent", run.parent_id))
    tenant.run_catalog.put(run.id, micros(run.created_at), filters)


def remove(tenant: Tenant, run_id: str) -> bool:
    """Take a run away and free its logs; whether it was there. The lock is held."""
    run = tenant.runs.pop(run_id, None)
    if run is None:
        return False
    tenant.run_catalog.remove(run_id)
    run.messages.release()
    run.events.release()
    return True
