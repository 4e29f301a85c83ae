"""Writes that are acknowledged once replicas have them, and servers that are replicas."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import (
    Durability,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
    open_backend,
)
from tests.redis_embedded import embedded_redis
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown
TURN = [Message(role="user", text="a message")]


@asynccontextmanager
async def replicated() -> AsyncGenerator[tuple[str, Any]]:
    """The URL of a primary, waiting for one replica, and a client of the replica."""
    # A replica with an append-only file would not end while it writes its first.
    with (
        embedded_redis(shutdown_timeout=0, repl_diskless_sync_delay=0) as primary,
        embedded_redis(appendonly="no") as replica,
    ):
        url = urlsplit(primary.url)
        async with Redis.from_url(replica.url) as client:
            await client.config_set("masterauth", url.password)
            await client.execute_command("REPLICAOF", url.hostname, url.port)
            for _ in range(500):
                if (await client.info("replication"))["master_link_status"] == "up":
                    break
                await asyncio.sleep(0.02)
            waits = "wait_replicas=1&wait_milliseconds=200"
            yield f"{with_prefix(primary.url)}&{waits}", client


async def stopped(replica: Any) -> None:
    """Let a replica take nothing more in."""
    await replica.execute_command("REPLICAOF", "NO", "ONE")


async def test_an_acknowledged_write_is_on_the_replica() -> None:
    async with replicated() as (url, replica), open_backend(url) as backend:
        assert backend.durability is Durability.REPLICATED
        await backend.runs.create_run(run_id="r")
        answer = await backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key="k")
        assert answer.applied
        await stopped(replica)
        there = urlsplit(url)
        address = replica.connection_pool.connection_kwargs
        place = f"redis://:{address['password']}@127.0.0.1:{address['port']}?{there.query}"
        async with open_backend(place.replace("wait_replicas=1", "wait_replicas=0")) as other:
            run = (await other.runs.load_run(run_id="r")).run
            assert run
            assert len(run.messages) == 1


async def test_too_few_replicas_are_an_unknown_outcome_for_a_duplicate_too() -> None:
    async with replicated() as (url, replica), open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        await stopped(replica)
        for _ in range(3):
            with pytest.raises(OutcomeUnknownError) as unknown:
                await backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key="k")
            assert unknown.value.retry_with == {"idempotency_key": "k"}
        with pytest.raises(OutcomeUnknownError):
            await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        info = (await backend.runs.get_run(run_id="r")).info
        assert info
        assert info.message_count == 1, "written once, where it may be lost"


async def test_replicas_that_may_not_be_waited_for_are_an_unknown_outcome() -> None:
    async with replicated() as (url, _), open_backend(url) as backend:
        async with Redis.from_url(url.partition("?")[0]) as client:
            await client.execute_command("ACL", "SETUSER", "default", "-wait")
        with pytest.raises(OutcomeUnknownError):
            await backend.runs.create_run(run_id="r")
        assert (await backend.runs.get_run(run_id="r")).found, "it was written"


async def test_a_replica_is_refused() -> None:
    async with replicated() as (_, replica):
        address = replica.connection_pool.connection_kwargs
        url = f"redis://:{address['password']}@127.0.0.1:{address['port']}/0"
        with pytest.raises(StoreUnavailableError, match="replica"):
            async with open_backend(with_prefix(url)):
                pass


async def test_a_primary_that_became_a_replica_refuses_writes_and_nothing_was_applied() -> None:
    with embedded_redis() as server:
        url = with_prefix(server.url)
        async with open_backend(url) as backend, Redis.from_url(server.url) as client:
            await backend.runs.create_run(run_id="r")
            await client.execute_command("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(StoreUnavailableError, match="READONLY"):
                await backend.runs.append_messages(run_id="r", messages=TURN)
            await client.execute_command("REPLICAOF", "NO", "ONE")
            assert (await backend.runs.append_messages(run_id="r", messages=TURN)).applied
