"""Workers: each does its plan call by call and records what it sent, when, and what was said."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic, monotonic_ns
from typing import Any

from conformance_tests.histories.planning import Step, plan
from conformance_tests.histories.reading import answer_of
from conformance_tests.histories.recording import (
    FOREVER,
    LAST_LOOK,
    LIFE,
    Answer,
    Outcome,
    Record,
    Sent,
)
from stores_core import (
    Backend,
    Event,
    InvalidRequestError,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
)


class Worker:
    """One task, which does one thing at a time but where the plan says to do two at once."""

    def __init__(self, name: str, clients: Sequence[Backend]) -> None:
        self.name = name
        self.records: list[Record] = []
        self._clients = clients
        self._number = 0
        self._label_epoch = 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._keyed: tuple[str, Sent] | None = None
        self._tails: dict[tuple[str, str], int] = {}

    async def work(self, steps: Iterator[Step], until: float) -> None:
        """Do the steps, or those that there is time for: ``until`` is on the monotonic clock."""
        for step in steps:
            if monotonic() > until:
                return
            for _ in range(step.turns):
                await asyncio.sleep(0)
            self._number += 1
            await getattr(self, f"_{step.operation}")(step)

    async def _create(self, step: Step) -> None:
        sent = Sent(life=self._unique)
        call = self._runs(step).create_run(run_id=step.run_id, labels={LIFE: sent.life})
        await self._send("create", step, sent, call)

    async def _append(self, step: Step) -> None:
        await self._look_before(step)
        sent = self._batch(step)
        answer = await self._send("append", step, sent, self._appending(step, sent))
        if answer is None and sent.key:  # that is what keys are for
            again = self._appending(step, sent)
            await self._record("append", step.run_id, sent, again)

    async def _append_events(self, step: Step) -> None:
        await self._append(step)

    async def _append_again(self, step: Step) -> None:
        if self._keyed is None:
            await self._append(step)
            return
        run_id, sent = self._keyed
        again = replace(step, run_id=run_id)
        await self._send("append", again, sent, self._appending(again, sent))

    async def _append_twice(self, step: Step) -> None:
        sent = self._batch(step)
        self._keyed = step.run_id, sent
        await asyncio.gather(
            self._send("append", step, sent, self._appending(step, sent)),
            self._record("append", step.run_id, sent, self._appending(step, sent, other=1)),
        )

    async def _load(self, step: Step) -> None:
        call = self._runs(step).load_run(
            run_id=step.run_id, last_messages=step.newest, last_events=step.newest
        )
        await self._send("load", step, Sent(), call)

    async def _tail(self, step: Step) -> None:
        await self._read_on(step, "messages")

    async def _tail_events(self, step: Step) -> None:
        await self._read_on(step, "events")

    async def _get(self, step: Step) -> None:
        await self._send("get", step, Sent(), self._runs(step).get_run(run_id=step.run_id))

    async def _fork(self, step: Step) -> None:
        sent = Sent(new_run_id=step.new_run_id, at_message=step.at_message, life=self._unique)
        call = self._runs(step).fork_run(
            run_id=step.run_id,
            new_run_id=step.new_run_id,
            at_message=step.at_message,
            labels={LIFE: sent.life},
        )
        await self._send("fork", step, sent, call)

    async def _update(self, step: Step) -> None:
        sent = Sent(label=f"{self.name}.{self._label_epoch}", value=self._number)
        call = self._runs(step).update_run(run_id=step.run_id, labels={sent.label: str(sent.value)})
        if await self._send("update", step, sent, call) is None:
            self._label_epoch += 1  # it may still land, and on a later value

    async def _delete(self, step: Step) -> None:
        await self._look_before(step)
        expected = self._seen.get(step.run_id, (0, 0)) if step.expecting else (None, None)
        call = self._runs(step).delete_run(
            run_id=step.run_id, expected_messages=expected[0], expected_events=expected[1]
        )
        await self._send("delete", step, Sent(expected=expected), call)

    async def _look_before(self, step: Step) -> None:
        """Take the lengths to expect from the header, and let others write meanwhile."""
        if step.expecting and step.looks:
            await self._get(replace(step, cancel_after=None))
            await asyncio.sleep(0)

    @property
    def _unique(self) -> str:
        return f"{self.name}.{self._number}"

    def _runs(self, step: Step, other: int = 0) -> Any:
        return self._clients[(step.client + other) % len(self._clients)].runs

    def _batch(self, step: Step) -> Sent:
        messages, events = self._seen.get(step.run_id, (0, 0))
        if step.expecting == "both":
            expected = messages, events
        elif step.expecting:
            of_messages = (step.expecting == "own") == (step.messages > 0)
            expected = (messages, None) if of_messages else (None, events)
        else:
            expected = None, None
        return Sent(
            batch=self._unique,
            messages=step.messages,
            events=step.events,
            key=self._unique if step.keyed else "",
            expected=expected,
        )

    def _appending(self, step: Step, sent: Sent, other: int = 0) -> Coroutine[Any, Any, Any]:
        runs = self._runs(step, other)
        events = [Event(kind="e", text=f"{sent.batch}/{n}") for n in range(sent.events)]
        if not sent.messages:
            return runs.append_events(
                run_id=step.run_id,
                events=events,
                expected_messages=sent.expected[0],
                expected_count=sent.expected[1],
                idempotency_key=sent.key,
            )
        return runs.append_messages(
            run_id=step.run_id,
            messages=[Message(role="r", text=f"{sent.batch}/{n}") for n in range(sent.messages)],
            events=events,
            expected_count=sent.expected[0],
            expected_events=sent.expected[1],
            idempotency_key=sent.key,
        )

    async def _read_on(self, step: Step, log: str) -> None:
        at = (step.run_id, log)
        sent = Sent(start=self._tails.get(at, 0), limit=7)
        read = getattr(self._runs(step), f"read_{log}")
        call = read(run_id=step.run_id, start=sent.start, limit=sent.limit)
        answer = await self._send(f"read_{log}", step, sent, call)
        part = None if answer is None else getattr(answer, log)
        self._tails[at] = 0 if part is None else part[0] + len(part[1])

    async def _send(
        self, operation: str, step: Step, sent: Sent, call: Coroutine[Any, Any, Any]
    ) -> Answer | None:
        answer = await self._record(operation, step.run_id, sent, call, step.cancel_after)
        if answer is not None and None not in answer.counts:
            messages, events = answer.counts
            self._seen[step.run_id] = (messages or 0, events or 0)
        return answer

    async def _record(
        self,
        operation: str,
        run_id: str,
        sent: Sent,
        call: Coroutine[Any, Any, Any],
        cancel_after: float | None = None,
    ) -> Answer | None:
        answer, error = None, ""
        called = monotonic_ns()
        try:
            response = await (call if cancel_after is None else _cut(call, cancel_after))
            outcome = Outcome.UNKNOWN if response is None else Outcome.OK
            returned = monotonic_ns()
            answer = None if response is None else answer_of(operation, sent, response)
        except InvalidRequestError as refusal:
            returned, outcome, error = monotonic_ns(), Outcome.REFUSED, f"refused: {refusal}"
        except StoreUnavailableError:
            returned, outcome = monotonic_ns(), Outcome.FAILED
        except OutcomeUnknownError:
            returned, outcome = FOREVER, Outcome.UNKNOWN
        except Exception as fault:
            returned, outcome = FOREVER, Outcome.BROKEN
            error = f"{type(fault).__name__}: {fault}"
        self.records.append(
            Record(
                worker=self.name,
                operation=operation,
                run_id=run_id,
                called=called,
                returned=FOREVER if outcome is Outcome.UNKNOWN else returned,
                outcome=outcome,
                sent=sent,
                answer=answer,
                error=error,
            )
        )
        return answer

    async def look(self, run_ids: Sequence[str]) -> None:
        """Read all of these runs, each in every way there is."""
        for number, run_id in enumerate(run_ids):
            runs = self._clients[number % len(self._clients)].runs
            await self._record("get", run_id, Sent(), runs.get_run(run_id=run_id))
            for log in ("messages", "events"):
                start = 0
                while True:
                    sent = Sent(start=start, limit=1_000)
                    call = getattr(runs, f"read_{log}")(run_id=run_id, start=start, limit=1_000)
                    answer = await self._record(f"read_{log}", run_id, sent, call)
                    part = None if answer is None else getattr(answer, log)
                    if part is None or len(part[1]) < sent.limit:
                        break
                    start += len(part[1])
            await self._record("load", run_id, Sent(), runs.load_run(run_id=run_id))


async def _cut(call: Coroutine[Any, Any, Any], after: float) -> Any:
    """What a call answers that is cancelled after so many seconds; None where it was cut off."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=after)
    finally:
        task.cancel()
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def drive(
    clients: Sequence[Backend],
    *,
    prefix: str,
    workers: Sequence[int],
    of: int,
    steps: int,
    seed: int,
    mix: str = "everything",
    seconds: float = 600,
) -> list[Record]:
    """The records of these of ``of`` workers, all at once, with ``steps`` steps for each.

    They end early where ``seconds`` are over.
    """
    team = [Worker(str(number), clients) for number in workers]
    until = monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for number, worker in zip(workers, team, strict=True):
            own = islice(plan(seed, number, of, prefix, mix), steps)
            group.create_task(worker.work(own, until))
    return [record for worker in team for record in worker.records]


async def last_look(clients: Sequence[Backend], records: Sequence[Record]) -> list[Record]:
    """The records of reading every run that the records speak of, now that nobody writes."""
    worker = Worker(LAST_LOOK, clients)
    named = {record.run_id for record in records}
    named |= {record.sent.new_run_id for record in records}
    await worker.look(sorted(named - {""}))
    return worker.records
