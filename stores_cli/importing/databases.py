"""Databases to import from: their tables, rows and keys, which are read and never written."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from stores_cli.importing.sources import Source
from stores_core import StoreError, StoreUnavailableError
from stores_core.extras import need

_COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = ANY (current_schemas(false))
"""
_PAGE = 100  # rows at once; a checkpoint may be large


async def look_at_tables(source: Source) -> None:
    """Find out which tables a database has, so that its format can be recognised."""
    if source.is_postgres:
        found: dict[str, set[str]] = {}
        async with reading(source) as rows:
            async for table, column in rows(_COLUMNS):
                found.setdefault(str(table), set()).add(str(column))
        source.tables = found


Rows = Callable[..., AsyncIterator[Sequence[Any]]]
"""The rows of a query with placeholders ``?1``, ``?2`` and their values."""


@asynccontextmanager
async def reading(source: Source) -> AsyncGenerator[Rows]:
    """Queries on a SQLite file or on Postgres, there all of one moment.

    Raises StoreUnavailableError where the database cannot be read.
    """
    if source.is_sqlite:
        yield partial(_sqlite_rows, source)
        return
    asyncpg: Any = need("asyncpg", extra="postgres", field="file")
    try:
        connection: Any = await asyncpg.connect(source.place)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unreadable(source) from error
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield partial(_postgres_rows, connection)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unreadable(source) from error
    finally:
        await connection.close()


async def _sqlite_rows(source: Source, query: str, *values: Any) -> AsyncIterator[Sequence[Any]]:
    for row in source.rows(query, *values):
        yield row


async def _postgres_rows(connection: Any, query: str, *values: Any) -> AsyncIterator[Sequence[Any]]:
    async for row in connection.cursor(query.replace("?", "$"), *values, prefetch=_PAGE):
        yield tuple(row)


@asynccontextmanager
async def redis_client(source: Source, url: str) -> AsyncGenerator[Any]:
    """A client of the Redis at ``url``. Raises StoreUnavailableError."""
    redis: Any = need("redis.asyncio", extra="redis", field="file")
    try:
        client: Any = redis.Redis.from_url(url)
    except ValueError as error:
        raise _unreadable(source) from error
    try:
        yield client
    except (OSError, redis.RedisError) as error:
        raise _unreadable(source) from error
    finally:
        await client.aclose()


def _unreadable(source: Source) -> StoreError:
    return StoreUnavailableError(f"{source.account.name} cannot be read; nothing was changed there")
