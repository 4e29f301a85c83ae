"""Steps on runs."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.model import KEYS_KEPT
from conformance_tests.suite.play.stage import SUFFIXES, Seat, Stage, sorted_labels
from conformance_tests.suite.play.walks import Walk, whole
from stores_core import Event, Message, RunInfo
from stores_core.runs import (
    AppendEventsRequest,
    AppendMessagesRequest,
    CreateRunRequest,
    DeleteRunRequest,
    ForkRunRequest,
    GetRunRequest,
    ListRunsRequest,
    LoadRunRequest,
    ReadEventsRequest,
    ReadMessagesRequest,
    UpdateRunRequest,
)

MESSAGES = {sample.name: sample.value for sample in samples.messages}
EVENTS = {sample.name: sample.value for sample in samples.events}

Append = AppendMessagesRequest | AppendEventsRequest


class RunSteps:
    """Each method is a step. A run, label or key is named by a sample of ids or as it is.

    Messages and events are named by their samples; any other name makes one that says its number.
    ``expect_messages`` and ``expect_events`` are how far off the expected length is: 0 is right.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = 0
        self._used: set[str] = set()
        self._keyed: dict[str, list[Append]] = {}
        stage.parts["runs"] = self

    async def create(
        self,
        *,
        client: int = 0,
        run: str = "",
        labels: dict[str, str] | None = None,
        name: str = "",
    ) -> None:
        """Claim an id; without one a generated id is had, which ``name`` stands for then."""
        seat, now = self._stage.seat(client), self._stage.clock()
        request = CreateRunRequest(
            run_id=self._real(seat, run), labels={**(labels or {}), **self._stage.mark}
        )
        runs = seat.tenant.world.runs

        def oracle(answer: Any) -> Any:
            told = request.run_id or self._stage.named(seat, name, answer and answer.run_id)
            assert request.run_id or told not in runs.lines, f"the generated id {told!r} was taken"
            return runs.create_run(request.model_copy(update={"run_id": told}), now)

        await self._stage.ask(seat.backend.runs.create_run, request, oracle)

    def _real(self, seat: Seat, name: str) -> str:
        self._used.add(name)
        return self._stage.real(name, seat.tenant)

    async def append(
        self,
        *,
        client: int = 0,
        run: str,
        messages: Sequence[str] = (),
        events: Sequence[str] = (),
        expect_messages: int | None = None,
        expect_events: int | None = None,
        key: str = "",
    ) -> None:
        """Append messages, and events with them."""
        seat = self._stage.seat(client)
        lengths = self._lengths(seat, run, expect_messages, expect_events)
        request = AppendMessagesRequest(
            run_id=self._real(seat, run),
            messages=[self._message(name) for name in messages],
            events=[self._event(name) for name in events],
            expected_count=lengths[0],
            expected_events=lengths[1],
            idempotency_key=SUFFIXES.get(key, key),
        )
        await self._append(seat, request)

    async def append_events(
        self,
        *,
        client: int = 0,
        run: str,
        events: Sequence[str] = (),
        expect_messages: int | None = None,
        expect_events: int | None = None,
        key: str = "",
    ) -> None:
        """Append events alone."""
        seat = self._stage.seat(client)
        lengths = self._lengths(seat, run, expect_messages, expect_events)
        request = AppendEventsRequest(
            run_id=self._real(seat, run),
            events=[self._event(name) for name in events],
            expected_count=lengths[1],
            expected_messages=lengths[0],
            idempotency_key=SUFFIXES.get(key, key),
        )
        await self._append(seat, request)

    async def append_again(
        self,
        *,
        client: int = 0,
        run: str,
        of: str = "",
        back: int = 0,
        more: Sequence[str] = (),
        expect_messages: int | None = None,
    ) -> None:
        """Send a keyed batch once more, the run's own or that ``of`` another, or with more events.

        It is the last one but ``back``.
        """
        seat = self._stage.seat(client)
        sent = self._keyed.get(f"{id(seat.tenant)} {self._real(seat, of or run)}")
        if not sent:
            return
        first = sent[-1 - back % min(len(sent), KEYS_KEPT)]
        changes: dict[str, Any] = {"run_id": self._real(seat, run)}
        if more:
            changes["events"] = [*first.events, *(self._event(name) for name in more)]
        if expect_messages is not None and isinstance(first, AppendMessagesRequest):
            changes["expected_count"] = self._lengths(seat, run, expect_messages, None)[0]
        await self._append(seat, first.model_copy(update=changes))

    async def append_many(self, *, client: int = 0, run: str, count: int = 1) -> None:
        """So many batches of one message, each with a key of its own."""
        for _ in range(count):
            self._numbers += 1
            await self.append(client=client, run=run, messages=("m",), key=f"key {self._numbers}")

    async def _append(self, seat: Seat, request: Append) -> None:
        runs, key, now = seat.tenant.world.runs, request.idempotency_key, self._stage.clock()
        if runs.is_forgettable(request.run_id, key):
            return
        known = request.run_id in runs.lines and key in runs.lines[request.run_id].keyed
        if isinstance(request, AppendMessagesRequest):
            answer = await self._stage.ask(
                seat.backend.runs.append_messages,
                request,
                lambda _: runs.append_messages(request, now),
            )
        else:
            answer = await self._stage.ask(
                seat.backend.runs.append_events, request, lambda _: runs.append_events(request, now)
            )
        if answer is not None and key and not known:
            self._keyed.setdefault(f"{id(seat.tenant)} {request.run_id}", []).append(request)

    def _message(self, name: str) -> Message:
        self._numbers += 1
        return MESSAGES.get(name) or Message(role="user", text=f"{name} {self._numbers}")

    def _event(self, name: str) -> Event:
        self._numbers += 1
        return EVENTS.get(name) or Event(kind="text-delta", text=f"{name} {self._numbers}")

    def _lengths(
        self, seat: Seat, run: str, messages: int | None, events: int | None
    ) -> tuple[int | None, int | None]:
        line = seat.tenant.world.runs.lines.get(self._real(seat, run))
        counts = line.counts if line else (0, 0)
        return _off(counts[0], messages), _off(counts[1], events)

    async def load(
        self,
        *,
        client: int = 0,
        run: str,
        last_messages: int | None = None,
        last_events: int | None = None,
    ) -> None:
        """Load a run, or the newest of it."""
        seat = self._stage.seat(client)
        request = LoadRunRequest(
            run_id=self._real(seat, run), last_messages=last_messages, last_events=last_events
        )
        runs = seat.tenant.world.runs
        await self._stage.ask(seat.backend.runs.load_run, request, lambda _: runs.load_run(request))

    async def read(
        self,
        *,
        client: int = 0,
        run: str,
        log: str = "messages",
        start: int = 0,
        limit: int = 0,
    ) -> None:
        """Read a page of messages or events; a negative ``start`` counts from behind the end."""
        seat = self._stage.seat(client)
        runs, run_id = seat.tenant.world.runs, self._real(seat, run)
        line = runs.lines.get(run_id)
        if start < 0:
            length = len(line.messages if log == "messages" else line.events) if line else 0
            start = max(0, length + 1 + start + 1)
        if log == "messages":
            asked = ReadMessagesRequest(run_id=run_id, start=start, limit=limit)
            await self._stage.ask(
                seat.backend.runs.read_messages, asked, lambda _: runs.read_messages(asked)
            )
        else:
            of_events = ReadEventsRequest(run_id=run_id, start=start, limit=limit)
            await self._stage.ask(
                seat.backend.runs.read_events, of_events, lambda _: runs.read_events(of_events)
            )

    async def fork(
        self,
        *,
        client: int = 0,
        run: str,
        to: str = "",
        at: int = 0,
        labels: dict[str, str] | None = None,
        name: str = "",
    ) -> None:
        """Fork a run; without ``to`` a generated id is had, which ``name`` stands for then."""
        seat, now = self._stage.seat(client), self._stage.clock()
        request = ForkRunRequest(
            run_id=self._real(seat, run),
            new_run_id=self._real(seat, to),
            at_message=at,
            labels=None if labels is None else {**labels, **self._stage.mark},
        )
        runs = seat.tenant.world.runs

        def oracle(answer: Any) -> Any:
            told = request.new_run_id or self._stage.named(seat, name, answer and answer.run_id)
            fresh = request.new_run_id or told not in runs.lines
            assert fresh, f"the generated id {told!r} was taken"
            return runs.fork_run(request.model_copy(update={"new_run_id": told}), now)

        await self._stage.ask(seat.backend.runs.fork_run, request, oracle)

    async def descend(self, *, client: int = 0, run: str, name: str, generations: int = 1) -> None:
        """A line of forks, each of the one before after a message was added to that."""
        for _ in range(generations):
            await self.append(client=client, run=run, messages=("m",), events=("e",))
            await self.fork(client=client, run=run, name=name)
            run = name

    async def update(
        self, *, client: int = 0, run: str, labels: dict[str, str | None], many: int = 0
    ) -> None:
        """Change labels; ``many`` more make it too many."""
        seat, now = self._stage.seat(client), self._stage.clock()
        more: dict[str, str | None] = {f"label {n}": "x" for n in range(many)}
        request = UpdateRunRequest(run_id=self._real(seat, run), labels={**labels, **more})
        runs = seat.tenant.world.runs
        await self._stage.ask(
            seat.backend.runs.update_run, request, lambda _: runs.update_run(request, now)
        )

    async def delete(
        self,
        *,
        client: int = 0,
        run: str,
        expect_messages: int | None = None,
        expect_events: int | None = None,
    ) -> None:
        """Delete a run."""
        seat = self._stage.seat(client)
        lengths = self._lengths(seat, run, expect_messages, expect_events)
        request = DeleteRunRequest(
            run_id=self._real(seat, run), expected_messages=lengths[0], expected_events=lengths[1]
        )
        runs = seat.tenant.world.runs
        await self._stage.ask(
            seat.backend.runs.delete_run, request, lambda _: runs.delete_run(request)
        )

    async def list(
        self,
        *,
        client: int = 0,
        limit: int = 1,
        labels: dict[str, str] | None = None,
        parent: str | None = None,
        before: float | None = None,
        pages: int = 0,
    ) -> None:
        """List by pages of ``limit``: to the end, or so many ``pages`` and on with `list_on`.

        ``before`` is in seconds from now.
        """
        seat = self._stage.seat(client)
        runs, now = seat.tenant.world.runs, self._stage.clock()
        request = ListRunsRequest(
            limit=limit,
            labels={**(labels or {}), **self._stage.mark},
            parent_id=None if parent is None else self._real(seat, parent),
            updated_before=None if before is None else now + timedelta(seconds=before),
        )

        async def fetch(cursor: str) -> tuple[Sequence[RunInfo], str]:
            asked = request.model_copy(update={"cursor": cursor})
            answer = await seat.backend.runs.list_runs(asked)
            return [sorted_labels(info) for info in answer.runs], answer.next_cursor

        def standing() -> dict[str, int]:
            return {info.id: runs.lines[info.id].generation for info in runs.list_runs(request)}

        if pages:
            seat.tenant.walks["list_runs"] = Walk(fetch, standing)
            await self.list_on(client=client, pages=pages)
        else:
            filtered = bool(request.labels) or parent is not None or before is not None
            found = await whole(fetch, limit, full=not filtered)
            assert_same(found, runs.list_runs(request), "the listing of runs")

    async def list_on(self, *, client: int = 0, pages: int = 1) -> None:
        """So many further pages of the listing that is under way."""
        walks = self._stage.seat(client).tenant.walks
        for _ in range(pages):
            walk = walks.get("list_runs")
            if walk is not None and await walk.go_on(lambda info: info.id):
                del walks["list_runs"]

    async def compare(self, seat: Seat) -> None:
        """By header, by load and by pages; by listing; and that what is gone is gone."""
        runs, client = seat.tenant.world.runs, self._stage.seats.index(seat)
        for name in sorted(self._used - {""}):
            run_id = self._real(seat, name)
            request = GetRunRequest(run_id=run_id)
            await self._stage.ask(
                seat.backend.runs.get_run, request, lambda _, request=request: runs.get_run(request)
            )
            if run_id in runs.lines:
                await self.load(client=client, run=name)
                for log in ("messages", "events"):
                    await self.read(client=client, run=name, log=log)
        await self.list(client=client, limit=3)


def _off(count: int, by: int | None) -> int | None:
    return None if by is None else max(0, count + by)
