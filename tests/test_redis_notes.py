"""How notes lie in Redis: keys, what is sent before, what is missing, what is left over."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.suite.spelled import Spelled, spell
from stores_core import Backend, CorruptRecordError, MemoryItem, StoreUnavailableError, open_backend
from stores_redis import following, putting
from stores_redis.putting import NoteWriter
from stores_redis.storage import Tenant
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown

LONG = "v" * 50_000


async def do(url: str, *command: object) -> Any:
    async with Redis.from_url(url.partition("?")[0], decode_responses=True) as client:
        return await client.execute_command(*command)


async def kinds(url: str) -> list[str]:
    """The kinds of our keys that are there, in order, but for those that mark the storage."""
    prefix = re.findall("prefix=([^&]+)", url)[0]
    async with Redis.from_url(url.partition("?")[0], decode_responses=True) as client:
        found = [key.split("}:")[1] async for key in client.scan_iter(f"{prefix}:{{.*")]
    return sorted(kind.partition(":")[0] for kind in found)


def key_of(url: str, kind: str) -> str:
    prefix = re.findall("prefix=([^&]+)", url)[0]
    return f"{prefix}:{{.0}}:{kind}"


def items(count: int, value: str = LONG, first: int = 0) -> list[MemoryItem]:
    return [MemoryItem(key=f"k{n:04}", value=value) for n in range(first, first + count)]


def later(days: int = 2) -> Any:
    """A clock that is some days ahead."""
    return lambda: datetime.now(UTC) + timedelta(days=days)


async def values(backend: Backend, space: str = "") -> list[str]:
    listed = (await backend.memory.list_memories(namespace=space)).items
    return [scored.item.value for scored in listed]


async def test_a_namespace_takes_all_its_keys_along(redis_url: str) -> None:
    async with open_backend(redis_url, embedder=Spelled()) as backend:
        await backend.memory.put_memories(items=items(3, LONG + spell(1, 0)), namespace="s")
        assert await kinds(redis_url) == [
            "memory", "namespaces", "note-bodies", "note-changes", "note-counts", "note-order",
            "note-state", "notes", "vectors",
        ]  # fmt: skip
        await backend.memory.delete_memory(key="k0000", namespace="s")
        await backend.memory.delete_memory(key="k0001", namespace="s")
        assert "notes-gone" in await kinds(redis_url)
        await backend.memory.delete_memory(key="k0002", namespace="s")
        assert await kinds(redis_url) == ["memory"]
        await backend.memory.put_memories(items=items(3, LONG + spell(1, 0)), namespace="s")
        await backend.memory.clear_namespace(namespace="s")
        assert await kinds(redis_url) == ["memory"]
        memory = await do(redis_url, "HGETALL", key_of(redis_url, "memory"))
        assert {memory[name] for name in memory if name.startswith(("notes", "vectors"))} == {"0"}


async def test_a_large_batch_is_sent_before_and_leaves_nothing_behind(redis_url: str) -> None:
    async with open_backend(redis_url, embedder=Spelled()) as backend:
        value = ""
        for round in range(3):
            value = f"{LONG}{round}{spell(1, round)}"
            await backend.memory.put_memories(items=items(40, value), namespace="s")
        assert await values(backend, "s") == [value] * 40
        assert await do(redis_url, "HLEN", key_of(redis_url, "note-bodies:s")) == 40
        assert await do(redis_url, "ZCARD", key_of(redis_url, "staged-notes")) == 0
        vectors = [kind for kind in await kinds(redis_url) if kind == "vectors"]
        assert len(vectors) == 1
        state = await do(redis_url, "HGETALL", key_of(redis_url, "note-state:s"))
        assert [state[name] for name in state if name.startswith("vectors:")] == ["40"]


async def test_what_a_cut_put_sent_is_swept_and_what_counts_is_not(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backend(redis_url, embedder=Spelled()) as backend:
        await backend.memory.put_memories(items=items(20, LONG + spell(1, 0)))

        async def cut(self: Tenant, *args: object, **more: object) -> list[Any]:
            raise ConnectionError

        with monkeypatch.context() as patch:
            patch.setattr(Tenant, "run", cut)
            with pytest.raises(Exception, match="put_memories"):
                await backend.memory.put_memories(items=items(20, LONG + spell(0, 1)))
        bodies = key_of(redis_url, "note-bodies:")
        assert await do(redis_url, "HLEN", bodies) == 40
        assert (await backend.admin.sweep()).freed == {}, "it may still be under way"
        assert await do(redis_url, "HLEN", bodies) == 40
    async with open_backend(redis_url, clock=later(), embedder=Spelled()) as backend:
        assert (await backend.admin.sweep()).freed == {"note_parts": 40}
        assert await do(redis_url, "HLEN", bodies) == 20
        assert (await backend.admin.sweep()).freed == {}
        assert await values(backend) == [LONG + spell(1, 0)] * 20
        assert (await backend.admin.verify()).problems == ()


async def test_what_was_swept_too_early_is_sent_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, sent = NoteWriter._send, list[str]()  # pyright: ignore[reportPrivateUsage]

    async def swept(self: NoteWriter, namespace: str, token: str, *rest: Any) -> None:
        await send(self, namespace, token, *rest)
        sent.append(token)
        if len(sent) == 1:
            await do(redis_url, "DEL", key_of(redis_url, "note-bodies:"))

    monkeypatch.setattr(putting.NoteWriter, "_send", swept)
    async with open_backend(redis_url) as backend:
        await backend.memory.put_memories(items=items(20))
        assert await values(backend) == [LONG] * 20
    assert len(set(sent)) == 2


@pytest.mark.long
async def test_a_list_of_many_notes_is_one_instant(redis_url: str) -> None:
    async with open_backend(redis_url) as backend, open_backend(redis_url) as other:
        done = asyncio.Event()

        async def write() -> None:
            for round in range(12):
                await backend.memory.put_memories(items=items(1_000, f"{round}"))
                await backend.memory.put_memories(items=items(500, f"{round}", 5_000))
            done.set()

        async def read() -> None:
            while not done.is_set():
                found = await values(other)
                assert len(found) in (0, 1_000, 1_500)
                assert len(set(found[:1_000])) <= 1
                assert len(set(found[1_000:])) <= 1

        await asyncio.gather(write(), read(), read())


@pytest.mark.parametrize("held", [following.HELD_BYTES, 1_000], ids=["held", "sifted"])
async def test_what_others_write_is_seen_by_the_next_query(
    redis_url: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "HELD_BYTES", held)
    async with open_backend(redis_url) as one, open_backend(redis_url) as other:

        async def found(**asked: Any) -> list[str]:
            listed = (await one.memory.list_memories(**asked)).items
            return [scored.item.key for scored in listed]

        await other.memory.put_memories(items=items(30, "Straße " * 20))
        assert len(await found(query="STRASSE")) == 30
        await other.memory.put_memory(
            item=MemoryItem(key="k0003", value="other", metadata={"m": 1})
        )
        await other.memory.delete_memory(key="k0004")
        assert len(await found(query="strasse")) == 28
        assert await found(where={"m": 1.0}) == ["k0003"]
        assert len(await found()) == 29
        await other.memory.clear_namespace(namespace="")
        assert await found(query="s") == []
        await other.memory.put_memories(items=items(2, "strasse" + LONG))
        assert await found(query="strasse") == ["k0000", "k0001"]
        await other.admin.erase_tenant(tenant="")
        assert await found() == []
        await other.memory.put_memories(items=items(1, "strasse"))
        assert await found(query="strasse") == ["k0000"]


async def test_the_second_query_of_a_small_namespace_reads_no_notes(own_redis: str) -> None:
    async with open_backend(own_redis) as backend:
        await backend.memory.put_memories(items=items(1_000, "v" * 100))
        await backend.memory.list_memories(query="zzz")
        before = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"])
        for _ in range(10):
            assert not (await backend.memory.list_memories(query="zzz")).items
        sent = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"]) - before
    assert sent < 10_000, f"{sent} bytes for ten queries that found nothing"


async def test_a_list_after_many_removals_ends(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        for first in range(0, 4_000, 1_000):
            await backend.memory.put_memories(items=items(1_000, "v", first))
        for n in range(1_300):
            await backend.memory.delete_memory(key=f"k{n:04}")
        assert len(await values(backend)) == 2_700
        assert await do(redis_url, "ZCARD", key_of(redis_url, "notes-gone:")) == 1_000


async def test_a_key_of_another_type_is_named_and_nothing_is_written(redis_url: str) -> None:
    for kind in ("note-order:", "note-changes:", "note-bodies:", "namespaces", "memory"):
        url = with_prefix(redis_url.partition("?")[0])
        await do(url, "SET", key_of(url, kind), "foreign")
        async with open_backend(url) as backend:
            with pytest.raises(StoreUnavailableError, match="another type"):
                await backend.memory.put_memories(items=items(2))
            assert await kinds(url) == [kind.rstrip(":")]


@pytest.mark.parametrize("kind", ["note-bodies:", "note-order:", "note-changes:", "notes:"])
async def test_a_note_that_lost_a_part_is_never_another_note(redis_url: str, kind: str) -> None:
    async with open_backend(redis_url) as backend:
        await backend.memory.put_memories(items=items(3))
        await do(redis_url, "DEL", key_of(redis_url, kind))
        memory = backend.memory
        for operation in (
            memory.get_memory(key="k0001"),
            memory.list_memories(limit=10),
            memory.list_memories(query="v"),
        ):
            try:
                answer: Any = await operation
            except CorruptRecordError:
                continue
            found = [answer.item] if hasattr(answer, "item") else [s.item for s in answer.items]
            assert all(item is None or item.value == LONG for item in found)
            assert len(found) in (0, 1, 3), "a part of the namespace passed for all of it"
        problems = (await backend.admin.verify()).problems
        assert [problem.store for problem in problems][:1] == ["memory"]


async def test_vectors_that_were_given_up_are_freed(redis_url: str) -> None:
    async with open_backend(redis_url, embedder=Spelled()) as old:
        await old.memory.put_memories(items=items(3, spell(1, 0)), namespace="s")
        async with open_backend(redis_url, embedder=Spelled(name="other")) as new:
            assert (await new.admin.reembed(limit=1)).done is False
            assert (await kinds(redis_url)).count("vectors") == 2
            assert (await old.memory.list_memories(namespace="s", query=spell(1, 0))).items
            assert (await new.admin.reembed()).done
            assert (await kinds(redis_url)).count("vectors") == 1
            assert (await new.memory.list_memories(namespace="s", query=spell(1, 0))).items
        assert (await old.admin.reembed()).done
        assert (await kinds(redis_url)).count("vectors") == 1
        assert len((await old.memory.list_memories(namespace="s", query=spell(1, 0))).items) == 3


async def test_verify_lists_each_record_that_cannot_be_read(redis_url: str) -> None:
    async with open_backend(redis_url, embedder=Spelled()) as backend:
        await backend.memory.put_memories(items=items(300, "v" + spell(1, 0)), namespace="s")
        await backend.memory.put_memories(items=items(3), namespace="t")
        notes, bodies = key_of(redis_url, "notes:s"), key_of(redis_url, "note-bodies:t")
        for key in ("k0007", "k0123"):
            await do(redis_url, "HSET", notes, key, "spoiled")
        record = await do(redis_url, "HGET", notes, "k0200")
        head, _, texts = record.partition("\n")
        await do(redis_url, "HSET", notes, "k0200", f"{head}\n{texts[:-1]}")
        await do(redis_url, "HDEL", bodies, (await do(redis_url, "HKEYS", bodies))[0])
        lost = {problem.id for problem in (await backend.admin.verify()).problems}
        assert lost > {"k0007", "k0123", "k0200"}
        assert len(lost) == 4, "and the one whose text is gone"
        with pytest.raises(CorruptRecordError, match="k0123"):
            await backend.memory.get_memory(key="k0123", namespace="s")
        assert (await backend.memory.get_memory(key="k0008", namespace="s")).found
