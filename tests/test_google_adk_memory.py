"""The memory service for Google ADK, found by words and by meaning."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from stores_adapters.google_adk import BackendMemoryService
from stores_core import WordEmbedder, open_backend

HERS: Any = {"app_name": "app", "user_id": "anna"}


def said(id: str, text: str, at: float = 1.0) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=id, author="user", content=content, timestamp=at)


def a_session() -> Session:
    empty = Event(id="empty", author="user")
    texts = ["I like green tea", "tea and cake", "日本語のテキスト", "the café at night"]
    events = [said(str(at), text, at) for at, text in enumerate(texts)]
    return Session(id="s", **HERS, events=[*events, empty])


async def found(service: Any, query: str, user: str = "anna") -> list[str | None]:
    answer = await service.search_memory(app_name="app", user_id=user, query=query)
    return [memory.id for memory in answer.memories]


async def test_words_find_what_those_of_the_service_of_adk_find(url: str) -> None:
    async with open_backend(url) as backend:
        ours, theirs = BackendMemoryService(backend), InMemoryMemoryService()
        for service in (ours, theirs):
            await service.add_session_to_memory(a_session())
        for query in ("tea", "green TEA", "cake", "te", "テキスト", "café", "nothing", "0", "  "):
            assert await found(ours, query) == await found(theirs, query), query
        [mine] = (await ours.search_memory(**HERS, query="green")).memories
        [his] = (await theirs.search_memory(**HERS, query="green")).memories
        assert mine.model_copy(update={"timestamp": his.timestamp}) == his  # which has no zone


async def test_a_memory_comes_back_with_what_was_said_of_it(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        event = said("1", "tea")
        await service.add_events_to_memory(**HERS, events=[event], custom_metadata={"k": [1.5]})
        [memory] = (await service.search_memory(**HERS, query="tea")).memories
        assert memory.content == event.content
        assert (memory.author, memory.custom_metadata) == ("user", {"k": [1.5]})
        assert memory.timestamp == "1970-01-01T00:00:01+00:00"


async def test_a_session_that_is_added_again_is_there_once_and_deleted_ones_stay_away(
    url: str,
) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        await service.add_session_to_memory(a_session())
        await service.delete_memory(**HERS, memory_id="0")
        await service.delete_memory(**HERS, memory_id="unknown")
        await service.delete_memory(**HERS)
        await service.add_session_to_memory(a_session())
        await service.add_session_to_memory(a_session())
        assert await found(service, "tea") == ["1"]


async def test_users_and_apps_never_meet(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        await service.add_session_to_memory(a_session())
        assert await found(service, "tea", user="ben") == []
        answer = await service.search_memory(app_name="other", user_id="anna", query="tea")
        assert answer.memories == []


async def test_memories_of_the_callers_own_are_kept(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        content = types.Content(parts=[types.Part(text="likes tea")])
        await service.add_memory(**HERS, memories=[MemoryEntry(content=content)])
        await service.add_memory(**HERS, memories=[MemoryEntry(id="mine", content=content)])
        ids = await found(service, "tea")
        assert len(ids) == 2
        assert "mine" in ids
        assert all(ids)


async def test_at_most_ten_are_found(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        events = [said(f"{number:02}", "tea", number) for number in range(12)]
        await service.add_events_to_memory(**HERS, events=events)
        assert await found(service, "tea") == [f"{number:02}" for number in range(10)]


async def test_an_embedder_finds_by_meaning_and_never_the_deleted(url: str) -> None:
    async with open_backend(url, embedder=WordEmbedder()) as backend:
        service = BackendMemoryService(backend, by_meaning=True)
        await service.add_session_to_memory(a_session())
        assert (await found(service, "green tea, I like it"))[0] == "0"
        await service.delete_memory(**HERS, memory_id="0")
        assert "0" not in await found(service, "green tea, I like it")


async def test_sessions_that_are_added_at_once_are_all_there(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendMemoryService(backend)
        sessions = [
            Session(id=f"{n}", **HERS, events=[said(f"event {n}", f"tea {n}")]) for n in range(8)
        ]
        await asyncio.gather(*map(service.add_session_to_memory, sessions))
        assert sorted(map(str, await found(service, "tea"))) == [f"event {n}" for n in range(8)]
