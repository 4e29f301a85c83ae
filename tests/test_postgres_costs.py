"""What operations cost the server: updates in place, and the bytes that a fork writes."""

import asyncio
import os
import statistics
from typing import Any

from stores_core import Backend, Message, open_backend
from tests.postgres_server import asyncpg

TURN = [Message(role="user", text=f"message {n}") for n in range(4)]
WITHIN = 1.5
"""A factor that two medians of bytes may differ by."""


async def value(url: str, query: str, *arguments: object) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query, *arguments)
    finally:
        await connection.close()


async def test_appends_change_the_row_of_their_run_in_place(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        for n in range(100):
            await backend.runs.create_run(run_id=f"{n}", labels={"a": "1"})

        async def append(run_id: str) -> None:
            for n in range(12):
                await backend.runs.append_messages(
                    run_id=run_id, messages=TURN, idempotency_key=f"{n}"
                )

        await asyncio.gather(*(append(f"{n}") for n in range(100)))
    updated, in_place = await counted(postgres_url, at_least=1_200)
    assert in_place >= 0.95 * updated


async def counted(url: str, at_least: int) -> tuple[int, int]:
    """Updates of headers, and how many of them were in place. Sessions tell when they end."""
    for _ in range(100):
        row = await value(
            url,
            "SELECT ARRAY[n_tup_upd, n_tup_hot_upd] FROM pg_stat_user_tables "
            "WHERE schemaname = 'agent_stores' AND relname = 'runs'",
        )
        if row[0] >= at_least:
            return row[0], row[1]
        await asyncio.sleep(0.05)
    raise AssertionError("the server has not counted")


async def fork_bytes(url: str, backend: Backend, run_id: str, name: str) -> float:
    """The bytes of log that a fork makes the server write, in the middle of nine."""
    written: list[int] = []
    await backend.runs.fork_run(run_id=run_id, new_run_id=f"{name} first")
    for n in range(9):
        before = await value(url, "SELECT pg_current_wal_insert_lsn()")
        await backend.runs.fork_run(run_id=run_id, new_run_id=f"{name} {n}")
        after = await value(url, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before)
        written.append(int(after))
    return statistics.median(written)


async def test_a_fork_writes_as_many_bytes_at_100_000_messages_as_at_10(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        for name, count in (("short", 12), ("long", 100_000)):
            await backend.runs.create_run(run_id=name)
            for start in range(0, count, 1_000):
                batch = (TURN * 250)[: min(1_000, count - start)]
                await backend.runs.append_messages(run_id=name, messages=batch)
        short = await fork_bytes(postgres_url, backend, "short", "of short")
        long = await fork_bytes(postgres_url, backend, "long", "of long")
        assert 0 < long < WITHIN * short
        middle = await backend.runs.fork_run(run_id="long", new_run_id="m", at_message=50_000)
        assert middle.fork_point == 50_000


async def test_a_fork_writes_as_many_bytes_in_late_generations_as_in_early_ones(
    postgres_url: str,
) -> None:
    generations = int(os.environ.get("STORES_TEST_GENERATIONS", "500"))
    async with open_backend(postgres_url) as backend:
        await backend.runs.create_run(run_id="0")
        early: list[int] = []
        late: list[int] = []
        connection = await asyncpg.connect(postgres_url)
        for generation in range(generations):
            run_id, fork = f"{generation}", f"{generation + 1}"
            await backend.runs.append_messages(run_id=run_id, messages=TURN[:1])
            before = await connection.fetchval("SELECT pg_current_wal_insert_lsn()")
            await backend.runs.fork_run(run_id=run_id, new_run_id=fork)
            written = await connection.fetchval(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before
            )
            if 50 <= generation < 200:
                early.append(int(written))
            elif generation >= generations - 150:
                late.append(int(written))
        await connection.close()
        assert statistics.median(late) < WITHIN * statistics.median(early)
        assert statistics.fmean(late) < 2 * WITHIN * statistics.fmean(early)  # with the joins
        run = (await backend.runs.load_run(run_id=f"{generations}")).run
        assert run
        assert len(run.messages) == generations
