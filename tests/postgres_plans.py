"""The statements that a client sends, and the plans by which Postgres runs them."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from stores_core import Backend, open_backend
from stores_sql.postgres.tables import METADATA
from tests.postgres_server import asyncpg

MODES = ("force_custom_plan", "force_generic_plan")
"""A prepared statement is planned for its values at first, and once and for all later on."""


def copies(table: str, further: str, where: str, **changed: str) -> str:
    """The statement that copies a row of a table, with these expressions for some columns."""
    columns = [column.name for column in METADATA.tables[table].columns]
    values = ", ".join(changed.get(name, f"template.{name}") for name in columns)
    return (
        f"INSERT INTO agent_stores.{table} ({', '.join(columns)}) SELECT {values} "  # noqa: S608
        f"FROM agent_stores.{table} AS template, {further} WHERE {where}"
    )


@asynccontextmanager
async def recorded(url: str, **options: Any) -> AsyncGenerator[tuple[Backend, list[Any]]]:
    """A client, and the statements that it has sent."""
    sent: list[Any] = []

    async def watch(connection: Any) -> None:
        connection.add_query_logger(sent.append)

    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1, init=watch) as pool,
        open_backend(url, pool=pool, **options) as backend,
    ):
        sent.clear()
        yield backend, sent


async def explained(url: str, statement: Any, mode: str) -> dict[str, Any]:
    """The plan of a statement as it ran; what it changed is undone."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"SET plan_cache_mode = {mode}")
        await connection.execute("BEGIN")
        told = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.query}", *statement.args
        )
        await connection.execute("ROLLBACK")
        return json.loads(told)[0]["Plan"]
    finally:
        await connection.close()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def rows_handled(plan: dict[str, Any]) -> float:
    """How many rows the steps of a plan gave or threw away."""
    counts = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    return sum(
        node.get(count, 0) * node["Actual Loops"] for node in nodes(plan) for count in counts
    )
