"""Recall in Redis: with a vector set, without one, and while others write."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from subprocess import run
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis as TypedRedis
from redis.exceptions import ResponseError

from conformance_tests.suite.spelled import Spelled, recalled, spell
from stores_core import Backend, MemoryItem, open_backend
from stores_redis import vector_indexes
from tests.postgres_notes import Numbered, best, clustered, keys
from tests.redis_server import NAMED

Redis: Any = TypedRedis  # its types are partly unknown

DIMENSIONS, COUNT, QUERIES = 16, 3_000, 30
ROWS = clustered(1, COUNT, DIMENSIONS)
ASKED = clustered(2, QUERIES, DIMENSIONS)


async def do(url: str, *command: object) -> Any:
    async with Redis.from_url(url.partition("?")[0]) as client:
        return await client.execute_command(*command)


async def calls(url: str, name: str) -> int:
    """How often the server was given a command."""
    found = (await do(url, "INFO", "commandstats")).get(f"cmdstat_{name}", {})
    return int(found.get("calls", 0))


@pytest.fixture
def sets(own_redis: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server with vector sets, where the smallest namespace is large enough for one."""
    try:
        asyncio.run(do(own_redis, "VCARD", "none"))
    except ResponseError:
        pytest.skip("this server has no vector sets")
    monkeypatch.setattr(vector_indexes, "LARGE_BYTES", 0)
    return own_redis


async def fill(backend: Backend, space: str, numbers: range) -> None:
    items = [MemoryItem(key=f"{n}", value=f"{n}", metadata={"of": n % 10}) for n in numbers]
    for start in range(0, len(items), 1_000):
        await backend.memory.put_memories(items=items[start : start + 1_000], namespace=space)


@asynccontextmanager
async def filled(url: str) -> AsyncGenerator[Backend]:
    """A client that has read nothing yet, of a namespace with a vector set and a small one."""
    embedder = Numbered(np.concatenate([ROWS, ASKED]))
    async with open_backend(url, embedder=embedder) as backend:
        await fill(backend, "large", range(COUNT))
        await fill(backend, "small", range(30))
        while not (await backend.admin.reembed(timeout=120)).done:
            pass
    async with open_backend(url, embedder=embedder) as backend:
        yield backend


async def test_a_set_proposes_nearly_all_of_the_ten_best(sets: str) -> None:
    async with filled(sets) as backend:
        before, hits, filtered = await calls(sets, "VSIM"), 0, 0
        for n, query in enumerate(ASKED):
            found = await keys(backend, "large", f"query {COUNT + n}")
            assert len(found) == len(set(found)) == 10
            hits += len(set(found) & {str(row) for row in best(ROWS, range(COUNT), query, 10)})
            found = await keys(backend, "large", f"query {COUNT + n}", where={"of": 3})
            among = range(3, COUNT, 10)
            filtered += len(set(found) & {str(row) for row in best(ROWS, among, query, 10)})
            assert all(int(key) % 10 == 3 for key in found)
        assert hits >= 0.98 * 10 * QUERIES
        assert filtered >= 0.98 * 10 * QUERIES
        assert await calls(sets, "VSIM") == before + 2 * QUERIES, "the sets were to be asked"


async def test_scores_and_order_come_from_the_stored_vectors(sets: str) -> None:
    async with filled(sets) as backend:
        found = await recalled(backend, "large", f"query {COUNT}", 20)
        wide, query = ROWS.astype(np.float64), ASKED[0].astype(np.float64)
        for key, score in found:
            row = wide[int(key)]
            true = float(row @ query / np.linalg.norm(row) / np.linalg.norm(query))
            assert abs(score - true) < 1e-6
        assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)


async def test_what_is_put_or_removed_is_so_for_the_next_query(sets: str) -> None:
    async with filled(sets) as backend:
        query, memory = f"query {COUNT}", backend.memory
        first, second, *_ = await keys(backend, "large", query)
        await memory.delete_memory(key=first, namespace="large")
        assert (await keys(backend, "large", query))[0] == second
        await memory.put_memory(item=MemoryItem(key="new", value=query), namespace="large")
        assert (await keys(backend, "large", query))[:2] == ["new", second]
        await memory.put_memory(item=MemoryItem(key="new", value="far 7"), namespace="large")
        assert (await keys(backend, "large", query))[0] == second
        async with open_backend(sets) as other:  # which has no embedder
            await other.memory.put_memory(
                item=MemoryItem(key="late", value=query), namespace="large"
            )
        assert (await keys(backend, "large", query))[:2] == ["late", second]
        await memory.clear_namespace(namespace="large")
        assert await keys(backend, "large", query) == []


@pytest.mark.long
async def test_more_than_a_set_can_give_is_ranked_exactly(sets: str) -> None:
    async with filled(sets) as backend:
        assert len(await keys(backend, "large", f"query {COUNT}", 2_000)) == 2_000
        assert len(await keys(backend, "large", f"query {COUNT}", 0)) == COUNT
    async with filled(sets) as backend:
        # Nothing near has it, so the set finds too few.
        items = [MemoryItem(key=f"rare {n}", value=f"{n}", metadata={"rare": 1}) for n in (5, 6)]
        await backend.memory.put_memories(items=items, namespace="large")
        found = await keys(backend, "large", f"query {COUNT}", where={"rare": 1})
        assert sorted(found) == ["rare 5", "rare 6"]


async def test_zero_huge_and_tiny_vectors_stand_where_they_belong(sets: str) -> None:
    vectors = {"huge": (3e38, 3e38), "tiny": (1e-30, 0.0), "zero": (0.0, 0.0)}
    items = [MemoryItem(key=f"{n}", value=spell(-1 - n, -n)) for n in range(200)]
    items += [MemoryItem(key=key, value=spell(*numbers)) for key, numbers in vectors.items()]
    async with open_backend(sets, embedder=Spelled()) as backend:
        await backend.memory.put_memories(items=items, namespace="s")
        assert (await backend.admin.reembed()).done
        assert await backend.memory.list_memories(namespace="s", query=spell(1, 0), limit=2)
    async with open_backend(sets, embedder=Spelled()) as backend:
        found = await recalled(backend, "s", spell(1, 0), 4)
        assert [key for key, _ in found] == ["tiny", "huge", "zero", "199"]
        assert [round(score, 6) for _, score in found[:3]] == [1.0, 0.707107, 0.0]
        assert (await recalled(backend, "s", spell(1e30, 0), 1))[0][0] == "tiny"


async def test_a_set_that_holds_removed_notes_makes_no_answer_wrong(sets: str) -> None:
    async with filled(sets) as backend:
        # Beyond what the namespace remembers of its removals, so the set is never told of these.
        nearest = await keys(backend, "large", f"query {COUNT}", 1_200)
        assert len(nearest) == 1_200
        for key in nearest:
            await backend.memory.delete_memory(key=key, namespace="large")
        left = [n for n in range(COUNT) if str(n) not in set(nearest)]
        expected = [str(row) for row in best(ROWS, left, ASKED[0], 10)]
    async with open_backend(sets, embedder=Numbered(np.concatenate([ROWS, ASKED]))) as backend:
        for _ in range(2):
            assert await keys(backend, "large", f"query {COUNT}") == expected


async def test_the_second_query_of_a_small_namespace_reads_no_vectors(own_redis: str) -> None:
    async with open_backend(own_redis, embedder=Numbered(ROWS)) as backend:
        await fill(backend, "s", range(1_000))
        await keys(backend, "s", "query 3")
        before = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"])
        for _ in range(10):
            await keys(backend, "s", "query 3")
        sent = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"]) - before
    assert sent < 10 * 10_000, f"{sent} bytes for ten queries of ten notes"


@pytest.mark.long
def test_embeddings_conform_where_every_query_asks_a_set(redis: str) -> None:
    ran = run(
        [
            *(sys.executable, "-m", "conformance_tests", "tests.redis_indexed:open_backend"),
            *("-q", "--quick", "-k", "embed or recall or where or notes"),
        ],
        env=os.environ | {NAMED: redis},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "FAILED" not in ran.stdout, ran.stdout[-3_000:]
    for number in range(1, 7):
        assert f"EMB-{number}    proved" in ran.stdout, ran.stdout[-3_000:]


async def test_check_names_large_namespaces_without_a_set_until_reembed_was_run(sets: str) -> None:
    async with open_backend(sets, embedder=Spelled()) as backend:
        for space in ("has one", "lacks one"):
            item = MemoryItem(key="k", value=spell(1, 0))
            await backend.memory.put_memory(item=item, namespace=space)
            if space == "has one":
                assert (await backend.admin.reembed()).done
        [warning] = [line for line in (await backend.admin.check()).warnings if "set" in line]
        assert "'lacks one'; run reembed" in warning
        assert "has one" not in warning
        assert (await backend.admin.reembed()).done
        assert not [line for line in (await backend.admin.check()).warnings if "reembed" in line]
