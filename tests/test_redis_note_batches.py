"""Batches of more than 500 notes: seen whole or not at all, whatever becomes of who put them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.faults.proxy import Fault, proxied
from conformance_tests.suite.spelled import Spelled, spell
from stores_core import (
    Backend,
    MemoryItem,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
    open_backend,
)
from stores_redis import note_batches, putting
from tests.redis_cluster import redis_cluster
from tests.redis_embedded import embedded_redis
from tests.redis_keys import commands_of, keys_of
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown

COUNT = 1_600
MORE = "max_batch_entries=10000"


def notes(text: str = "v", count: int = COUNT) -> list[MemoryItem]:
    return [MemoryItem(key=f"{n}", value=f"{text} {n}", metadata={"n": 1}) for n in range(count)]


async def values(backend: Backend, **request: Any) -> list[str]:
    items = (await backend.memory.list_memories(**request)).items
    return [scored.item.value for scored in items]


async def dies(*_: object) -> None:
    raise StoreUnavailableError("this client is no more")


async def decided_by_one_who_died(
    url: str, patch: pytest.MonkeyPatch, text: str = "v", **options: Any
) -> None:
    """Put a batch whose client ends as soon as it is decided."""
    async with open_backend(url, **options) as backend:
        with patch.context() as dying:
            dying.setattr(putting, "settle", dies)
            with pytest.raises(OutcomeUnknownError, match="was decided"):
                await backend.memory.put_memories(items=notes(text))


async def _page(backend: Backend) -> Sequence[object]:
    found: list[object] = []
    cursor = ""
    while True:
        page = await backend.memory.list_memories(limit=1_000, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if not cursor:
            return found


async def _got(backend: Backend) -> Sequence[object]:
    assert (await backend.memory.get_memory(key=f"{COUNT - 1}")).found
    return await values(backend)


async def _removed(backend: Backend) -> Sequence[object]:
    assert (await backend.memory.delete_memory(key=f"{COUNT - 1}")).deleted
    return [*await values(backend), "the one that was removed"]


async def _put(backend: Backend) -> Sequence[object]:
    put = await backend.memory.put_memory(item=MemoryItem(key="0", value="w"), expected_version=1)
    assert put.version == 2
    return await values(backend)


async def _put_again(backend: Backend) -> Sequence[object]:
    put = await backend.memory.put_memories(items=notes("w"))
    assert put.created == (False,) * COUNT
    assert put.versions == (2,) * COUNT
    return await values(backend, query="W")


async def _swept(backend: Backend) -> Sequence[object]:
    await backend.admin.sweep()
    return await values(backend)


async def _checked(backend: Backend) -> Sequence[object]:
    await backend.admin.migrate(target="1")
    await backend.admin.migrate()
    return await values(backend)


WAYS: Sequence[Callable[[Backend], Awaitable[Sequence[object]]]] = (
    values,
    lambda backend: values(backend, query="V"),
    lambda backend: values(backend, where={"n": 1}),
    _page, _got, _removed, _put, _put_again, _swept, _checked,
)  # fmt: skip


@pytest.mark.parametrize("way", range(len(WAYS)))
async def test_whoever_comes_first_finds_all_of_a_batch_whose_client_died(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    url = f"{redis_url}&{MORE}"
    await decided_by_one_who_died(url, monkeypatch)
    assert any("note-batch" in key for key in await keys_of(url)), "nothing is pending"
    async with open_backend(url) as backend:
        assert len(await WAYS[way](backend)) == COUNT
        assert (await backend.admin.verify()).problems == ()
    assert not [key for key in await keys_of(url) if "note-batch" in key or "pending" in key]


async def test_a_cleared_namespace_says_how_many_there_were(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{redis_url}&{MORE}"
    await decided_by_one_who_died(url, monkeypatch)
    async with open_backend(url) as backend:
        assert (await backend.memory.clear_namespace(namespace="")).deleted == COUNT
        assert await values(backend) == []
        put = await backend.memory.put_memory(item=MemoryItem(key="0", value="v"))
        assert put.version == 2


@pytest.mark.long
async def test_readers_see_a_batch_whole_or_not_at_all(redis_url: str) -> None:
    url = f"{redis_url}&{MORE}"
    done = asyncio.Event()
    seen = set[str]()

    async def read() -> None:
        async with open_backend(url) as backend:
            while not done.is_set():
                found = await values(backend)
                assert len(found) in (0, COUNT)
                texts = {value.split()[0] for value in found}
                assert len(texts) <= 1, "half of one batch and half of another"
                seen.update(texts)

    async def write(name: str) -> None:
        async with open_backend(url) as backend:
            for n in range(6):
                put = await backend.memory.put_memories(items=notes(f"{name}{n}"))
                assert len(set(put.versions)) == 1
                versions.append(put.versions[0])

    versions = list[int]()
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(read()) for _ in range(2)]
        await asyncio.gather(write("a"), write("b"))
        done.set()
    assert all(reader.done() for reader in readers)
    assert sorted(versions) == list(range(1, 13))
    assert seen


@pytest.mark.long
async def test_a_batch_is_applied_once_and_whole_wherever_it_is_cut(redis_url: str) -> None:
    """Behind each request in turn the connection is lost, before it or before its answer."""
    url = f"{redis_url}&{MORE}"
    version = unknown = refused = 0
    async with proxied(redis_url) as proxy, open_backend(url) as straight:
        # Sent in one go, then decided, taken in, in pieces, and asked about.
        for fault in (Fault(reply=0, after=n) for n in range(11)):
            async with open_backend(proxy.url(url)) as backend:
                await backend.memory.get_memory(key="warm")
                proxy.cut(fault)
                most = version + 1
                try:
                    put = await backend.memory.put_memories(items=notes(f"{fault.after}"))
                    assert put.versions == (version + 1,) * COUNT
                    version = most
                except OutcomeUnknownError:
                    unknown += 1
                except StoreUnavailableError:
                    refused += 1
                    most = version
                proxy.cut(None)
                found = (await straight.memory.list_memories()).items
                versions = {scored.item.version for scored in found} or {0}
                assert len(versions) == 1
                assert version <= max(versions) <= most
                version = max(versions)
                assert len(found) in (0, COUNT)
    assert refused == 1, "what was only sent is nothing"
    assert unknown >= 8


async def test_a_batch_that_was_decided_is_taken_in_by_a_full_server(
    monkeypatch: pytest.MonkeyPatch, wheel_version: str
) -> None:
    with embedded_redis(wheel_version) as server:
        url = f"{with_prefix(server.url)}&{MORE}"
        await decided_by_one_who_died(url, monkeypatch)
        async with Redis.from_url(server.url) as client, open_backend(url) as backend:
            await client.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailableError, match="OOM"):
                await backend.memory.put_memories(items=notes("w"), namespace="other")
            assert len(await values(backend)) == COUNT
            assert (await backend.memory.clear_namespace(namespace="")).deleted == COUNT


async def test_a_cap_holds_for_a_large_batch(redis_url: str) -> None:
    url = f"{redis_url}&{MORE}&notes_per_namespace=2000"
    async with open_backend(url) as backend:
        await backend.memory.put_memories(items=notes("old"))
        new = [MemoryItem(key=f"new {n}", value="new") for n in range(COUNT)]
        await backend.memory.put_memories(items=new)
        found = await values(backend)
        assert len(found) == 2_000
        assert found.count("new") == COUNT
        assert found[:2] == [f"old {COUNT - 400}", f"old {COUNT - 399}"], "the oldest went"


async def test_a_large_batch_brings_its_vectors(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{redis_url}&{MORE}"
    items = [MemoryItem(key=f"{n}", value=spell(1, n)) for n in range(COUNT)]
    async with open_backend(url, embedder=Spelled()) as backend:
        await backend.memory.put_memories(items=items)
        found = (await backend.memory.list_memories(query=spell(1, 0), limit=1)).items
        assert found[0].item.key == "0"
        assert found[0].score == pytest.approx(1)
        vectors = (await commands_of(url))["{.0}:memory"]
        assert vectors.count(str(COUNT)) == 2, "so many notes, so many vectors"


async def test_vectors_are_not_exchanged_while_a_batch_is_pending(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{redis_url}&{MORE}"
    await decided_by_one_who_died(url, monkeypatch, spell(1, 2), embedder=Spelled())

    class Other(Spelled):
        name = "another"

    async with open_backend(url, embedder=Other()) as backend:
        while not (await backend.admin.reembed(limit=1_000)).done:
            pass
        assert len(await values(backend, query=spell(1, 2))) == COUNT


async def test_what_was_laid_out_and_never_decided_is_swept(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{redis_url}&{MORE}"
    now = datetime.now(UTC)
    async with open_backend(url, clock=lambda: now) as backend:
        with monkeypatch.context() as patch:
            patch.setattr(putting, "run_settled", dies)
            with pytest.raises(StoreError):
                await backend.memory.put_memories(items=notes("v" * 300))
        assert await values(backend) == []
        assert [key for key in await keys_of(url) if "notes-laid" in key]
        now += timedelta(days=2)
        freed = (await backend.admin.sweep()).freed
        assert freed["note_parts"] == COUNT
        left = {key.split("}:")[-1].split(":")[0] for key in await keys_of(url)}
        assert not left & {"notes-laid", "note-bodies", "staged-notes", "note-batch"}


async def test_more_than_one_batch_is_taken_in_one_after_the_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_batches, "TAKEN_AT_ONCE", 100)
    url = f"{redis_url}&{MORE}"
    async with open_backend(url) as one, open_backend(url) as other:
        puts = [
            backend.memory.put_memories(items=notes(f"{n}"))
            for n, backend in enumerate((one, other) * 3)
        ]
        done = await asyncio.gather(*puts)
        assert sorted(put.versions[0] for put in done) == [1, 2, 3, 4, 5, 6]
        assert sorted(put.created[0] for put in done) == [False] * 5 + [True]
        assert len(await values(one)) == COUNT
    assert not [key for key in await keys_of(url) if "notes-told" in key]


@pytest.mark.long
async def test_large_batches_and_steps_keep_to_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_cluster(primaries=2, replicas=0) as cluster:
        url = f"{with_prefix(cluster.url)}&{MORE}&buckets=8"
        await decided_by_one_who_died(url, monkeypatch)
        async with open_backend(url) as backend:
            for space in "abc":
                put = await backend.memory.put_memories(items=notes(), namespace=space)
                assert put.created == (True,) * COUNT
            assert len((await backend.admin.migrate(target="1")).applied) == 1
            assert len((await backend.admin.migrate()).applied) == 1
            assert len(await values(backend)) == COUNT
            assert (await backend.admin.verify()).problems == ()
