"""Pydantic AI: a ``ConversationStore``, and message histories as plain runs.

``BackendConversationStore(backend)`` is loaded from and saved to around each run of an agent.
Needs the extra ``pydantic-ai``.
"""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

from stores_core import Backend, Event, Message, Run
from stores_core.extras import need

need("pydantic_ai.conversation_store", extra="pydantic-ai", field="stores_adapters.pydantic_ai")

from pydantic import TypeAdapter  # noqa: E402 - after need
from pydantic_ai.conversation_store import (  # noqa: E402 - after need
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (  # noqa: E402 - after need
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from stores_adapters.appending import append_or_create  # noqa: E402 - after need
from stores_adapters.listing import runs_with  # noqa: E402 - after need

RECORD = "pydantic-ai-record"
CONVERSATIONS = {"pydantic-ai": "conversation"}
HISTORY = {"pydantic-ai": "history"}
"""The labels of every conversation, and of every history that is no conversation."""
SCOPE = "pydantic-ai-scope"
REMEMBERED = 10_000

RECORDS = TypeAdapter(ConversationRecord)


async def load_history(
    backend: Backend, run_id: str, last_messages: int | None = None
) -> list[ModelMessage]:
    """The messages of a run as ``message_history=``; the newest ``last_messages`` where given.

    Empty for an unknown run.
    """
    answer = await backend.runs.load_run(run_id=run_id, last_messages=last_messages, last_events=0)
    return [_message_of(entry) for entry in answer.run.messages] if answer.run else []


async def append_history(backend: Backend, run_id: str, messages: Sequence[ModelMessage]) -> None:
    """Append what an agent's run added, as ``result.new_messages()`` gives it, in one step.

    The run is created where there is none.
    """
    stored = [_stored(message) for message in messages]
    await append_or_create(backend, run_id, messages=stored, labels=HISTORY)


class BackendConversationStore(ConversationStore):
    """Keeps each conversation in a run: entries are its messages, records its events.

    A save is one batch, written only where the record is the one that the save was made for, so a
    conflict leaves nothing behind. A fork is a fork of the run and shares what it copies. Deleting
    a conversation deletes its run; what forks hold of it stays theirs.

    Errors are Pydantic AI's and those of the stores. The backend stays the caller's to close.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # The interface asks for entries by id alone, but always after a record that names them.
        self._homes = OrderedDict[str, str]()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return self._record_in(await self._newest(conversation_id), conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Looks at every conversation of the scope, since the order is that of the last saves."""
        labels = CONVERSATIONS if scope is None else {**CONVERSATIONS, SCOPE: _label(scope)}
        records: list[ConversationRecord] = []
        async for info in runs_with(self._backend, labels):
            record = await self.read_record(info.id.removeprefix(_run_id("")))
            if record is not None:
                records.append(record)
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        id = record.conversation_id
        run = await self._newest(id)
        if run is None and expected_revision is None:
            await self._begin(record)
            run = await self._newest(id)
        found = self._record_in(run, id)
        if run is None or (found.revision if found else None) != expected_revision:
            raise ConversationConflict(id)
        # Entries are only ever added, so one that is seen now will be there.
        new = {entry.id for entry in new_entries}
        if record.head_id is not None and record.head_id not in (
            new or await self._entries(id, record.head_id, 1)
        ):
            raise ConversationConflict(id)
        answer = await self._backend.runs.append_messages(
            run_id=run.id,
            messages=[_entry_stored(entry) for entry in new_entries],
            events=[_event(record)],
            expected_count=run.message_count,
            expected_events=run.event_count,
            # A retry below, that did not see the first answer, is no other writer.
            idempotency_key=secrets.token_hex(16),
        )
        if answer.conflict or not answer.found:
            raise ConversationConflict(id)
        self._remember(id, [record.head_id, *(entry.id for entry in new_entries)])

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the run. Entries that forks have, too, leave the storage with the last of them."""
        run = await self._newest(conversation_id)
        record = self._record_in(run, conversation_id)
        if run is None or record is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        answer = await self._backend.runs.delete_run(run_id=run.id, expected_events=run.event_count)
        if not answer.deleted:
            raise ConversationConflict(conversation_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry; one of a conversation that was not read before is looked for in all.

        Raises LookupError for an unknown id.
        """
        return (await self.read_history(entry_id, limit=1))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to ``head_id``, or the last ``limit`` of them, in a read or a few."""
        if head_id is None or limit == 0:
            return []
        entries = await self._entries(await self._home_of(head_id), head_id, limit)
        history = [entries[head_id]]
        while history[-1].parent_id is not None and len(history) != limit:
            history.append(entries[history[-1].parent_id])
        return history[::-1]

    async def _begin(self, record: ConversationRecord) -> None:
        """Make the run of a conversation: a fork of another's, which shares its entries."""
        labels = dict(CONVERSATIONS)
        if record.scope is not None:
            labels[SCOPE] = _label(record.scope)
        run_id = _run_id(record.conversation_id)
        if record.forked_from is not None:
            # Its newest record is still the other's, until the batch that follows.
            await self._backend.runs.fork_run(
                run_id=_run_id(record.forked_from), new_run_id=run_id, labels=labels
            )
        else:
            await self._backend.runs.create_run(run_id=run_id, labels=labels)

    async def _newest(self, conversation_id: str) -> Run | None:
        answer = await self._backend.runs.load_run(
            run_id=_run_id(conversation_id), last_messages=0, last_events=1
        )
        return answer.run

    def _record_in(self, run: Run | None, conversation_id: str) -> ConversationRecord | None:
        if run is None or not run.events:
            return None
        record = RECORDS.validate_python((run.events[-1].model_extra or {})["record"])
        if record.conversation_id != conversation_id:
            return None
        self._remember(conversation_id, [record.head_id, record.forked_at, *record.branches])
        return record

    async def _entries(
        self, conversation_id: str, head_id: str, limit: int | None
    ) -> dict[str, ConversationEntry]:
        """A conversation's newest entries, so many that ``limit`` of them lead to the head."""
        reach = limit
        while True:
            answer = await self._backend.runs.load_run(
                run_id=_run_id(conversation_id), last_messages=reach, last_events=0
            )
            if answer.run is None:
                return {}
            entries = {entry.id: entry for entry in map(_entry_of, answer.run.messages)}
            if len(entries) == answer.run.message_count:
                return entries
            seen, id = 0, head_id
            while id in entries and seen != limit:
                seen, id = seen + 1, entries[id].parent_id or ""
            if seen == limit or (seen and not id):
                return entries
            # Entries of other branches stand among the newest: look further back.
            reach = 2 * len(entries)

    async def _home_of(self, entry_id: str) -> str:
        home = self._homes.get(entry_id)
        if home is not None and entry_id in await self._entries(home, entry_id, 1):
            return home
        async for info in runs_with(self._backend, CONVERSATIONS):
            home = info.id.removeprefix(_run_id(""))
            if entry_id in await self._entries(home, entry_id, None):
                self._remember(home, [entry_id])
                return home
        raise LookupError(f"no conversation has the entry {entry_id!r}")

    def _remember(self, conversation_id: str, entry_ids: Sequence[str | None]) -> None:
        for id in entry_ids:
            if id is not None:
                self._homes[id] = conversation_id
                self._homes.move_to_end(id)
        while len(self._homes) > REMEMBERED:
            self._homes.popitem(last=False)


def _run_id(conversation_id: str) -> str:
    return f"pydantic-ai {conversation_id}"


def _label(scope: str) -> str:
    # A scope may be the empty text, which no label is.
    return f"scope {scope}"


def _event(record: ConversationRecord) -> Event:
    further: dict[str, Any] = {"record": RECORDS.dump_python(record, mode="json")}
    return Event(kind=RECORD, **further)


def _entry_stored(entry: ConversationEntry) -> Message:
    place = {"id": entry.id, "parent_id": entry.parent_id, "kind": entry.kind}
    return _stored(entry.message, entry=place)


def _entry_of(stored: Message) -> ConversationEntry:
    return ConversationEntry(**(stored.model_extra or {})["entry"], message=_message_of(stored))


def _stored(message: ModelMessage, **further: Any) -> Message:
    """The message whole, in a further field, and role and text for other readers of the run."""
    [whole] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    texts = [
        part.content
        for part in message.parts
        if isinstance(part, TextPart | UserPromptPart) and isinstance(part.content, str)
    ]
    further["message"] = whole
    return Message(role=_role(message), text="\n".join(texts), **further)


def _role(message: ModelMessage) -> Literal["assistant", "tool", "user"]:
    if isinstance(message, ModelResponse):
        return "assistant"
    tool = any(isinstance(part, ToolReturnPart) for part in message.parts)
    return "tool" if tool else "user"


def _message_of(stored: Message) -> ModelMessage:
    whole = (stored.model_extra or {})["message"]
    return ModelMessagesTypeAdapter.validate_python([whole])[0]
