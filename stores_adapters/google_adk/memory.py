"""What a user's agents remember of earlier sessions: notes, one for each event with text."""

import re
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from stores_adapters.google_adk.names import joined
from stores_core import Backend, MemoryItem
from stores_core.memory import StoredMemory

FOUND = 10
"""So many memories a search gives at most, as ADK's own services do."""
LIVE = {"deleted": False}
BATCH = 500


class BackendMemoryService(BaseMemoryService):
    """Keeps memories as notes, one namespace for each user of an app.

    A search finds those that share words with the query, the most shared words first. With
    ``by_meaning``, for a backend that was opened with an embedder, it is one recall by embedding.
    """

    def __init__(self, backend: Backend, *, by_meaning: bool = False) -> None:
        self._memory = backend.memory
        self._by_meaning = by_meaning

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """An event that was added before is replaced; one that was deleted stays away."""
        entries = {
            event.id: MemoryEntry(
                id=event.id,
                content=event.content,
                author=event.author,
                timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
                custom_metadata=dict(custom_metadata or {}),
            )
            for event in events
            if event.content and event.content.parts
        }
        namespace = joined("memory", app_name, user_id)
        gone = await self._memory.list_memories(namespace=namespace, where={"deleted": True})
        away = {scored.item.key for scored in gone.items}
        await self._put(namespace, [one for id, one in entries.items() if id not in away])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """One without an id is given one; one with a known id takes its place."""
        further = dict(custom_metadata or {})
        entries = [
            one.model_copy(
                update={
                    "id": one.id or secrets.token_hex(16),
                    "custom_metadata": {**further, **one.custom_metadata},
                }
            )
            for one in memories
        ]
        await self._put(joined("memory", app_name, user_id), entries)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        namespace = joined("memory", app_name, user_id)
        if not query.strip():
            return SearchMemoryResponse()
        if self._by_meaning:
            answer = await self._memory.list_memories(
                query=query, limit=FOUND, namespace=namespace, where=LIVE
            )
            found = [scored.item for scored in answer.items]
        else:
            found = await self._sharing_words(namespace, _words(query))
        return SearchMemoryResponse(memories=[_entry_of(item) for item in found])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """What is left is the id, so that adding its session again does not bring it back."""
        if not memory_id:
            return
        namespace = joined("memory", app_name, user_id)
        if (await self._memory.get_memory(key=memory_id, namespace=namespace)).found:
            note = MemoryItem(key=memory_id, value="", metadata={"deleted": True})
            await self._memory.put_memory(item=note, namespace=namespace)

    async def _put(self, namespace: str, entries: Sequence[MemoryEntry]) -> None:
        notes = [_note_of(entry) for entry in entries]
        for start in range(0, len(notes), BATCH):
            await self._memory.put_memories(items=notes[start : start + BATCH], namespace=namespace)

    async def _sharing_words(self, namespace: str, words: set[str]) -> list[StoredMemory]:
        items: dict[str, StoredMemory] = {}
        for word in sorted(words):
            answer = await self._memory.list_memories(query=word, namespace=namespace, where=LIVE)
            items |= {scored.item.key: scored.item for scored in answer.items}

        def shared(item: StoredMemory) -> int:
            text, own = unicodedata.normalize("NFC", item.value).lower(), _words(item.value)
            # A script without spaces between its words has a query's inside longer ones.
            return sum(word in own or (not word.isascii() and word in text) for word in words)

        counts = {key: shared(item) for key, item in items.items()}
        found = [item for key, item in items.items() if counts[key]]
        found.sort(key=lambda item: (-counts[item.key], item.created_at, item.key))
        return found[:FOUND]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", unicodedata.normalize("NFC", text).lower()))


def _note_of(entry: MemoryEntry) -> MemoryItem:
    texts = [part.text for part in entry.content.parts or [] if part.text]
    metadata: dict[str, Any] = {
        **LIVE,
        "entry": entry.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return MemoryItem(key=entry.id or "", value=" ".join(texts), metadata=metadata)


def _entry_of(item: StoredMemory) -> MemoryEntry:
    return MemoryEntry.model_validate(item.metadata["entry"])
