"""Postgres: asyncpg with one table for each job and one statement for each call; and our store.

Each has a server of its own with the same settings, or a database of its own on the server that
``STORES_TEST_POSTGRES_URL`` names.
"""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.contender import Contender, Entry, Ours, VectorEmbedder
from benchmarks.contenders.in_memory import DIMENSIONS
from stores_core import Message, ToolResult, open_backend
from stores_core.codec import decode_messages, decode_tool_result, encode
from tests.postgres_server import asyncpg, drop_database, new_database, postgres_server

CONNECTIONS = 16
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}

_SCHEMA = f"""
create table message (run text, position int, body bytea, primary key (run, position));
create table run (id text primary key, created bigint);
create index newest on run (created desc, id);
create table result (ref text primary key, body bytea);
alter table result alter body set storage external;
create table note (place text, key text, vector vector({DIMENSIONS}), primary key (place, key));
"""


class Raw:
    """The least: a statement for each job, prepared, without BEGIN. The caller keeps positions."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._counts: dict[str, int] = {}
        self._names = itertools.count()

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        for start in range(0, len(messages), 400):
            await self.append(run, messages[start : start + 400])

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        first = self._counts.get(run, 0)
        self._counts[run] = first + len(turn)
        await self._pool.execute(
            "insert into message select $1, $2 + place - 1, body"
            " from unnest($3::bytea[]) with ordinality as given (body, place)",
            run,
            first,
            [encode(message) for message in turn],
        )

    async def load(self, run: str) -> int:
        return await self.last(run, self._counts[run])

    async def last(self, run: str, count: int) -> int:
        rows = await self._pool.fetch(
            "select body from message where run = $1 and position >= $2 order by position",
            run,
            self._counts[run] - count,
        )
        return len(decode_messages([body for (body,) in rows]))

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._names)}"
        self._counts[new] = at
        await self._pool.execute(
            "insert into message select $1, position, body from message"
            " where run = $2 and position < $3",
            new,
            run,
            at,
        )
        return new

    async def seed_runs(self, count: int) -> None:
        await self._pool.execute(
            "insert into run select 'listed-' || $1 || '-' || n, n from generate_series(1, $1) n",
            count,
        )

    async def newest(self, count: int) -> int:
        rows = await self._pool.fetch(
            "select id, created from run order by created desc, id limit $1", count
        )
        return len([{"id": run, "created": created} for run, created in rows])

    async def put_result(self, ref: str, text: str) -> None:
        await self._pool.execute(
            "insert into result values ($1, $2) on conflict (ref) do update set body = $2",
            ref,
            encode(ToolResult(content=[{"type": "text", "text": text}])),
        )

    async def get_result(self, ref: str) -> int:
        body = await self._pool.fetchval("select body from result where ref = $1", ref)
        return len((decode_tool_result(body).content or [{"text": ""}])[0]["text"])

    async def seed_notes(self, place: str, vectors: Sequence[Sequence[float]]) -> None:
        await self._pool.executemany(
            "insert into note values ($1, $2, $3::real[]::vector)",
            [(place, str(number), vector) for number, vector in enumerate(vectors)],
        )
        await self._pool.execute("analyze note")

    async def recall(self, place: str, vector: Sequence[float], count: int) -> list[str]:
        rows = await self._pool.fetch(
            "select key from note where place = $1 order by vector <=> $2::real[]::vector limit $3",
            place,
            vector,
            count,
        )
        return [key for (key,) in rows]


async def _no_reset(connection: object) -> None:
    """Nothing is left on a connection, so nothing is reset, which would be a round trip more."""


@asynccontextmanager
async def _database() -> AsyncGenerator[str]:
    with postgres_server(**SETTINGS) as server:
        url = await new_database(server)
        try:
            yield url
        finally:
            await drop_database(server, url)


@asynccontextmanager
async def _raw() -> AsyncGenerator[Contender]:
    async with (
        _database() as url,
        asyncpg.create_pool(
            url, min_size=CONNECTIONS, max_size=CONNECTIONS, reset=_no_reset
        ) as pool,
    ):
        await pool.execute(_SCHEMA)
        yield Raw(pool)


@asynccontextmanager
async def _ours() -> AsyncGenerator[Contender]:
    embedder = VectorEmbedder(DIMENSIONS)
    async with (
        _database() as url,
        open_backend(url, embedder=embedder, pool_size=CONNECTIONS) as backend,
    ):
        yield Ours(backend, embedder)


def entries() -> list[Entry]:
    return [Entry("raw asyncpg", "raw asyncpg", _raw), Entry("postgresql:", "raw asyncpg", _ours)]
