"""Recall in Postgres: with an index, without one, without the extension."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from conformance_tests.suite.spelled import Spelled, recalled, spell
from stores_core import (
    Backend,
    InvalidRequestError,
    MemoryItem,
    open_backend,
)
from stores_sql.postgres import recall
from stores_sql.postgres.extension import Extension, Forms, find_extension
from stores_sql.postgres.statements import Connection
from stores_sql.postgres.vector_indexes import LARGE
from tests.postgres_notes import Numbered, best, bring, clustered, execute, keys
from tests.postgres_plans import MODES, explained, nodes
from tests.postgres_server import asyncpg, drop_database, new_database

EAST, WEST = spell(1, 0), spell(-1, 0)
DIMENSIONS = 16
ALL = range(int(os.environ.get("STORES_TEST_NOTES", LARGE + 2_000)))
LARGE_ONE, SMALL_ONE = ALL[: -len(ALL) // 100], ALL[-len(ALL) // 100 :]
QUERIES = 30


# Recall at a size where an index is asked


@pytest.fixture(scope="module")
def rows() -> Any:
    return clustered(1, len(ALL), DIMENSIONS)


@pytest.fixture(scope="module")
def large(postgres: str, rows: Any) -> Iterator[str]:
    """A database with an index, a namespace large enough for it, and one that holds 1 % of all."""
    url = asyncio.run(new_database(postgres))

    async def fill() -> None:
        embedder = Numbered(rows)
        await bring(url, embedder, {"large": LARGE_ONE, "small": SMALL_ONE})
        async with open_backend(url, embedder=embedder) as backend:
            assert (await backend.admin.reembed(timeout=600)).done

    asyncio.run(fill())
    yield url
    asyncio.run(drop_database(postgres, url))


@asynccontextmanager
async def asking(url: str, rows: Any) -> AsyncGenerator[tuple[Backend, Any]]:
    """A client, and queries whose vectors its embedder knows by their numbers."""
    queries = clustered(2, QUERIES, DIMENSIONS)
    embedder = Numbered(np.concatenate([rows, queries]))
    async with open_backend(url, embedder=embedder) as backend:
        yield backend, queries


def watching(url: str, sent: list[Any]) -> Any:
    """A pool of one connection, whose statements are added to ``sent``."""

    async def watch(connection: Any) -> None:
        connection.add_query_logger(sent.append)

    return asyncpg.create_pool(url, min_size=1, max_size=1, init=watch)


@pytest.mark.parametrize("space", ["large", "small"])
@pytest.mark.parametrize("by_server", [True, False])
async def test_the_ten_best_are_found_in_a_large_namespace_and_in_one_percent(
    large: str, rows: Any, space: str, by_server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_server:
        monkeypatch.setattr(recall, "MATRIX_BYTES_BESIDE_INDEX", 0)
    among = LARGE_ONE if space == "large" else SMALL_ONE
    hits = 0
    async with asking(large, rows) as (backend, queries):
        for n, query in enumerate(queries):
            found = await keys(backend, space, f"query {len(ALL) + n}")
            assert len(found) == len(set(found)) == 10
            hits += len(set(found) & {str(row) for row in best(rows, among, query, 10)})
    assert hits >= (0.98 if by_server and space == "large" else 1) * 10 * QUERIES


async def test_a_large_namespace_is_asked_of_the_index_and_a_small_one_is_not(
    large: str, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "MATRIX_BYTES_BESIDE_INDEX", 0)
    embedder = Numbered(rows)
    for space, indexed in (("large", True), ("small", False)):
        sent: list[Any] = []
        async with (
            watching(large, sent) as pool,
            open_backend(large, pool=pool, embedder=embedder) as backend,
        ):
            await keys(backend, space, "query 3")
        (statement,) = [one for one in sent if "vector_send" in one.query]
        for mode in MODES if indexed else MODES[:1]:
            plan = await explained(large, statement, mode)
            used = {node.get("Index Name", "") for node in nodes(plan)}
            assert any(name.startswith("vectors_nearest_") for name in used) is indexed
            walked = {n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan"}
            assert not walked & {"notes", "vectors"}


async def test_what_the_index_is_told_is_not_left_on_the_connection(
    large: str, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "MATRIX_BYTES_BESIDE_INDEX", 0)
    pool = await asyncpg.create_pool(large, min_size=1, max_size=1)
    async with open_backend(large, pool=pool, embedder=Numbered(rows)) as backend:
        assert len(await keys(backend, "large", "query 3")) == 10
        assert await pool.fetchval("SHOW hnsw.ef_search") == "40"
        assert await pool.fetchval("SHOW hnsw.iterative_scan") == "off"
    await pool.close()


@pytest.mark.usefixtures("index_early")
async def test_zero_huge_and_tiny_vectors_stand_where_they_belong_beside_an_index(
    postgres_url: str,
) -> None:
    rows = np.zeros((700, 2), dtype=np.float32)
    rows[:, 1] = -np.arange(1, len(rows) + 1)  # all to the south
    await bring(postgres_url, Numbered(rows), {"s": range(len(rows))})
    async with open_backend(postgres_url, embedder=Numbered(rows)) as backend:
        assert (await backend.admin.reembed(timeout=120)).done
    await execute(postgres_url, "UPDATE agent_stores.embedders SET name = 'spelled'")
    async with open_backend(postgres_url, embedder=Spelled()) as backend:
        odd = {"huge": spell(3e38, 3e38), "zero": spell(0, 0), "tiny": spell(1e-30, 0)}
        for key, text in odd.items():
            await backend.memory.put_memory(item=MemoryItem(key=key, value=text), namespace="s")
        found = await recalled(backend, "s", EAST, limit=3)
        assert [key for key, _ in found] == ["tiny", "huge", "0"]
        assert [score for _, score in found] == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)
        found = await recalled(backend, "s", spell(0, 2e38), limit=2)
        assert [key for key, _ in found] == ["huge", "zero"]
        assert [score for _, score in found] == pytest.approx([0.5**0.5, 0], abs=1e-6)
        nothing = await recalled(backend, "s", spell(0, 0), limit=2)
        assert nothing == [("0", 0.0), ("1", 0.0)]
        same = await recalled(backend, "s", spell(0, -1), limit=3)
        assert [key for key, _ in same] == ["0", "1", "2"], "all are as near: the oldest come first"


# Which way a namespace is ranked


async def test_client_and_server_rank_alike_whatever_changes(postgres_url: str) -> None:
    """A namespace that changes is ranked by the server, one that stays by the client's matrix."""
    chance = np.random.default_rng(5)
    async with (
        open_backend(postgres_url, embedder=Spelled(3)) as one,
        open_backend(postgres_url, embedder=Spelled(3)) as other,
    ):
        vectors = {f"k{n}": chance.standard_normal(3) for n in range(150)}
        await one.memory.put_memories(
            items=[MemoryItem(key=key, value=spell(*v)) for key, v in vectors.items()]
        )
        for step in range(60):
            key = f"k{chance.integers(160)}"
            match step % 6:
                case 0:
                    vectors[key] = chance.standard_normal(3)
                    item = MemoryItem(key=key, value=spell(*vectors[key]))
                    await other.memory.put_memory(item=item)
                case 1:
                    vectors.pop(key, None)
                    await other.memory.delete_memory(key=key)
                case _:
                    pass
            query = chance.standard_normal(3)
            order = sorted(vectors, key=lambda k: -vectors[k] @ query / np.linalg.norm(vectors[k]))
            for client in (one, other):
                assert await keys(client, "", spell(*query), limit=5) == order[:5]
                assert len(await keys(client, "", spell(*query), limit=0)) == len(vectors)


async def test_recall_beside_writers_is_never_short_nor_stale(postgres_url: str) -> None:
    async with (
        open_backend(postgres_url, embedder=Spelled()) as writer,
        open_backend(postgres_url, embedder=Spelled()) as reader,
    ):
        for n in range(120):
            await writer.memory.put_memory(item=MemoryItem(key=f"k{n}", value=spell(1, n)))
        done = asyncio.Event()

        async def write() -> None:
            for n in range(120):
                await writer.memory.put_memory(item=MemoryItem(key=f"k{n}", value=spell(-1, n)))
            done.set()

        async def read() -> None:
            while not done.is_set():
                answer = await reader.memory.list_memories(query=EAST, limit=10)
                assert len(answer.items) == 10
                for scored in answer.items:
                    x = 1 if scored.item.value.startswith("| 1") else -1
                    y = float(scored.item.value.split()[-1])
                    assert scored.score == pytest.approx(x / (1 + y * y) ** 0.5, abs=1e-6)

        await asyncio.gather(write(), read(), read())


# The extension


@pytest.mark.parametrize("dimensions", [3, 3_000, 4_096])
async def test_the_extension_may_live_in_another_schema(
    postgres: str, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "SMALL", 0)
    url = await new_database(postgres, extensions=())
    await execute(url, 'CREATE SCHEMA "Their own"', 'CREATE EXTENSION vector SCHEMA "Their own"')
    try:
        async with open_backend(url, embedder=Spelled(dimensions)) as backend:
            for key, text in (("east", EAST), ("west", WEST), ("north", spell(0, 1))):
                await backend.memory.put_memory(item=MemoryItem(key=key, value=text))
            for _ in range(3):  # by the server, by the client, by the client again
                assert await keys(backend, "", spell(2, 1), limit=2) == ["east", "north"]
    finally:
        await drop_database(postgres, url)


async def test_without_the_extension_a_client_ranks_what_it_can_and_says_what_to_install(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await new_database(postgres, extensions=())
    try:
        async with open_backend(url, embedder=Spelled()) as backend:
            for key, text in (("east", EAST), ("west", WEST)):
                await backend.memory.put_memory(item=MemoryItem(key=key, value=text))
            assert await keys(backend, "", EAST) == ["east", "west"]
            assert (await backend.admin.reembed()).done
            monkeypatch.setattr(recall, "MATRIX_BYTES", 15)
            with pytest.raises(InvalidRequestError, match="CREATE EXTENSION vector"):
                await keys(backend, "", EAST, limit=1)
        async with open_backend(url) as backend:
            assert await keys(backend, "", "| -") == ["west"]
    finally:
        await drop_database(postgres, url)


async def test_more_dimensions_than_an_index_takes_are_ranked_all_the_same(
    postgres_url: str,
) -> None:
    async with open_backend(postgres_url, embedder=Spelled(16_001)) as backend:
        for key, text in (("east", EAST), ("west", WEST)):
            await backend.memory.put_memory(item=MemoryItem(key=key, value=text))
        assert await keys(backend, "", EAST) == ["east", "west"]


def test_older_versions_of_the_extension_are_asked_for_what_they_have() -> None:
    newest, old, oldest = (Extension("public", (0, minor, 0)) for minor in (8, 6, 4))
    assert newest.can_iterate
    assert not old.can_iterate
    assert [newest.can_index(n) for n in (2_000, 2_001, 4_000, 4_001)] == [True, True, True, False]
    assert [old.can_index(n) for n in (2_000, 2_001)] == [True, False]
    assert not oldest.can_index(2)
    column = recall.namespaces.c.number  # any column will do
    assert "l2_normalize" in str(Forms(newest, 3).distance(column, column))
    assert "vector_norm" in str(Forms(old, 3).distance(column, column))


async def test_the_version_of_the_extension_is_read(postgres_url: str) -> None:
    driver = await asyncpg.connect(postgres_url)
    found = await find_extension(Connection(driver, "agent_stores"))
    await driver.close()
    assert found is not None
    assert found.schema == "public"
    assert found.version >= (0, 5)
