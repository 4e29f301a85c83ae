"""Claude Agent SDK: a ``SessionStore``. A transcript is a run, an entry of it a message.

``ClaudeAgentOptions(session_store=BackendSessionStore(backend))``. Needs the extra
``claude-agent``.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from stores_core import Backend, Event, InvalidRequestError, Message, RunInfo
from stores_core.extras import need
from stores_core.limits import PAGE_ENTRIES

need("claude_agent_sdk", extra="claude-agent", field="stores_adapters.claude_agent")

from claude_agent_sdk import (  # noqa: E402 - after need
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from stores_adapters.listing import runs_with  # noqa: E402 - after need
from stores_adapters.paths import joined  # noqa: E402 - after need

PROJECT, SESSION, SUBPATH, KIND = (
    "claude.project",
    "claude.session",
    "claude.subpath",
    "claude.kind",
)
"""The labels of a run: its key, and whether it is a session's main transcript."""

MAIN, SUB = "session", "subagent"
SUMMARY = "claude-session-summary"
"""The kind of the events that hold the SDK's summary of a session, one with each batch."""

REMEMBERED = 64
"""How many transcripts this store remembers the uuids of."""

AT_ONCE = 16
"""How many summaries are read at the same time."""


@dataclass
class Transcript:
    """A run as this store last saw it: its lengths, the uuids in it, its summary."""

    messages: int = 0
    events: int = 0
    uuids: set[str] = field(default_factory=set[str])
    summary: SessionSummaryEntry | None = None


class BackendSessionStore(SessionStore):
    """Keeps the transcripts of sessions and of their subagents in the runs of a backend.

    An entry comes back equal, key order included. One whose ``uuid`` is in the transcript already
    is not written again, whoever wrote it. The SDK's summary of a session is written in one step
    with the entries that it covers. Errors are those of the stores; the backend stays the
    caller's to close.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._seen: OrderedDict[str, Transcript] = OrderedDict()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append what is new of the entries, in one batch where they are at most 1,000."""
        for start in range(0, len(entries), PAGE_ENTRIES):
            await self._append(key, entries[start : start + PAGE_ENTRIES])

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries, oldest first; None for a key that was never written."""
        messages = await self._read(run_of(key), 0)
        return [_entry_of(message) for message in messages] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project; ``mtime`` is the moment of the last append."""
        return [
            {"session_id": info.labels[SESSION], "mtime": _mtime(info)}
            for info in await self._runs({PROJECT: project_key, KIND: MAIN})
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of a project's sessions: one small read each, none of a transcript."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def summary(info: RunInfo) -> SessionSummaryEntry | None:
            async with turns:
                answer = await self._backend.runs.load_run(
                    run_id=info.id, last_messages=0, last_events=1
                )
            run = answer.run
            found = _summary_of(run.events) if run else None
            return found and {**found, "mtime": _mtime(cast(RunInfo, run))}

        infos = await self._runs({PROJECT: project_key, KIND: MAIN})
        found = await asyncio.gather(*map(summary, infos))
        return [entry for entry in found if entry]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; a session's main one with those of its subagents, itself last.

        So a deletion that was cut off leaves a session that is still listed, to delete again.
        """
        run_ids = [run_of(key)]
        if not key.get("subpath"):
            session = {PROJECT: key["project_key"], SESSION: key["session_id"], KIND: SUB}
            run_ids = [info.id for info in await self._runs(session)] + run_ids
        for run_id in run_ids:
            self._seen.pop(run_id, None)
            await self._backend.runs.delete_run(run_id=run_id)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's subagents."""
        session = {PROJECT: key["project_key"], SESSION: key["session_id"], KIND: SUB}
        return [info.labels[SUBPATH] for info in await self._runs(session)]

    async def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        run_id, labels = run_of(key), labels_of(key)
        while True:
            seen = self._remembered(run_id)
            new = _without_known(entries, seen.uuids)
            if not new:
                return
            summary = fold_session_summary(seen.summary, key, new) if labels[KIND] == MAIN else None
            answer = await self._backend.runs.append_messages(
                run_id=run_id,
                messages=[_message_of(entry) for entry in new],
                events=[_event_of(summary)] if summary else [],
                expected_count=seen.messages,
                expected_events=seen.events,
                idempotency_key=secrets.token_hex(16),
            )
            if not answer.found:
                self._seen.pop(run_id, None)
                await self._backend.runs.create_run(run_id=run_id, labels=labels)
            elif answer.conflict:
                await self._look(run_id, seen)
            else:
                seen.uuids |= {entry["uuid"] for entry in new if "uuid" in entry}
                if answer.message_count > seen.messages:
                    seen.messages, seen.events = answer.message_count, answer.event_count
                    seen.summary = summary
                return

    def _remembered(self, run_id: str) -> Transcript:
        seen = self._seen.setdefault(run_id, Transcript())
        self._seen.move_to_end(run_id)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return seen

    async def _look(self, run_id: str, seen: Transcript) -> None:
        """Take in what others appended since; all of it where the run began anew."""
        answer = await self._backend.runs.load_run(run_id=run_id, last_messages=0, last_events=1)
        run = answer.run
        if run is None or run.message_count < seen.messages:
            self._seen.pop(run_id, None)
            return
        missing = run.message_count - seen.messages
        new = await self._read(run_id, seen.messages, run.message_count)
        if len(new) != missing:
            self._seen.pop(run_id, None)
            return
        seen.uuids |= {entry["uuid"] for entry in map(_entry_of, new) if "uuid" in entry}
        seen.messages, seen.events = run.message_count, run.event_count
        seen.summary = _summary_of(run.events)

    async def _read(self, run_id: str, start: int, end: int | None = None) -> list[Message]:
        messages: list[Message] = []
        while end is None or start + len(messages) < end:
            at = start + len(messages)
            limit = PAGE_ENTRIES if end is None else min(PAGE_ENTRIES, end - at)
            try:
                page = await self._backend.runs.read_messages(run_id=run_id, start=at, limit=limit)
            except InvalidRequestError as error:
                if error.field != "start":
                    raise
                return []  # deleted meanwhile, and shorter now
            messages += page.entries
            if not page.entries or page.next == page.count:
                break
        return messages

    async def _runs(self, labels: Mapping[str, str]) -> list[RunInfo]:
        """Those that hold entries: a run is made just before its first ones are written.

        A fork made by hand inherits the labels, and is no transcript of the session.
        """
        found = runs_with(self._backend, labels)
        return [
            info async for info in found if info.message_count and info.id == run_of(_key_of(info))
        ]


def run_of(key: SessionKey) -> str:
    """The id of the run that keeps a transcript."""
    names = [key["project_key"], key["session_id"]]
    if subpath := key.get("subpath"):
        names.append(subpath)
    return joined("claude/", names)


def labels_of(key: SessionKey) -> dict[str, str]:
    labels = {PROJECT: key["project_key"], SESSION: key["session_id"], KIND: MAIN}
    if subpath := key.get("subpath"):
        labels |= {KIND: SUB, SUBPATH: subpath}
    return labels


def _key_of(info: RunInfo) -> SessionKey:
    key: SessionKey = {
        "project_key": info.labels[PROJECT],
        "session_id": info.labels[SESSION],
    }
    if info.labels[KIND] == SUB:
        key["subpath"] = info.labels[SUBPATH]
    return key


def _without_known(entries: Sequence[SessionStoreEntry], uuids: set[str]) -> list[Any]:
    new: dict[object, SessionStoreEntry] = {}
    for number, entry in enumerate(entries):
        uuid = entry.get("uuid")
        if uuid not in uuids:
            new.setdefault(number if uuid is None else uuid, entry)
    return list(new.values())


def _message_of(entry: SessionStoreEntry) -> Message:
    """The entry whole, in a further field, and a role for other readers of the run to go by."""
    further: dict[str, Any] = {"entry": entry}
    return Message(role=str(entry["type"]), **further)


def _entry_of(message: Message) -> SessionStoreEntry:
    return cast(SessionStoreEntry, (message.model_extra or {})["entry"])


def _event_of(summary: SessionSummaryEntry) -> Event:
    further: dict[str, Any] = {"summary": dict(summary)}
    return Event(kind=SUMMARY, **further)


def _summary_of(events: Sequence[Event]) -> SessionSummaryEntry | None:
    if not events or events[-1].kind != SUMMARY:
        return None
    return cast(SessionSummaryEntry, (events[-1].model_extra or {})["summary"])


def _mtime(info: RunInfo) -> int:
    """In milliseconds since 1970, as both listings give it."""
    return int(info.updated_at.timestamp() * 1000)
