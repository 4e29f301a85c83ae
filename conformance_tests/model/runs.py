"""Runs as plain lists."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from conformance_tests.model.refused import Refused
from stores_core.codec import canonical
from stores_core.entries import Event, Message
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

KEYS_KEPT = 128
MOST_LABELS = 64
PAGE, MOST = 100, 1_000

Entry = TypeVar("Entry", Message, Event)
Answer = TypeVar("Answer", bound=AppendResponse)


@dataclass
class Batch:
    """A keyed batch: what was sent, as text, and the counts that its first answer had."""

    sent: str
    counts: tuple[int, int]


@dataclass
class Line:
    """One run. ``generation`` tells it from others that bore its id."""

    id: str
    created_at: datetime
    updated_at: datetime
    generation: int
    labels: dict[str, str]
    messages: list[Message] = field(default_factory=list[Message])
    events: list[Event] = field(default_factory=list[Event])
    parent_id: str = ""
    fork_point: int = 0
    keyed: dict[str, Batch] = field(default_factory=dict[str, Batch])

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.messages), len(self.events)

    def info(self) -> RunInfo:
        return RunInfo(
            id=self.id,
            parent_id=self.parent_id,
            fork_point=self.fork_point,
            created_at=self.created_at,
            updated_at=self.updated_at,
            labels=dict(sorted(self.labels.items())),
            message_count=len(self.messages),
            event_count=len(self.events),
        )


class Runs:
    """Runs by id."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self._generations = itertools.count(1)

    def create_run(self, request: CreateRunRequest, at: datetime) -> CreateRunResponse:
        """``run_id`` is not empty: a generated one is only known from the answer."""
        created = request.run_id not in self.lines
        if created:
            self.lines[request.run_id] = Line(
                request.run_id, at, at, next(self._generations), dict(request.labels)
            )
        return CreateRunResponse(run_id=request.run_id, created=created)

    def get_run(self, request: GetRunRequest) -> GetRunResponse:
        line = self.lines.get(request.run_id)
        return GetRunResponse(info=line.info() if line else None, found=line is not None)

    def append_messages(
        self, request: AppendMessagesRequest, at: datetime
    ) -> AppendMessagesResponse:
        lengths = request.expected_count, request.expected_events
        batch = request.messages, request.events
        return self._append(request, lengths, batch, at, AppendMessagesResponse)

    def append_events(self, request: AppendEventsRequest, at: datetime) -> AppendEventsResponse:
        lengths = request.expected_messages, request.expected_count
        return self._append(request, lengths, ((), request.events), at, AppendEventsResponse)

    def _append(
        self,
        request: AppendMessagesRequest | AppendEventsRequest,
        lengths: tuple[int | None, int | None],
        batch: tuple[Sequence[Message], Sequence[Event]],
        at: datetime,
        answer: type[Answer],
    ) -> Answer:
        line, key = self.lines.get(request.run_id), request.idempotency_key
        if line is None:
            return answer(found=False)
        messages, events = batch
        if not messages and not events:
            return _answered(answer, line.counts)
        sent = canonical([list(messages), list(events)])
        known = line.keyed.get(key) if key else None
        if known is not None:
            if known.sent != sent:
                raise Refused("the key came with another batch before")
            return _answered(answer, known.counts)
        if not _fit(line, *lengths):
            return _answered(answer, line.counts, conflict=True)
        line.messages += [_stamped(message, at) for message in messages]
        line.events += events
        line.updated_at = at
        if key:
            line.keyed[key] = Batch(sent, line.counts)
        return _answered(answer, line.counts, applied=True)

    def is_forgettable(self, run_id: str, key: str) -> bool:
        """Whether a store may have forgotten the key, so that either answer is right."""
        line = self.lines.get(run_id)
        return line is not None and key in list(line.keyed)[:-KEYS_KEPT]

    def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        line = self.lines.get(request.run_id)
        if line is None:
            return LoadRunResponse(found=False)
        last_messages, last_events = request.last_messages, request.last_events
        if last_events is None and last_messages is not None:
            last_events = 0
        run = Run(
            **line.info().__dict__,
            messages=tuple(_last(line.messages, last_messages)),
            events=tuple(_last(line.events, last_events)),
        )
        return LoadRunResponse(run=run, found=True)

    def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        line = self.lines.get(request.run_id)
        if line is None:
            return ReadMessagesResponse(found=False)
        entries, following = _page(line.messages, request.start, request.limit)
        count = len(line.messages)
        return ReadMessagesResponse(entries=entries, next=following, count=count, found=True)

    def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        line = self.lines.get(request.run_id)
        if line is None:
            return ReadEventsResponse(found=False)
        entries, following = _page(line.events, request.start, request.limit)
        count = len(line.events)
        return ReadEventsResponse(entries=entries, next=following, count=count, found=True)

    def fork_run(self, request: ForkRunRequest, at: datetime) -> ForkRunResponse:
        """``new_run_id`` is not empty, as in create_run."""
        source = self.lines.get(request.run_id)
        standing = self.lines.get(request.new_run_id)
        created = source is not None and standing is None
        if source is not None and standing is None:
            cut = request.at_message
            whole = cut <= 0 or cut >= len(source.messages)
            messages = source.messages[:] if whole else source.messages[:cut]
            labels = source.labels if request.labels is None else request.labels
            standing = self.lines[request.new_run_id] = Line(
                id=request.new_run_id,
                created_at=at,
                updated_at=at,
                generation=next(self._generations),
                labels=dict(labels),
                messages=messages,
                events=source.events[:] if whole else [],
                parent_id=source.id,
                fork_point=len(messages),
            )
        return ForkRunResponse(
            run_id=request.new_run_id,
            found=source is not None,
            created=created,
            parent_id=standing.parent_id if standing else "",
            fork_point=standing.fork_point if standing else 0,
        )

    def list_runs(self, request: ListRunsRequest) -> list[RunInfo]:
        """All that the filters keep, newest first, then by id."""
        kept = [line for line in self.lines.values() if _is_wanted(line, request)]
        kept.sort(key=lambda line: line.id)
        kept.sort(key=lambda line: line.created_at, reverse=True)
        return [line.info() for line in kept]

    def update_run(self, request: UpdateRunRequest, at: datetime) -> UpdateRunResponse:
        line = self.lines.get(request.run_id)
        if line is not None and request.labels:
            labels = _merged(line.labels, request.labels)
            if len(labels) > MOST_LABELS:
                raise Refused(f"{len(labels)} labels after the merge")
            line.labels, line.updated_at = labels, at
        return UpdateRunResponse(found=line is not None)

    def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        line = self.lines.get(request.run_id)
        if line is None:
            return DeleteRunResponse(deleted=False)
        if not _fit(line, request.expected_messages, request.expected_events):
            return DeleteRunResponse(deleted=False, conflict=True)
        del self.lines[request.run_id]
        return DeleteRunResponse(deleted=True)


def _fit(line: Line, messages: int | None, events: int | None) -> bool:
    return messages in (None, len(line.messages)) and events in (None, len(line.events))


def _answered(
    answer: type[Answer],
    counts: tuple[int, int],
    *,
    applied: bool = False,
    conflict: bool = False,
) -> Answer:
    messages, events = counts
    return answer(
        found=True,
        applied=applied,
        conflict=conflict,
        message_count=messages,
        event_count=events,
    )


def _stamped(message: Message, at: datetime) -> Message:
    return message if message.timestamp else message.model_copy(update={"timestamp": at})


def _last(entries: list[Entry], count: int | None) -> list[Entry]:
    return entries if count is None else entries[max(0, len(entries) - count) :]


def _page(entries: list[Entry], start: int, limit: int) -> tuple[list[Entry], int]:
    if start > len(entries):
        raise Refused("it starts beyond the end")
    page = entries[start : start + min(limit or PAGE, MOST)]
    return page, start + len(page)


def _is_wanted(line: Line, request: ListRunsRequest) -> bool:
    before = request.updated_before
    return (
        request.parent_id in (None, line.parent_id)
        and all(line.labels.get(key) == value for key, value in request.labels.items())
        and (before is None or (line.created_at < before and line.updated_at < before))
    )


def _merged(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = dict(labels)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
