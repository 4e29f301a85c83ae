"""Writes whose answer is lost, and writes that never left: told apart, and settled by a retry.

On each kind of server that clients reach by a network.
"""

import asyncio
import random
import time
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.faults.proxy import Fault
from stores_core import (
    Backend,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
    ToolResult,
    open_backend,
)
from tests.lines import lines
from tests.postgres_server import asyncpg

Redis: Any = TypedRedis  # its types are partly unknown


@pytest.fixture(params=["postgres_url", "own_redis"])
def server_url(request: pytest.FixtureRequest) -> str:
    """A storage of its own on a server."""
    return request.getfixturevalue(request.param)


async def ended_at_random(url: str, rng: random.Random) -> None:
    """Have the server end connections of clients, for ever."""
    if url.startswith("redis:"):
        async with Redis.from_url(url.partition("?")[0]) as client:
            while True:
                await asyncio.sleep(rng.uniform(0.01, 0.03))
                await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    connection = await asyncpg.connect(url)
    try:
        while True:
            await asyncio.sleep(rng.uniform(0.01, 0.05))
            await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database() "
                "ORDER BY random() LIMIT 1"
            )
    finally:
        connection.terminate()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_lost_answer_is_of_unknown_outcome_and_the_key_settles_it(
    server_url: str, reset: bool
) -> None:
    async with lines(server_url) as both:
        await both.append("before")  # prepares the statement, or that answer would be the lost one
        both.proxy.cut(Fault(reply=0, reset=reset))
        with pytest.raises(OutcomeUnknownError) as unknown:
            await both.append("k")
        assert unknown.value.retry_with == {"idempotency_key": "k"}
        assert await both.count() == 9, "the server had done it"
        again = await both.append(unknown.value.retry_with["idempotency_key"])
        assert (again.found, again.applied, again.message_count) == (True, False, 9)
        assert await both.count() == 9


async def test_a_lost_request_is_of_unknown_outcome_too_and_a_retry_applies_it(
    server_url: str,
) -> None:
    async with lines(server_url) as both:
        both.proxy.cut(Fault(request=0))
        with pytest.raises(OutcomeUnknownError):
            await both.append("k")
        assert await both.count() == 3
        assert (await both.append("k")).applied
        assert await both.count() == 6


async def test_created_and_forked_runs_come_with_the_id_to_ask_for(server_url: str) -> None:
    async with lines(server_url) as both:
        for after in range(4):
            both.proxy.cut(Fault(reply=0, after=after))
            try:
                created = (await both.backend.runs.create_run()).run_id
            except OutcomeUnknownError as error:
                created = error.retry_with["run_id"]
            both.proxy.cut(None)
            again = await both.backend.runs.create_run(run_id=created)
            assert again.run_id == created
            both.proxy.cut(Fault(reply=0, after=after))
            fork = f"fork {after}"
            try:
                await both.backend.runs.fork_run(run_id="r", new_run_id=fork)
            except OutcomeUnknownError as error:
                fork = error.retry_with["new_run_id"]
            except StoreUnavailableError:  # cut before the transaction's end
                assert not (await both.straight.runs.get_run(run_id=fork)).found
            both.proxy.cut(None)
            again = await both.backend.runs.fork_run(run_id="r", new_run_id=fork)
            assert (again.parent_id, again.fork_point) == ("r", 3)


@pytest.mark.long
async def test_no_cut_at_any_byte_tears_an_append_or_applies_it_twice(server_url: str) -> None:
    """At bytes all over a request, and all over its answer, up to behind its last.

    An answer of Redis has less than 60 bytes, so each of them is tried.
    """
    faults = [Fault(request=byte) for byte in range(0, 2_000, 23)]
    faults += [Fault(reply=byte) for byte in (*range(60), *range(60, 200, 3))]
    unknown = 0
    async with lines(server_url) as both:
        for number, fault in enumerate(faults):
            for key in (f"warm {number}", f"cut {number}"):  # warm: connected, prepared
                if key.startswith("cut"):
                    both.proxy.cut(fault)
                try:
                    answer = await both.append(key)
                    assert answer.applied
                except OutcomeUnknownError:
                    unknown += 1
                    answer = await both.append(key)
                assert answer.found
        assert both.proxy.cuts > 30
        assert 30 < unknown <= both.proxy.cuts
        assert await both.count() == 3 + 2 * 3 * len(faults)


async def test_a_server_that_is_not_there_applies_nothing(server_url: str) -> None:
    async with lines(server_url) as both:
        both.proxy.refusing = True
        both.proxy.cut_all()
        await asyncio.sleep(0.01)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await both.append("k")
        both.proxy.refusing = False
        assert (await both.append("k")).applied
        assert await both.count() == 6


async def test_an_answer_that_never_comes_ends_with_the_timeout(server_url: str) -> None:
    async with lines(server_url) as both:
        both.proxy.silent = True
        started = time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            await both.append("k", timeout=0.3)
        assert time.monotonic() - started < 1.0
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError):  # the connection is waited for, or is made
            await both.append("k", timeout=0.3)
        assert time.monotonic() - started < 1.0
        both.proxy.silent = False
        both.proxy.cut_all()
        assert (await both.append("k")).applied
        assert await both.count() == 6


async def test_an_answer_that_comes_late_reaches_nobody_else(server_url: str) -> None:
    async with lines(server_url) as both:
        await both.straight.runs.create_run(run_id="other", labels={"a": "other"})
        await both.backend.runs.get_run(run_id="r")
        both.proxy.delay = 0.3
        with pytest.raises(StoreUnavailableError):
            await both.backend.runs.get_run(run_id="r", timeout=0.1)
        both.proxy.delay = 0.0
        info = (await both.backend.runs.get_run(run_id="other")).info
        assert info
        assert info.id == "other"


@pytest.mark.timeout(300)
async def test_connections_that_are_ended_at_random_lose_and_double_nothing(
    server_url: str,
) -> None:
    rng = random.Random(5)
    told: list[str] = []

    async def write(backend: Backend, name: str) -> None:
        for n in range(20):
            key = f"{name} {n}"
            batch = [Message(role="user", text=f"{key} {place}") for place in range(3)]
            for _ in range(500):
                try:
                    answer = await backend.runs.append_messages(
                        run_id="r", messages=batch, idempotency_key=key
                    )
                    assert answer.found
                    told.append(key)
                    break
                except OutcomeUnknownError:
                    pass
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)

    async with open_backend(server_url, pool_size=4) as backend:
        await backend.runs.create_run(run_id="r")
        killer = asyncio.create_task(ended_at_random(server_url, rng))
        await asyncio.gather(*(write(backend, name) for name in "abcdef"))
        killer.cancel()
        await asyncio.wait({killer})
    async with open_backend(server_url) as backend:
        run = (await backend.runs.load_run(run_id="r")).run
        assert run
        texts = [message.text for message in run.messages]
        batches = [text.rpartition(" ")[0] for text in texts[::3] if text]
        assert texts == [f"{batch} {place}" for batch in batches for place in range(3)]
        assert sorted(batches) == sorted(set(told)), "acknowledged, and only once"
        assert len(told) == 120


async def test_deletes_puts_and_updates_may_just_be_sent_again(server_url: str) -> None:
    async with lines(server_url) as both:
        runs, memory, results = both.backend.runs, both.backend.memory, both.backend.tool_results
        result = ToolResult(content=[{"type": "text", "text": "x"}])
        for after in range(5):
            for call in (
                lambda: runs.update_run(run_id="r", labels={"a": "1"}),
                lambda: memory.put_memory(item=MemoryItem(key="k", value="v")),
                lambda: memory.delete_memory(key="k"),
                lambda: results.put_tool_result(ref="t", result=result),
                lambda: results.delete_tool_result(ref="t"),
            ):
                both.proxy.cut(Fault(reply=0, after=after))
                try:
                    await call()
                except (OutcomeUnknownError, StoreUnavailableError):
                    await call()
        assert both.proxy.cuts >= 5
        assert not (await both.straight.memory.get_memory(key="k")).found
        assert not (await both.straight.tool_results.get_tool_result(ref="t")).found
