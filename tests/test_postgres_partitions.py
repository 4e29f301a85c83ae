"""The tables in hash partitions, as docs/scaling.md says: everything works, and plans prune."""

import asyncio
from typing import Any

import pytest

from stores_core import MemoryItem, WordEmbedder, open_backend
from stores_sql.postgres.tables import METADATA
from tests.postgres_callers import TURN, work
from tests.postgres_plans import copies, explained, nodes, recorded
from tests.postgres_server import asyncpg

PARTS = 4
BY_TENANT = [name for name, table in METADATA.tables.items() if "tenant" in table.primary_key]


def partitioned(table: str, column: str) -> list[str]:
    """The statements of docs/scaling.md that make a table, still empty, anew in partitions."""
    parts = [
        f"CREATE TABLE agent_stores.{table}_{n} PARTITION OF agent_stores.{table}_new "
        f"FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {n})"
        for n in range(PARTS)
    ]
    return [
        f"CREATE TABLE agent_stores.{table}_new (LIKE agent_stores.{table} INCLUDING ALL) "
        f"PARTITION BY HASH ({column})",
        *parts,
        f"DROP TABLE agent_stores.{table}",
        f"ALTER TABLE agent_stores.{table}_new RENAME TO {table}",
        f"ALTER TABLE agent_stores.{table} RENAME CONSTRAINT {table}_new_pkey TO {table}_pkey",
    ]


async def prepare(url: str, tables: dict[str, str]) -> None:
    async with open_backend(url):
        pass
    connection = await asyncpg.connect(url)
    version = connection.get_server_version().major
    if version < 17 and "notes" in tables:
        await connection.close()
        pytest.skip("Postgres before 17 has no identity columns in partitioned tables")
    for table, column in tables.items():
        for statement in partitioned(table, column):
            await connection.execute(statement)
    await connection.close()


async def read_parts(url: str, statements: list[Any], table: str) -> set[str]:
    """The partitions of the table that the statements looked into."""
    return {
        node["Relation Name"]
        for statement in statements
        if f"agent_stores.{table}" in statement.query
        for node in nodes(await explained(url, statement, "force_generic_plan"))
        if node.get("Relation Name", "").startswith(f"{table}_") and node["Actual Loops"]
    }


async def use(url: str) -> None:
    """Everything, for several tenants."""
    for tenant in ("", "one", "two"):
        async with open_backend(url, tenant=tenant, embedder=WordEmbedder()) as backend:
            await work(backend, "caller", 1)
            await backend.memory.put_memory(item=MemoryItem(key="k", value="words"))
            recalled = await backend.memory.list_memories(query="words", limit=1)
            assert recalled.items[0].item.key == "k"
            run_id = "caller"
            for n in range(0 if tenant else 70):  # so many that ranges are joined
                await backend.runs.append_messages(run_id=run_id, messages=TURN[:1])
                await backend.runs.fork_run(run_id=run_id, new_run_id=f"f{n}")
                run_id = f"f{n}"
            await backend.runs.delete_run(run_id="caller")
            while (await backend.admin.sweep()).more:
                pass
            assert (await backend.admin.verify()).problems == ()


async def fill(url: str) -> None:
    """Entries of other runs, so that it pays to look things up."""
    connection = await asyncpg.connect(url)
    others = copies(
        "entries",
        "generate_series(1, 50000) AS n",
        "template.log = (SELECT min(log) FROM agent_stores.entries) AND template.position = 0",
        tenant="n % 8",
        log="-n",
    )
    await connection.execute(others)
    await connection.execute("ANALYZE")
    await connection.close()


@pytest.mark.long
async def test_tables_in_partitions_by_tenant_work_and_are_pruned(postgres_url: str) -> None:
    await prepare(postgres_url, dict.fromkeys(BY_TENANT, "tenant"))
    await use(postgres_url)
    await fill(postgres_url)
    async with recorded(postgres_url) as (backend, sent):
        await backend.runs.load_run(run_id="f60")
        await backend.runs.append_messages(run_id="f60", messages=TURN, idempotency_key="k")
        await backend.runs.list_runs(limit=10)
        await asyncio.sleep(0)  # the driver tells of statements a moment later
        assert len(await read_parts(postgres_url, sent, "entries")) == 1
        assert len(await read_parts(postgres_url, sent, "runs")) == 1


async def test_entries_in_partitions_by_log_work_and_are_pruned(postgres_url: str) -> None:
    await prepare(postgres_url, {"entries": "log"})
    await use(postgres_url)
    async with recorded(postgres_url) as (backend, sent):
        await backend.runs.create_run(run_id="plain")
        await backend.runs.append_messages(run_id="plain", messages=TURN)
        await fill(postgres_url)
        sent.clear()
        await backend.runs.load_run(run_id="plain")
        await asyncio.sleep(0)
        # One for its messages, one for its events.
        assert 1 <= len(await read_parts(postgres_url, sent, "entries")) <= 2
