"""The adapters whose runtime refuses a writer that has not seen the newest: it looks again.

What each of two processes does through them is written so that many are refused.
"""

import asyncio
from contextlib import suppress

from a2a.types.a2a_pb2 import Artifact, Part
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types
from pydantic_ai import ModelRequest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict

from stores_adapters.a2a import BackendTaskStore
from stores_adapters.google_adk import (
    BackendArtifactService,
    BackendMemoryService,
    BackendSessionService,
)
from stores_adapters.pydantic_ai import BackendConversationStore, append_history, load_history
from stores_core import Backend
from tests.a2a_tasks import ANNA, a_task, copied, says
from tests.sharing_processes import BOTH, TURNS

KEYS = sorted(f"{who}.{turn}" for who in BOTH for turn in range(TURNS))


async def count_in_a_session(backend: Backend, who: int) -> None:
    service = BackendSessionService(backend)
    with suppress(AlreadyExistsError):  # of the other process, if that was first
        await service.create_session(app_name="app", user_id="anna", session_id="s")
    refused = 0

    async def get() -> Session:
        session = await service.get_session(app_name="app", user_id="anna", session_id="s")
        assert session
        return session

    async def add(session: Session, turn: int) -> None:
        nonlocal refused
        key = f"{who}.{turn}"
        while True:
            count = session.state.get("count", 0) + 1
            delta = {"count": count, f"app:{key}": 1, f"user:{key}": 1}
            said = Event(author=key, actions=EventActions(state_delta=delta))
            try:
                await service.append_event(session, said)
                return
            except StaleSessionError:
                refused += 1
                session = await get()

    seen = [await get() for _ in range(TURNS)]
    await asyncio.gather(*(add(session, turn) for turn, session in enumerate(seen)))
    assert refused >= TURNS - 1  # all of them but the first had seen too little


async def look_at_the_count(backend: Backend) -> None:
    service = BackendSessionService(backend)
    session = await service.get_session(app_name="app", user_id="anna", session_id="s")
    assert session
    assert sorted(event.author for event in session.events) == KEYS
    shared = {f"{scope}:{key}" for scope in ("app", "user") for key in KEYS}
    assert session.state == {"count": len(KEYS), **dict.fromkeys(shared, 1)}
    counts = [event.actions.state_delta["count"] for event in session.events]
    assert counts == [*range(1, len(KEYS) + 1)]


async def save_artifacts_and_memories(backend: Backend, who: int) -> None:
    artifacts, memories = BackendArtifactService(backend), BackendMemoryService(backend)

    async def save(turn: int) -> None:
        text = f"{who}.{turn}"
        content = types.Content(role="user", parts=[types.Part(text=f"tea {text}")])
        session = Session(id=text, app_name="app", user_id="anna")
        session.events = [Event(id=text, author="user", content=content)]
        await memories.add_session_to_memory(session)
        await artifacts.save_artifact(
            app_name="app",
            user_id="anna",
            session_id="s",
            filename="plan.txt",
            artifact=types.Part(text=text),
        )

    await asyncio.gather(*map(save, range(TURNS)))


async def look_at_artifacts_and_memories(backend: Backend) -> None:
    service = BackendArtifactService(backend)
    parts = [
        await service.load_artifact(
            app_name="app", user_id="anna", session_id="s", filename="plan.txt", version=version
        )
        for version in range(len(KEYS))
    ]
    assert sorted(str(part and part.text) for part in parts) == KEYS
    memories = BackendMemoryService(backend)
    found = await memories.search_memory(app_name="app", user_id="anna", query="tea")
    assert sorted(str(memory.id) for memory in found.memories) == KEYS


async def save_one_task(backend: Backend, who: int) -> None:
    store = BackendTaskStore(backend)
    seen = await store.get("t", ANNA) or a_task()

    async def add(turn: int) -> None:
        task, text = copied(seen), f"{who}.{turn}"
        task.history.append(says(text))
        task.artifacts.append(Artifact(artifact_id=text, parts=[Part(text="x")]))
        await store.save(task, ANNA)

    await asyncio.gather(*map(add, range(TURNS)))


async def look_at_the_task(backend: Backend) -> None:
    task = await BackendTaskStore(backend).get("t", ANNA)
    assert task is not None
    assert sorted(artifact.artifact_id for artifact in task.artifacts) == KEYS
    assert sorted(said.message_id for said in task.history) == [f"id of {key}" for key in KEYS]


async def save_a_conversation(backend: Backend, who: int) -> None:
    store = BackendConversationStore(backend)
    refused = 0

    async def say(seen: Conversation | None, turn: int) -> None:
        nonlocal refused
        message = ModelRequest.user_text_prompt(f"{who}.{turn}")
        await append_history(backend, "history", [message])
        while True:
            conversation = seen or Conversation(conversation_id="c", messages=[])
            conversation.messages.append(message)
            try:
                await store.save(conversation)
                return
            except ConversationConflict:
                refused += 1
                seen = await store.load("c")

    seen = [await store.load("c") for _ in range(TURNS)]
    await asyncio.gather(*(say(conversation, turn) for turn, conversation in enumerate(seen)))
    assert refused >= TURNS - 1


async def look_at_the_conversation(backend: Backend) -> None:
    conversation = await BackendConversationStore(backend).load("c")
    assert conversation is not None
    for messages in (conversation.messages, await load_history(backend, "history")):
        assert sorted(str(getattr(said.parts[0], "content", "")) for said in messages) == KEYS
