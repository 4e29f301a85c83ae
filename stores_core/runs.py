"""Runs: the message log and the event log of one conversation, and the protocol that keeps them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import AwareDatetime, Field

from stores_core.entries import Event, Message
from stores_core.shape import AsTuple, Request, Response, Shape, WriteRequest
from stores_core.values import Count, Id, IdOrEmpty, LabelChanges, Labels, Position


class RunInfo(Shape):
    """A run's header. ``fork_point`` counts the messages taken over from ``parent_id``.

    ``parent_id`` is empty for a run that was created rather than forked.
    """

    id: str
    parent_id: str = ""
    fork_point: int = 0
    created_at: AwareDatetime
    updated_at: AwareDatetime
    labels: Mapping[str, str] = Field(default_factory=dict[str, str])
    message_count: int = 0
    event_count: int = 0


class Run(RunInfo):
    """A run's header with its messages and events, in order. The counts are the true ones."""

    messages: Annotated[Sequence[Message], AsTuple()] = ()
    events: Annotated[Sequence[Event], AsTuple()] = ()


class CreateRunRequest(WriteRequest):
    """``run_id`` empty: one is generated."""

    run_id: IdOrEmpty = ""
    labels: Labels = Field(default_factory=dict[str, str])


class CreateRunResponse(Response):
    """``created`` is False where the run was there already."""

    run_id: str
    created: bool


class GetRunRequest(Request):
    run_id: Id


class GetRunResponse(Response):
    info: RunInfo | None = None
    found: bool


class AppendMessagesRequest(WriteRequest):
    """One batch: messages, and events that land in the same step.

    ``expected_count`` is the length that the message log must have, ``expected_events`` that of
    the event log. ``digest`` identifies the batch as the caller sent it, before stamping; the front
    fills it in where there is a key.
    """

    run_id: Id
    messages: Annotated[Sequence[Message], AsTuple()]
    events: Annotated[Sequence[Event], AsTuple()] = ()
    expected_count: Count | None = None
    expected_events: Count | None = None
    idempotency_key: IdOrEmpty = ""
    digest: str = Field(default="", init=False)


class AppendEventsRequest(WriteRequest):
    """One batch of events.

    ``expected_count`` is the length that the event log must have, ``expected_messages`` that of
    the message log.
    """

    run_id: Id
    events: Annotated[Sequence[Event], AsTuple()]
    expected_count: Count | None = None
    expected_messages: Count | None = None
    idempotency_key: IdOrEmpty = ""
    digest: str = Field(default="", init=False)


class AppendResponse(Response):
    """What became of a batch: written T T F, duplicate T F F, empty T F F, conflict T F T,
    unknown run F F F (found, applied, conflict). The counts are the lengths after the append,
    for a duplicate those of the first time, for a conflict those found."""

    found: bool
    applied: bool = False
    conflict: bool = False
    message_count: int = 0
    event_count: int = 0


class AppendMessagesResponse(AppendResponse):
    pass


class AppendEventsResponse(AppendResponse):
    pass


class LoadRunRequest(Request):
    """``None`` stands for all messages; for events it stands for all of them with all messages
    and for none with ``last_messages``. 0 gives none."""

    run_id: Id
    last_messages: Count | None = None
    last_events: Count | None = None


class LoadRunResponse(Response):
    run: Run | None = None
    found: bool


class ReadMessagesRequest(Request):
    """``limit`` 0 is 100; above 1,000 it counts as 1,000."""

    run_id: Id
    start: Count = 0
    limit: Count = 0


class ReadMessagesResponse(Response):
    """``next`` is where to read on; it equals ``count`` when there is nothing more yet."""

    entries: Annotated[Sequence[Message], AsTuple()] = ()
    next: int = 0
    count: int = 0
    found: bool


class ReadEventsRequest(Request):
    """``limit`` 0 is 100; above 1,000 it counts as 1,000."""

    run_id: Id
    start: Count = 0
    limit: Count = 0


class ReadEventsResponse(Response):
    """``next`` is where to read on; it equals ``count`` when there is nothing more yet."""

    entries: Annotated[Sequence[Event], AsTuple()] = ()
    next: int = 0
    count: int = 0
    found: bool


class ForkRunRequest(WriteRequest):
    """``labels`` None takes over the source's; ``new_run_id`` empty asks for a generated id."""

    run_id: Id
    new_run_id: IdOrEmpty = ""
    at_message: Position = 0
    labels: Labels | None = None


class ForkRunResponse(Response):
    """``run_id`` is the new id; lineage and ``fork_point`` are of the run that stands there now."""

    run_id: str
    found: bool
    created: bool = False
    parent_id: str = ""
    fork_point: int = 0


class ListRunsRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000."""

    limit: Count = 0
    cursor: str = ""
    parent_id: Id | None = None
    labels: Labels = Field(default_factory=dict[str, str])
    updated_before: AwareDatetime | None = None


class ListRunsResponse(Response):
    runs: Annotated[Sequence[RunInfo], AsTuple()] = ()
    next_cursor: str = ""


class UpdateRunRequest(WriteRequest):
    """``labels`` are merged key by key; a value of None removes the label."""

    run_id: Id
    labels: LabelChanges


class UpdateRunResponse(Response):
    found: bool


class DeleteRunRequest(WriteRequest):
    """``expected_messages`` and ``expected_events`` are the lengths that the logs must have."""

    run_id: Id
    expected_messages: Count | None = None
    expected_events: Count | None = None


class DeleteRunResponse(Response):
    deleted: bool
    conflict: bool = False


class RunStore(Protocol):
    """Keeps runs. A batch is whole or absent, a fork is complete or absent, an id has one run.

    An implementation receives complete, valid requests: the front has checked, stamped and
    encoded everything, ``limit`` is the number to give, and no id is empty.
    """

    async def create_run(self, request: CreateRunRequest, /) -> CreateRunResponse:
        """Claim an id for a new, empty run.

        RUN-C1 An empty id asks for a generated one, which nobody can guess, no other process
            generates and which sorts by time to the millisecond; such a create always answers
            created.
        RUN-C2 A given id is claimed. Where a run stands already, the answer is created=False and
            that run stays as it is, its labels and times included.
        RUN-C3 Of any number of concurrent creates of one id exactly one is told created=True.
        RUN-C4 A create happens wholly or not at all: after an error nobody sees half a run.
        """
        ...

    async def get_run(self, request: GetRunRequest, /) -> GetRunResponse:
        """The run's header; found=False for an unknown id."""
        ...

    async def append_messages(self, request: AppendMessagesRequest, /) -> AppendMessagesResponse:
        """Add a batch at the end of the message log, with events in the same step.

        RUN-A1 Order is kept, inside a batch and from batch to batch.
        RUN-A2 An append to an unknown run writes nothing and brings no run to life.
        RUN-A3 A message without a timestamp gets the store's; a given one is kept. Events are kept
            as they are.
        RUN-A4 A batch is there whole or not at all, and in one piece: batches of concurrent
            writers do not interleave, each acknowledged entry is there exactly once, and each
            writer's batches keep their order.
        RUN-A5 The counts in the answer are the lengths of both logs after the append.
        RUN-A6 With expected_count, a log of another length (the message log here, the event log in
            append_events) is a conflict: nothing is written and the counts are those found. Of
            appends that race with one expected_count, one wins.
        RUN-A7 With idempotency_key, sending a batch again writes nothing and answers as a
            duplicate with the counts of the first time, for the run's latest 128 keyed batches at
            least, also when both are under way at once, and whatever lengths are expected. A run
            has one key space for both operations and a fork starts with none. The same key with
            another batch is an InvalidRequestError, also where a length is not as expected.
            Conflicts, unknown runs and empty batches use no key up. A duplicate's answer promises
            the durability that the first one did.
        RUN-A8 A batch without messages and events changes nothing and still reports found and the
            counts, whatever key or expected length it carries.
        RUN-A11 With expected_events (in append_events: expected_messages) the other log must have
            that length too: a batch is written where every length given is the one found, and is
            a conflict otherwise. So a writer can tell whether anything came since it read.
        RUN-A10 Events given with messages land in the same step: one turn, one commit.
        """
        ...

    async def append_events(self, request: AppendEventsRequest, /) -> AppendEventsResponse:
        """Add a batch at the end of the event log; all of append_messages holds for it.

        RUN-A9 The event log is independent of the message log: neither moves the other's count.
        """
        ...

    async def load_run(self, request: LoadRunRequest, /) -> LoadRunResponse:
        """The header with all entries, or with the newest ones.

        RUN-L1 A load shows one instant of one run: whole batches, in order, and never a mix of
            two runs that bore the id one after the other.
        RUN-L2 last_messages=n gives the newest n in order at a cost that follows n, last_events
            likewise; the counts are always the true ones.
        """
        ...

    async def read_messages(self, request: ReadMessagesRequest, /) -> ReadMessagesResponse:
        """A page of the message log, oldest first.

        RUN-L3 start is the position of the first entry wanted, which is the number already seen;
            next is start plus the entries given, and next == count means nothing more yet. So a
            surface that reconnects replays just what it missed, and a tail never passes over an
            entry that becomes visible late. A start beyond count is refused: nobody can have seen
            so much of this run, so another one bore the id then.
        """
        ...

    async def read_events(self, request: ReadEventsRequest, /) -> ReadEventsResponse:
        """A page of the event log, oldest first; RUN-L3 holds for it."""
        ...

    async def fork_run(self, request: ForkRunRequest, /) -> ForkRunResponse:
        """Start a new run as a prefix of another, in one step.

        RUN-F1 at_message above 0 takes that many first messages; 0 or below takes all, and so
            does a number at or past the end.
        RUN-F2 Events come along only when all messages do.
        RUN-F3 fork_point is the number of messages that came along, in the answer and on the new
            run, beside parent_id; created_at is the moment of the fork; the labels are the
            source's unless some are given.
        RUN-F4 found speaks of the source, created of this call, and parent_id and fork_point of
            the run that now stands at the new id (empty and 0 where none does). Forking an
            unknown source brings nothing to life.
        RUN-F5 A new_run_id that is taken, the source's own included, gives created=False and no
            copy. The run there stays as it is, and its lineage in the answer lets a caller tell
            an earlier success of its own from a stranger's run.
        RUN-F6 Parent and fork go their own ways in both directions: messages, events, labels.
        RUN-F7 A fork is seen complete or not at all, whatever crashed or was cut off. So
            new_run_id is an idempotency key: after a failure a retry forks cleanly, after an
            unseen success it converges.
        RUN-F8 Of concurrent forks to one id exactly one is told created=True, and the run holds
            that fork's content alone.
        RUN-F9 Appends that race a fork land after the cut: the fork is a prefix of the source at
            one instant, of whole batches unless at_message cut one.
        RUN-F10 What a crash or a stranger left at an unclaimed id never becomes part of a run.
        RUN-F11 Forks of forks read as plain runs, 10,000 generations deep and deeper.
        RUN-F12 A fork costs the same whatever it forks, but for the rare joins named here: time,
            bytes written, bytes on the wire and storage grow neither with the length of the source
            nor with the generations before it, because prefixes are shared. A run refers to at most
            64 ranges per log; a fork that would exceed that joins neighbouring ranges by copying.
            In a line of forks that take all, each entry is copied at most log2(n) + 1 times over
            all generations.
        """
        ...

    async def list_runs(self, request: ListRunsRequest, /) -> ListRunsResponse:
        """A page of headers, newest first.

        RUN-Q1 The order is by created_at, newest first, then by id ascending, on every backend.
        RUN-Q2 Following the cursors gives every run that was there throughout exactly once,
            whatever comes and goes meanwhile, and an empty next_cursor is the end. Without
            filters pages are full, and the last one has an empty cursor also when the count
            divides evenly; with filters a page may be short.
        RUN-Q3 A cursor is opaque. One that this store, this tenant and this query did not make is
            refused.
        RUN-Q4 A page costs the page: without filters its own headers are looked at, with filters
            at most 10 x limit + 1,000 of those that the rarest filter given matches.
        RUN-Q5 parent_id lists the forks made of that id, labels filters by equality on all given,
            updated_before keeps, among runs created before it, those not updated since.
            updated_at moves with applied appends and label updates only.
        """
        ...

    async def update_run(self, request: UpdateRunRequest, /) -> UpdateRunResponse:
        """Change labels.

        RUN-U1 Labels are merged key by key and None removes one; concurrent updates of different
            keys all survive. Nothing else changes but updated_at.
        """
        ...

    async def delete_run(self, request: DeleteRunRequest, /) -> DeleteRunResponse:
        """Remove a run.

        RUN-D1 After a delete the run is unknown and unlisted; deleted says whether it was there.
        RUN-D2 Forks of a deleted run stay whole and unchanged, deleting a fork leaves its parent
            alone, and every order of deletions over a family is right. Once sweep says that
            nothing is left, the storage holds what the survivors need and no more.
        RUN-D3 The id may be created again and starts empty, with no memory of entries or keys.
        RUN-D4 An append that races a delete was acknowledged before it or answers found=False.
            Once anyone was told that the run is gone, it stays gone until the id is created again.
        RUN-D5 With expected_messages or expected_events a run of other lengths is left alone: the
            answer is deleted=False and conflict=True. So nothing that was acknowledged since the
            caller looked is deleted with it. An unknown run is no conflict.
        """
        ...
