"""The one writer: sessions, notes and tool results into a backend, again without harm.

A run's id follows from its session, so a second import finds the run of the first. What stands
there is compared entry by entry: nothing new writes nothing, a session that grew gets its new
entries appended, one that was rewritten becomes a fork from where the two part. Nothing that
stands in the store is ever changed.
"""

import hashlib
from collections.abc import Callable, Mapping

from stores_cli.importing.batches import batches
from stores_cli.importing.entries import Outline, alike
from stores_cli.importing.reports import FileReport, Outcome, Written
from stores_cli.importing.sessions import Note, Result, Session
from stores_cli.importing.standing import (
    Standing,
    equal,
    first_difference,
    look,
    told_of,
)
from stores_core import Backend, RunInfo
from stores_core.codec import canonical, encode

_MAX_ID_BYTES = 512
_TRIES = 5


def run_id_of(format: str, key: str, keeps_id: bool = False) -> str:
    """The id of a session's run; a digest stands in where it would be no id."""
    run_id = key if keeps_id else f"{format}:{key}"
    if "\0" not in run_id and len(run_id.encode()) <= _MAX_ID_BYTES:
        return run_id
    return f"{format}:{hashlib.blake2b(run_id.encode(), digest_size=16).hexdigest()}"


class Writer:
    """Writes what readers yield into ``backend``; ``labels`` go onto every run it makes.

    ``progress`` hears of the entries that were written.
    """

    def __init__(
        self,
        backend: Backend,
        format: str,
        labels: Mapping[str, str],
        progress: Callable[[int], None],
    ) -> None:
        self._backend = backend
        self._progress = progress
        self._format = format
        self._labels = labels
        self._ids: dict[str, str] = {}  # of the sessions written so far
        self._file: FileReport | None = None
        self._settled: dict[str, Outline] = {}  # what runs of this file are known to hold

    async def session(self, session: Session) -> Written:
        """Bring a session in, whatever an earlier import left of it."""
        if session.account is not self._file:
            self._file, self._settled = session.account, {}
        run_id = run_id_of(self._format, session.key, session.keeps_id)
        written = await self._settle(session, run_id)
        self._ids[session.key] = written.run_id
        if written.outcome is not Outcome.CONFLICT:
            self._settled[session.key] = session.messages.outline()
        return written

    async def _settle(self, session: Session, run_id: str, new: Outcome | None = None) -> Written:
        for _ in range(_TRIES):  # another import of the same session may be under way
            info = (await self._backend.runs.get_run(run_id=run_id)).info
            if info is None:
                new = Outcome.CREATED if await self._begin(session, run_id) else new
                continue
            standing = await look(self._backend, session, info, await self._known(session, info))
            if standing.why:
                other = await self._part(session, info, standing.parts_at)
                if other:
                    return await self._settle(session, *other)
                return _written(session, info, Outcome.CONFLICT, standing.why)
            grown = await self._append(session, info, standing)
            if grown is not None:
                return _written(session, info, new or (Outcome.GROWN if grown else Outcome.SAME))
        return Written(run_id, Outcome.CONFLICT, why="another writer is appending to it")

    async def _begin(self, session: Session, run_id: str) -> bool:
        """Claim the id: as a fork of the session's parent where that stands and begins alike."""
        labels = self._run_labels(session)
        parent = await self._info(session.parent)
        at = await self._fork_point(session, parent) if parent else 0
        if parent and at:
            forked = await self._backend.runs.fork_run(
                run_id=parent.id, new_run_id=run_id, at_message=at, labels=labels
            )
            return forked.created
        if session.parent:
            labels["parent"] = run_id_of(self._format, session.parent, session.keeps_id)
        return (await self._backend.runs.create_run(run_id=run_id, labels=labels)).created

    async def _fork_point(self, session: Session, parent: RunInfo) -> int:
        """After how many messages a fork of ``parent`` holds nothing that the session does not;
        0 where none would do.

        A fork of all messages brings the events along. Where these are others than the session's,
        the fork begins one message earlier.
        """
        at = session.at_message
        if not 0 < at <= min(parent.message_count, len(session.messages)):
            return 0
        if not self._shares(session, at):
            other = await first_difference(self._backend, parent.id, session.messages, 0, at)
            if other is not None:
                return 0
        if at < parent.message_count or not parent.event_count:
            return at
        told = await told_of(self._backend, parent, session.events)
        return at if told.state is None and told.equal == told.count else at - 1

    def _shares(self, session: Session, at: int) -> bool:
        """Whether the first messages are the very ones that the parent's run was found to hold."""
        held = self._settled.get(session.parent, ())
        return at <= alike(held, session.messages.outline())

    async def _known(self, session: Session, info: RunInfo) -> int:
        """How many messages of a run need no look: it was forked behind them from a run that holds
        them, as this import found, and runs only ever grow."""
        parent = await self._info(session.parent)
        forked = parent and parent.id == info.parent_id and parent.created_at <= info.created_at
        at = min(info.fork_point, len(session.messages))
        return at if forked and self._shares(session, at) else 0

    async def _info(self, key: str) -> RunInfo | None:
        run_id = self._ids.get(key)
        return (await self._backend.runs.get_run(run_id=run_id)).info if run_id else None

    def _run_labels(self, session: Session) -> dict[str, str]:
        labels = {**session.labels, "imported-from": self._format, **self._labels}
        if session.agent_of:
            labels["agent-of"] = run_id_of(self._format, session.agent_of)
        return labels

    async def _part(
        self, session: Session, info: RunInfo, at: int
    ) -> tuple[str, Outcome | None] | None:
        """Where the session goes from message ``at`` on: a fork's id, and PARTED if it is new.
        None where nothing is shared."""
        if at == 0:
            return None
        digest = hashlib.blake2b(encode(session.messages[at]), digest_size=6).hexdigest()
        forked = await self._backend.runs.fork_run(
            run_id=info.id,
            new_run_id=run_id_of(self._format, f"{session.key}~{digest}"),
            at_message=at,
            labels=self._run_labels(session),
        )
        return forked.run_id, Outcome.PARTED if forked.created else None

    async def _append(self, session: Session, info: RunInfo, standing: Standing) -> bool | None:
        """Append what the run lacks, and say whether that was anything. None where another writer
        came between."""
        messages, events = info.message_count, info.event_count
        new = session.events[standing.told :]
        state = session.state()
        if state and not (standing.state and equal(standing.state, state)):
            new.append(state, len(encode(state)))
        for batch in batches(session.messages[messages:], new, messages):
            answer = await self._backend.runs.append_messages(
                run_id=info.id,
                messages=batch[0],
                events=batch[1],
                expected_count=messages,
                expected_events=events,
                idempotency_key=f"import {messages}+{len(batch[0])} {events}+{len(batch[1])}",
            )
            if not answer.found or answer.conflict:
                return None
            messages, events = answer.message_count, answer.event_count
            self._progress(len(batch[0]) + len(batch[1]))
        return (messages, events) != (info.message_count, info.event_count)

    async def note(self, note: Note) -> Written:
        """Put a note where its key is free. One that stands there is left as it is."""
        put = await self._backend.memory.put_memory(
            item=note.item, namespace=note.namespace, expected_version=0
        )
        if not put.conflict:
            return Written("", Outcome.CREATED)
        found = await self._backend.memory.get_memory(key=note.item.key, namespace=note.namespace)
        stands = found.item
        if stands and (stands.value, canonical(stands.metadata)) == (
            note.item.value, canonical(note.item.metadata)
        ):  # fmt: skip
            return Written("", Outcome.SAME)
        return Written("", Outcome.CONFLICT, why=f"note {note.item.key!r} is another one here")

    async def result(self, result: Result) -> Written:
        """Put a tool result where its ref is free."""
        store = self._backend.tool_results
        found = await store.get_tool_result(ref=result.ref)
        if found.result is None:
            labels = {**result.labels, "imported-from": self._format, **self._labels}
            await store.put_tool_result(ref=result.ref, result=result.result, labels=labels)
            return Written("", Outcome.CREATED)
        if canonical(found.result) == canonical(result.result):
            return Written("", Outcome.SAME)
        return Written("", Outcome.CONFLICT, why=f"tool result {result.ref!r} is another one here")


def _written(session: Session, info: RunInfo, outcome: Outcome, why: str = "") -> Written:
    return Written(
        info.id, outcome, len(session.messages), len(session.events),
        info.parent_id, info.fork_point, why,
    )  # fmt: skip
