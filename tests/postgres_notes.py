"""Many notes with vectors, brought into Postgres faster than by putting them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from stores_core import Backend, MemoryItem, open_backend
from stores_core.embedding import Purpose
from stores_sql.postgres import recall, vector_indexes
from tests.postgres_server import asyncpg

Rows = npt.NDArray[np.float32]


class Numbered:
    """The vector of a text is the row whose number the text ends with."""

    name = "numbered"

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.dimensions = rows.shape[1]

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        return [self.rows[int(text.rpartition(" ")[2])].tolist() for text in texts]


def clustered(seed: int, count: int, dimensions: int, topics: int = 50) -> Rows:
    """Vectors that lie about topics, as those of texts do; the topics are always the same."""
    centres = np.random.default_rng(7).standard_normal((topics, dimensions))
    chance = np.random.default_rng(seed)
    near = centres[chance.integers(0, topics, count)]
    return (near + 0.7 * chance.standard_normal((count, dimensions))).astype(np.float32)


def best(rows: Rows, among: Sequence[int], query: Rows, limit: int) -> list[int]:
    """The numbers of the nearest rows, ranked in double precision without a store."""
    wide = rows[list(among)].astype(np.float64)
    scores = wide @ query.astype(np.float64) / np.linalg.norm(wide, axis=1)
    return [among[index] for index in np.argsort(-scores, kind="stable")[:limit]]


async def bring(url: str, embedder: Numbered, spaces: Mapping[str, Sequence[int]]) -> None:
    """Notes with the keys and values ``n``, one for each number given to a namespace, as if put."""
    async with open_backend(url, embedder=embedder) as backend:
        # The first vector puts the embedder on record; its note goes again.
        await backend.memory.put_memory(item=MemoryItem(key="0", value="0"), namespace="first")
        await backend.memory.delete_memory(key="0", namespace="first")
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO agent_stores")
        tenant, generation = await connection.fetchrow(
            "SELECT tenant, embedder FROM tenant_states WHERE embedder IS NOT NULL"
        )
        number = await connection.fetchval("SELECT coalesce(max(number), 0) FROM notes") + 1
        for name, rows in spaces.items():
            space = await connection.fetchval(
                "INSERT INTO namespaces (tenant, name, note_count, changes, removed_at) "
                "VALUES ($1, $2, $3, 1, 0) RETURNING number",
                tenant, name, len(rows),
            )  # fmt: skip
            notes = [
                (tenant, space, number + index, str(row), index, index, 1, b"%d\xff%d" % (row, row),
                 "{}", b"%d" % row)
                for index, row in enumerate(rows)
            ]  # fmt: skip
            vectors = [
                (tenant, space, generation, number + index, embedder.rows[row].tolist())
                for index, row in enumerate(rows)
            ]
            await connection.copy_records_to_table(
                "notes", records=notes,
                columns=["tenant", "namespace", "number", "key", "created", "updated", "version",
                         "folded", "metadata", "value"],
            )  # fmt: skip
            await connection.copy_records_to_table(
                "vectors", records=vectors,
                columns=["tenant", "namespace", "embedder", "note", "vector"],
            )  # fmt: skip
            number += len(rows)
        await connection.execute(
            "SELECT setval(pg_get_serial_sequence('notes', 'number'), $1)", number
        )
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def value(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def keys(backend: Backend, space: str, query: str, limit: int = 10, **more: Any) -> list[str]:
    answer = await backend.memory.list_memories(namespace=space, query=query, limit=limit, **more)
    return [scored.item.key for scored in answer.items]


@pytest.fixture
def index_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace of 500 notes is large enough for an index, and it is asked of it alone."""
    monkeypatch.setattr(vector_indexes, "LARGE", 500)
    monkeypatch.setattr(recall, "LARGE", 500)
    monkeypatch.setattr(recall, "MATRIX_BYTES_BESIDE_INDEX", 0)
