"""The run store in files."""

import contextlib
import dataclasses
import secrets
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from stores_core.codec import decode_events, decode_messages, encode
from stores_core.errors import StoreError
from stores_core.keys import repeated
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
from stores_core.values import merge_labels, micros
from stores_files.commits import EVENTS, MESSAGES, Batch
from stores_files.failures import nothing_applied, perhaps_applied
from stores_files.gathering import Gathering
from stores_files.headers import Header, as_json
from stores_files.layout import HEADER, RUNS, TRASH
from stores_files.listing import Entry, line_of
from stores_files.logs import append, free, journals_of, new_id, seal
from stores_files.making import claim, forked
from stores_files.names import name_of
from stores_files.places import Place, remove_folder, replace
from stores_files.run_folders import RunFolder
from stores_files.storage import Tenant

A = TypeVar("A", bound=AppendResponse)

Append = tuple[AppendMessagesRequest | AppendEventsRequest, list[bytes], list[bytes], type[Any]]
"""A request, its messages and events as text, and the class of its answer."""


class FileRunStore:
    """Keeps runs of a tenant. Used bare, without a Backend, it skips all checks.

    ``entries_read`` counts the headers and entries looked at.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._folders, self._listing = tenant.folders, tenant.listing
        self._appends: Gathering[str, Append, AppendResponse] = Gathering(
            tenant.storage.executor, self._append_all
        )
        self.entries_read = 0

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        at = micros(request.at)
        header = Header(
            id=request.run_id,
            generation=new_id(),
            journal=new_id(),
            created=at,
            updated=at,
            labels=request.labels,
        )
        created = await self._tenant.write(lambda place: claim(place, self._tenant, header))
        return CreateRunResponse(run_id=request.run_id, created=created)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        def work(place: Place) -> GetRunResponse:
            with self._folders.entered(place, request.run_id) as run:
                return GetRunResponse(info=run.info() if run else None, found=run is not None)

        self.entries_read += 1
        return await self._tenant.read(work, GetRunResponse(found=False))

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
                lambda place: self._counts(place, request.run_id, answer), answer(found=False)
            )
        done: Any = await self._appends.do(request.run_id, (request, messages, events, answer))
        return done

    def _counts(self, place: Place, run_id: str, answer: type[A]) -> A:
        with self._folders.entered(place, run_id) as run:
            return answer(found=False) if run is None else Lengths(run).answered(answer)

    def _append_all(
        self, run_id: str, appends: Sequence[Append]
    ) -> Sequence[AppendResponse | Exception]:
        """Appends that waited for the same run: one write, one sync."""
        with nothing_applied(), contextlib.ExitStack() as stack:
            place = self._tenant.enter(stack)
            run = self._folders.enter(stack, place, run_id, alone=True) if place else None
            if place is None or run is None:
                return [answer(found=False) for *_, answer in appends]
            if run.own is not None and run.own.is_spent:
                seal(place, run)
            lengths, batches = Lengths(run), list[Batch]()
            answers: list[AppendResponse | Exception] = []
            for each in appends:
                try:
                    answers.append(lengths.taken(each, batches))
                except StoreError as error:
                    answers.append(error)
            try:
                if not batches:
                    if lengths.repeats and run.own is not None:
                        run.own.settle()
                    return answers
                if run.header.imported:
                    header = dataclasses.replace(run.header, imported=False)
                    replace(place.disk, run.folder, HEADER, as_json(header))
                    run.refresh()
                append(place, run, batches)
            except StoreError as error:
                # Duplicates promise what the first promised, so they fail with it.
                return [error] * len(appends)
            return answers

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        def work(place: Place) -> tuple[RunInfo, tuple[int, int], list[bytes], list[bytes]] | None:
            with self._folders.entered(place, request.run_id) as run:
                if run is None:
                    return None
                counts = run.count(MESSAGES), run.count(EVENTS)
                starts = load_starts(request, *counts)
                messages = run.read(MESSAGES, starts[0], counts[0])
                return run.info(), starts, messages, run.read(EVENTS, starts[1], counts[1])

        found = await self._tenant.read(work, None)
        self.entries_read += 1
        if found is None:
            return LoadRunResponse(found=False)
        info, starts, messages, events = found
        check_load(map(len, messages + events))
        self.entries_read += len(messages) + len(events)
        loaded = Run(
            **info.__dict__,
            messages=tuple(decode_messages(messages, id=info.id, start=starts[0])),
            events=tuple(decode_events(events, id=info.id, start=starts[1])),
        )
        return LoadRunResponse(run=loaded, found=True)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        page = await self._read(request, MESSAGES)
        if page is None:
            return ReadMessagesResponse(found=False)
        texts, count = page
        entries = decode_messages(texts, id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadMessagesResponse(entries=entries, next=following, count=count, found=True)

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        page = await self._read(request, EVENTS)
        if page is None:
            return ReadEventsResponse(found=False)
        texts, count = page
        entries = decode_events(texts, id=request.run_id, start=request.start)
        following = request.start + len(entries)
        return ReadEventsResponse(entries=entries, next=following, count=count, found=True)

    async def _read(
        self, request: ReadMessagesRequest | ReadEventsRequest, kind: int
    ) -> tuple[list[bytes], int] | None:
        """The texts of a page and the log's length; None where the run is unknown."""

        def work(place: Place) -> tuple[list[bytes], int] | None:
            with self._folders.entered(place, request.run_id) as run:
                if run is None:
                    return None
                count = run.count(kind)
                check_start(request.start, count)
                texts = run.read(kind, request.start, min(count, request.start + request.limit))
                return texts[: page_length(map(len, texts))], count

        page = await self._tenant.read(work, None)
        self.entries_read += 1 + (len(page[0]) if page else 0)
        return page

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        nothing = ForkRunResponse(run_id=request.new_run_id, found=False, created=False)
        return await self._tenant.read(lambda place: forked(place, self._tenant, request), nothing)

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = None if request.updated_before is None else micros(request.updated_before)
        filters: list[Hashable] = [("label", *label) for label in request.labels.items()]
        if request.parent_id is not None:
            filters.append(("parent", request.parent_id))

        def work(place: Place) -> tuple[ListRunsResponse, int]:
            infos: list[RunInfo] = []
            position, looked = request.cursor, 0

            def keep(entry: Entry) -> bool:
                nonlocal looked
                with self._folders.entered(place, entry[0]) as run:
                    if run is None or run.header.generation != entry[1]:
                        return False
                    looked += 1
                    if before is not None and run.updated >= before:
                        return False
                    if not request.labels.items() <= run.header.labels.items():
                        return False
                    infos.append(run.info())
                    return True

            while True:
                _, position, _ = self._listing.page(
                    place.folder, filters, position, request.limit - len(infos),
                    before=before, keep=keep,
                )  # fmt: skip
                full = len(infos) == request.limit
                if not position or full or filters or before is not None:
                    return ListRunsResponse(runs=infos, next_cursor=position), looked

        response, looked = await self._tenant.read(work, (ListRunsResponse(), 0))
        self.entries_read += looked
        return response

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        def work(place: Place) -> bool:
            with self._folders.entered(place, request.run_id, alone=True) as run:
                if run is not None and request.labels:
                    header = run.header
                    labels = merge_labels(header.labels, request.labels)
                    line = line_of(
                        header.id,
                        header.generation,
                        header.created,
                        labels,
                        was=header.labels,
                        parent=header.parent,
                    )
                    self._listing.add(place.folder, line)
                    header = dataclasses.replace(
                        header,
                        labels=labels,
                        imported=False,
                        updated=micros(request.at),
                        after=run.own.end if run.own else 0,
                    )
                    replace(place.disk, run.folder, HEADER, as_json(header))
                return run is not None

        return UpdateRunResponse(found=await self._tenant.read(work, otherwise=False))

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        def work(place: Place) -> DeleteRunResponse:
            with self._folders.entered(place, request.run_id, alone=True) as run:
                if run is None:
                    place.disk.sync_folder(place[RUNS])  # gone for certain
                    return DeleteRunResponse(deleted=False)
                if not Lengths(run).are(request.expected_messages, request.expected_events):
                    return DeleteRunResponse(deleted=False, conflict=True)
                remove(place, self._tenant, run)
            return DeleteRunResponse(deleted=True)

        return await self._tenant.read(work, DeleteRunResponse(deleted=False))


class Lengths:
    """The lengths and keys of a run while a group of appends is looked at, one after the other."""

    def __init__(self, run: RunFolder) -> None:
        self.messages, self.events = run.count(MESSAGES), run.count(EVENTS)
        self._keys = run.keys
        self._new_keys: dict[str, KeyRecord] = {}
        self.repeats = False

    def are(self, messages: int | None, events: int | None) -> bool:
        """Whether the logs have the lengths expected of them; None expects nothing."""
        return messages in (None, self.messages) and events in (None, self.events)

    def answered(self, answer: type[A], *, applied: bool = False, conflict: bool = False) -> A:
        return answer(
            found=True,
            applied=applied,
            conflict=conflict,
            message_count=self.messages,
            event_count=self.events,
        )

    def taken(self, append: Append, batches: list[Batch]) -> AppendResponse:
        """The answer to an append, whose batch is put among ``batches`` if it is to be written."""
        request, messages, events, answer = append
        key = request.idempotency_key
        if key:
            known = self._new_keys.get(key) or self._keys().get(key)
            if known is not None:
                self.repeats = True
                return repeated(answer, known, request.digest)
        if isinstance(request, AppendMessagesRequest):
            fits = self.are(request.expected_count, request.expected_events)
        else:
            fits = self.are(request.expected_messages, request.expected_count)
        if not fits:
            return self.answered(answer, conflict=True)
        batches.append(Batch(messages, events, micros(request.at), key, request.digest))
        self.messages += len(messages)
        self.events += len(events)
        if key:
            self._new_keys[key] = KeyRecord(
                key=key,
                digest=request.digest,
                message_count=self.messages,
                event_count=self.events,
            )
        return self.answered(answer, applied=True)


def remove(place: Place, tenant: Tenant, run: RunFolder) -> None:
    """Take a run, which is held alone, away, and free what nobody else reads."""
    disk, id = place.disk, run.header.id
    name = secrets.token_hex(8)
    disk.rename(place[RUNS], name_of(id), place[TRASH], name)
    tenant.folders.forget(place, id)
    with perhaps_applied():
        disk.sync_folder(place[RUNS])
    # What is left now is only space: sweep finishes what fails here.
    with contextlib.suppress(OSError, StoreError):
        tenant.listing.strike(place.folder, id, run.header.generation)
        remove_folder(disk, place[TRASH], name)
        for journal in journals_of(run.header):
            free(place, journal)
