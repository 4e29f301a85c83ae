"""Few connections under many callers, servers that end and restart, the host's own pool."""

import asyncio
import time

import pytest

from conformance_tests.faults.proxy import proxied
from stores_core import (
    Backend,
    InvalidRequestError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
    open_backend,
)
from tests.postgres_callers import TURN, sessions, watching, work
from tests.postgres_embedded import embedded_postgres
from tests.postgres_server import asyncpg, in_database, new_database


async def test_two_connections_serve_fifty_callers(postgres_url: str) -> None:
    async with open_backend(postgres_url, pool_size=2) as backend:
        async with asyncio.timeout(60):
            await asyncio.gather(*(work(backend, f"caller {n}", 1) for n in range(50)))
        async with watching(postgres_url) as eye:
            assert await sessions(eye) <= 2


async def test_whoever_waits_too_long_for_a_connection_has_sent_nothing(postgres_url: str) -> None:
    async with (
        proxied(postgres_url) as proxy,
        open_backend(postgres_url) as straight,
        open_backend(proxy.url(postgres_url), pool_size=2) as backend,
    ):
        await backend.runs.create_run(run_id="r")
        proxy.silent = True
        first = [
            asyncio.ensure_future(
                backend.runs.append_messages(run_id="r", messages=TURN, timeout=1)
            )
            for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        started = time.monotonic()
        later = await asyncio.gather(
            *(
                backend.runs.append_messages(run_id="r", messages=TURN, timeout=0.3)
                for _ in range(48)
            ),
            return_exceptions=True,
        )
        assert time.monotonic() - started < 1.0
        assert {type(error) for error in later} == {StoreUnavailableError}
        assert all(
            isinstance(error, StoreUnavailableError | OutcomeUnknownError)
            for error in await asyncio.gather(*first, return_exceptions=True)
        )
        proxy.silent = False
        proxy.cut_all()
        assert (await backend.runs.append_messages(run_id="r", messages=TURN)).applied
        info = (await straight.runs.get_run(run_id="r")).info
        assert info
        assert info.message_count == 3


@pytest.mark.parametrize("idle", [True, False])
async def test_a_connection_that_the_server_ended_is_made_anew(
    postgres_url: str, idle: bool
) -> None:
    async with open_backend(postgres_url, pool_size=1) as backend:
        await backend.runs.create_run(run_id="r")
        connection = await asyncpg.connect(postgres_url)
        await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        await connection.close()
        if idle:  # and the news has reached us
            await asyncio.sleep(0.05)
            assert (await backend.runs.append_messages(run_id="r", messages=TURN)).applied
        else:
            try:
                await backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key="k")
            except StoreError:
                await backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key="k")
        info = (await backend.runs.get_run(run_id="r")).info
        assert info
        assert info.message_count == 3


@pytest.mark.long
async def test_a_server_that_restarts_under_load_is_worked_with_again_at_once() -> None:
    stop, told = asyncio.Event(), dict[str, int]()

    async def append(backend: Backend, name: str) -> None:
        while not stop.is_set():
            key = f"{name} {told.get(name, 0)}"
            while True:
                try:
                    await backend.runs.append_messages(
                        run_id=name, messages=TURN, idempotency_key=key
                    )
                    break
                except (StoreUnavailableError, OutcomeUnknownError):
                    await asyncio.sleep(0.02)
            told[name] = told.get(name, 0) + 1

    with embedded_postgres() as server:
        url = await new_database(server.url)
        async with open_backend(url, pool_size=4) as backend:
            names = [f"r{n}" for n in range(8)]
            for name in names:
                await backend.runs.create_run(run_id=name)
            tasks = [asyncio.create_task(append(backend, name)) for name in names]
            for _ in range(2):
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.stop)
                await asyncio.sleep(0.1)
                await asyncio.to_thread(server.start)
                before = sum(told.values())
                await asyncio.sleep(1.0)
                assert sum(told.values()) > before + 20
            stop.set()
            await asyncio.gather(*tasks)
            for name in names:
                info = (await backend.runs.get_run(run_id=name)).info
                assert info
                assert info.message_count == 3 * told[name]


async def test_a_pool_of_the_hosts_own_is_used_and_left_open(postgres_url: str) -> None:
    pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=2)
    async with open_backend(postgres_url, pool=pool) as backend:
        await asyncio.gather(*(work(backend, f"caller {n}", 1) for n in range(20)))
        async with watching(postgres_url) as eye:
            assert await sessions(eye) <= 2
        with pytest.raises(StoreUnavailableError):
            async with pool.acquire(), pool.acquire():
                await backend.runs.get_run(run_id="caller 1", timeout=0.1)
    assert await pool.fetchval("SELECT 1") == 1
    await pool.close()


async def test_two_schemas_of_one_database_are_two_storages(postgres_url: str) -> None:
    async with (
        open_backend(f"{postgres_url}?schema=one") as one,
        open_backend(f"{postgres_url}?schema=two") as two,
    ):
        for backend in (one, two):
            assert (await backend.runs.create_run(run_id="r")).created
        await one.runs.append_messages(run_id="r", messages=TURN)
        info = (await two.runs.get_run(run_id="r")).info
        assert info
        assert info.message_count == 0
    connection = await asyncpg.connect(postgres_url)
    left = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    assert left == 0


@pytest.mark.parametrize(
    "schema", ['x"; DROP TABLE runs;--', "public,pg_temp", "a" * 64, "", "Ä", "1a"]
)
async def test_a_schema_is_a_plain_name(postgres_url: str, schema: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        async with open_backend(postgres_url, schema=schema):
            pass
    assert refused.value.field == "schema"


async def test_a_database_that_is_not_there_and_a_wrong_password_say_so(postgres_url: str) -> None:
    away = in_database(postgres_url, "none_of_this_name")
    wrong = postgres_url.replace("@", "x@")
    for url, word in ((away, "3D000"), (wrong, "28P01")):
        with pytest.raises(StoreUnavailableError, match=word):
            async with open_backend(url):
                pass
