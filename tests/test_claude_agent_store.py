"""The Claude Agent SessionStore: by the SDK's conformance suite, and by what it does not ask."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs the extra claude-agent")

from claude_agent_sdk import (
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    get_subagent_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance

from stores_adapters.claude_agent import BackendSessionStore
from stores_core import Backend, open_backend
from stores_core.codec import canonical
from tests.meanwhile import Meanwhile, repeating

KEY: SessionKey = {"project_key": "p", "session_id": "s"}
SUBAGENT: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Backend, BackendSessionStore]]:
    async with open_backend(url) as backend:
        yield backend, BackendSessionStore(backend)


def entries(*uuids: str, **further: Any) -> list[SessionStoreEntry]:
    return [cast(SessionStoreEntry, {"type": "user", "uuid": uuid, **further}) for uuid in uuids]


def uuids(loaded: Sequence[SessionStoreEntry] | None) -> list[str]:
    return [entry.get("uuid", "") for entry in loaded or []]


async def test_it_conforms_with_all_optional_parts(url: str) -> None:
    assert all(
        getattr(BackendSessionStore, part) is not getattr(SessionStore, part) for part in OPTIONAL
    )
    async with AsyncExitStack() as opened_ones:
        made = 0

        async def fresh() -> BackendSessionStore:
            nonlocal made
            made += 1
            bare, _, tenant = url.partition("?tenant=")
            opening = open_backend(bare, tenant=f"{tenant}-{made}")
            return BackendSessionStore(await opened_ones.enter_async_context(opening))

        await run_session_store_conformance(fresh)
        assert made >= 14


async def test_an_entry_comes_back_equal_with_the_order_of_its_keys(url: str) -> None:
    odd: Any = {
        "type": "assistant",
        "z": {"b": 1.0, "a": -0.0},
        "uuid": "u",
        "message": {
            "content": [{"type": "text", "text": "nul \0, astral \U0001f98a"}],
            "role": None,
        },
        "timestamp": "not a time",
        "entry": [],
    }
    async with opened(url) as (_, store):
        await store.append(KEY, [odd, {"type": "tag"}])
        loaded = await store.load(KEY)
        assert loaded is not None
        assert [canonical(entry) for entry in loaded] == [
            canonical(odd),
            canonical({"type": "tag"}),
        ]
        assert list(loaded[0]) == list(odd)


async def test_an_entry_that_is_there_is_not_written_again_whoever_wrote_it(url: str) -> None:
    async with opened(url) as (backend, store):
        await store.append(KEY, entries("a", "b", "b"))
        await store.append(KEY, entries("b", "c"))
        other = BackendSessionStore(backend)  # which knows nothing but what is stored
        await other.append(KEY, entries("a", "c", "d"))
        await store.append(KEY, entries("d", "e"))
        assert uuids(await store.load(KEY)) == ["a", "b", "c", "d", "e"]
        tag: Any = [{"type": "tag", "tag": "x"}]
        await store.append(KEY, tag)
        await other.append(KEY, tag)
        assert len(await store.load(KEY) or []) == 7


async def test_a_batch_that_is_repeated_below_the_store_is_written_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        store = BackendSessionStore(backend)
        await store.append(KEY, [*entries("a"), {"type": "tag"}])
        assert len(await store.load(KEY) or []) == 2


async def test_racing_appends_lose_nothing_and_the_summary_covers_them_all(url: str) -> None:
    async with opened(url) as (backend, store):
        stores = [store, BackendSessionStore(backend), BackendSessionStore(backend)]
        batches = [entries(f"{n} a", f"{n} b") for n in range(12)]
        title: Any = [{"type": "custom-title", "customTitle": "named", "uuid": "title"}]
        await asyncio.gather(
            *(stores[n % 3].append(KEY, batch) for n, batch in enumerate([title, *batches]))
        )
        loaded = uuids(await store.load(KEY))
        assert sorted(loaded) == sorted(["title", *(u for b in batches for u in uuids(b))])
        for number in range(12):
            assert loaded.index(f"{number} b") == loaded.index(f"{number} a") + 1
        (summary,) = await store.list_session_summaries("p")
        assert summary["data"]["custom_title"] == "named"
        (listed,) = await store.list_sessions("p")
        assert summary["mtime"] == listed["mtime"]


async def test_a_session_that_another_store_deleted_begins_anew(url: str) -> None:
    async with opened(url) as (backend, store):
        await store.append(KEY, entries("a", "b"))
        await BackendSessionStore(backend).delete(KEY)
        assert await store.load(KEY) is None
        await store.append(KEY, entries("c"))
        await store.append(KEY, entries("a"))
        assert uuids(await store.load(KEY)) == ["c", "a"]


async def test_a_deletion_that_was_cut_off_leaves_the_session_listed_to_delete_again(
    url: str,
) -> None:
    before_the_delete = Meanwhile("delete_run")
    async with open_backend(url, interceptors=[before_the_delete]) as backend:
        store = BackendSessionStore(backend)
        await store.append(KEY, entries("a"))
        await store.append(SUBAGENT, entries("b"))

        async def cut_off() -> None:
            raise ConnectionError

        before_the_delete.act = cut_off
        with pytest.raises(Exception, match="delete_run"):
            await store.delete(KEY)
        assert [entry["session_id"] for entry in await store.list_sessions("p")] == ["s"]
        await store.delete(KEY)
        assert (await backend.runs.list_runs()).runs == ()


async def test_keys_that_look_like_each_other_are_different_transcripts(url: str) -> None:
    keys: list[SessionKey] = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a~1b", "session_id": "c"},
    ]
    async with opened(url) as (backend, store):
        for number, key in enumerate(keys):
            await store.append(key, entries(str(number)))
        for number, key in enumerate(keys):
            assert uuids(await store.load(key)) == [str(number)]
        # A fork made by hand has the labels of a transcript, and is none.
        await backend.runs.fork_run(run_id="claude/a/b~1c/", new_run_id="by-hand")
        assert len(await store.list_sessions("a")) == 1
        assert await store.list_subkeys({"project_key": "a", "session_id": "b"}) == ["c"]
        await store.delete(keys[1])
        assert (await backend.runs.get_run(run_id="by-hand")).found


async def test_the_sdk_lists_reads_forks_and_deletes_sessions_in_it(
    url: str, tmp_path: Path
) -> None:
    session, directory = str(uuid4()), str(tmp_path)
    key: SessionKey = {
        "project_key": project_key_for_directory(directory),
        "session_id": session,
    }
    texts = ("To Oslo by train?", "Yes, via Kiel.")
    ids = [str(uuid4()) for _ in texts]
    said: list[Any] = [
        {
            "type": role,
            "uuid": ids[n],
            "parentUuid": ids[n - 1] if n else None,
            "sessionId": session,
            "timestamp": f"2026-01-01T00:00:0{n}.000Z",
            "message": {"role": role, "content": texts[n]},
        }
        for n, role in enumerate(("user", "assistant"))
    ]
    async with opened(url) as (_, store):
        await store.append(key, said)
        await store.append({**key, "subpath": "subagents/agent-1"}, said)
        (info,) = await list_sessions_from_store(store, directory)
        assert (info.session_id, info.summary) == (session, texts[0])
        messages = await get_session_messages_from_store(store, session, directory)
        assert [message.message["content"] for message in messages] == [*texts]
        assert len(await get_subagent_messages_from_store(store, session, "1", directory)) == 2
        fork = await fork_session_via_store(store, session, directory, up_to_message_id=ids[0])
        messages = await get_session_messages_from_store(store, fork.session_id, directory)
        assert [message.message["content"] for message in messages] == [texts[0]]
        await delete_session_via_store(store, session, directory)
        left = await list_sessions_from_store(store, directory)
        assert [info.session_id for info in left] == [fork.session_id]
