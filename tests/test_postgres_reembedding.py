"""Embedders that take over, and their indexes."""

import asyncio
from typing import Any

import numpy as np
import pytest

from conformance_tests.suite.spelled import Spelled, spell
from stores_core import (
    Backend,
    EmbeddingMismatchError,
    MemoryItem,
    open_backend,
)
from stores_sql.postgres.vector_indexes import LARGE
from tests.postgres_notes import Numbered, bring, clustered, execute, keys, value
from tests.postgres_server import asyncpg

EAST, WEST = spell(1, 0), spell(-1, 0)
ALL = range(LARGE + 2_000)


@pytest.mark.usefixtures("index_early")
async def test_a_role_without_rights_on_the_tables_reembeds_without_an_index(
    postgres_url: str,
) -> None:
    rows = clustered(3, 510, 2)
    await bring(postgres_url, Numbered(rows), {"s": range(len(rows))})
    role = f"role_{postgres_url[-12:]}"
    await execute(
        postgres_url,
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT USAGE ON SCHEMA agent_stores TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agent_stores TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA agent_stores TO {role}",
    )
    try:

        async def be_it(connection: Any) -> None:
            await connection.execute(f"SET ROLE {role}")

        pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=1, setup=be_it)
        async with open_backend(
            postgres_url, pool=pool, create=False, embedder=Numbered(rows)
        ) as backend:
            assert (await backend.admin.reembed()).done
            assert len(await keys(backend, "s", "query 5")) == 10
            told = [text for text in (await backend.admin.check()).warnings if "reembed" in text]
            assert len(told) == 1
        await pool.close()
        async with open_backend(postgres_url, embedder=Numbered(rows)) as backend:
            assert told[0] in (await backend.admin.check()).warnings
            assert (await backend.admin.reembed()).done
            assert told[0] not in (await backend.admin.check()).warnings
            await execute(postgres_url, "DROP INDEX agent_stores.vectors_nearest_1")
        names = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'vectors_nearest_%'"
        assert await value(postgres_url, names) == 0
    finally:
        await execute(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def test_taking_over_misses_no_note_that_is_put_meanwhile(postgres_url: str) -> None:
    async with (
        open_backend(postgres_url, embedder=Spelled(name="old")) as old,
        open_backend(postgres_url, embedder=Spelled(name="old")) as other,
        open_backend(postgres_url, embedder=Spelled(name="new")) as new,
    ):
        for n in range(20):
            await old.memory.put_memory(item=MemoryItem(key=f"k{n}", value=EAST), namespace="s")
        put, chance = 0, np.random.default_rng(1)

        async def go_on_putting(client: Backend, name: str) -> None:
            nonlocal put
            for n in range(1_000):
                try:
                    await client.memory.put_memory(
                        item=MemoryItem(key=f"{name}{n}", value=WEST), namespace=f"s{n % 3}"
                    )
                except EmbeddingMismatchError:
                    return
                put += 1
                await asyncio.sleep(0.1 * float(chance.random()))
            raise AssertionError("the new embedder never took over")

        async def take_over() -> None:
            while not (await new.admin.reembed(limit=500)).done:
                pass

        await asyncio.gather(go_on_putting(old, "a"), go_on_putting(other, "b"), take_over())
        lacking = await value(
            postgres_url,
            "SELECT count(*) FROM agent_stores.notes n WHERE NOT EXISTS (SELECT FROM "
            "agent_stores.vectors v JOIN agent_stores.embedders e ON e.number = v.embedder "
            "WHERE e.name = 'new' AND v.note = n.number)",
        )
        assert lacking == 0
        assert await value(postgres_url, "SELECT count(*) FROM agent_stores.vectors") == 20 + put
        assert await value(postgres_url, "SELECT name FROM agent_stores.embedders") == "new"


@pytest.mark.usefixtures("index_early")
async def test_an_index_goes_with_its_embedder(postgres_url: str) -> None:
    rows = clustered(4, 600, 2)
    await bring(postgres_url, Numbered(rows), {"s": range(len(rows))})
    names = "SELECT array_agg(indexname::text) FROM pg_indexes WHERE indexname LIKE 'vectors_near%'"
    async with open_backend(postgres_url, embedder=Numbered(rows)) as backend:
        assert (await backend.admin.reembed(timeout=120)).done
    (first,) = await value(postgres_url, names)
    renamed = Numbered(rows)
    renamed.name = "renamed"
    async with open_backend(postgres_url, embedder=renamed) as backend:
        while not (await backend.admin.reembed(limit=500, timeout=120)).done:
            pass
        assert len(await keys(backend, "s", "query 5")) == 10
    (second,) = await value(postgres_url, names)
    assert first != second
