"""How often the stores go to Postgres and back, counted on the way, and whom they wait for."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from conformance_tests.faults.proxy import Proxy, proxied
from stores_core import (
    Backend,
    Event,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    ToolResult,
    open_backend,
)
from tests.postgres_server import asyncpg

Call = Callable[[Backend, int], Awaitable[object]]

TURN = [Message(role="user", text=f"message {n}") for n in range(4)]
EVENTS = [Event(kind="turn-begin"), Event(kind="turn-end")]
RESULT = ToolResult(content=[{"type": "text", "text": "x" * 10_000}])


@asynccontextmanager
async def counted(url: str, tenant: str = "") -> AsyncGenerator[tuple[Backend, Proxy]]:
    """A client with one connection, and the proxy that it goes through. A run, a note and a result
    are there."""
    async with (
        proxied(url) as proxy,
        open_backend(proxy.url(url), pool_size=1, tenant=tenant) as backend,
    ):
        await backend.runs.create_run(run_id="r", labels={"a": "1"})
        await backend.runs.append_messages(run_id="r", messages=TURN, events=EVENTS)
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        await backend.tool_results.put_tool_result(ref="t", result=RESULT)
        yield backend, proxy


def append(backend: Backend, n: int) -> Awaitable[object]:
    return backend.runs.append_messages(run_id="r", messages=TURN)


def append_with_all(backend: Backend, n: int) -> Awaitable[object]:
    key = f"key {n}"
    return backend.runs.append_messages(
        run_id="r", messages=TURN, events=EVENTS, idempotency_key=key
    )


def append_events(backend: Backend, n: int) -> Awaitable[object]:
    return backend.runs.append_events(run_id="r", events=EVENTS, idempotency_key=f"e {n}")


def append_expecting(backend: Backend, n: int) -> Awaitable[object]:
    return backend.runs.append_messages(run_id="r", messages=TURN, expected_count=4 * (n + 1))


ONE: list[Call] = [
    append,
    append_with_all,
    append_events,
    append_expecting,
    lambda backend, n: backend.runs.get_run(run_id="r"),
    lambda backend, n: backend.runs.load_run(run_id="r"),
    lambda backend, n: backend.runs.load_run(run_id="r", last_messages=2),
    lambda backend, n: backend.runs.read_messages(run_id="r", start=1),
    lambda backend, n: backend.runs.list_runs(limit=10),
    lambda backend, n: backend.runs.list_runs(labels={"a": "1"}),
    lambda backend, n: backend.memory.get_memory(key="k"),
    lambda backend, n: backend.tool_results.get_tool_result(ref="t"),
]
FEW: list[Call] = [
    lambda backend, n: backend.runs.create_run(),
    lambda backend, n: backend.runs.fork_run(run_id="r"),
    lambda backend, n: backend.runs.fork_run(run_id="r", at_message=2, labels={}),
    lambda backend, n: backend.runs.update_run(run_id="r", labels={"b": f"{n}"}),
    lambda backend, n: backend.memory.put_memory(item=MemoryItem(key="k", value=f"{n}")),
    lambda backend, n: backend.memory.list_memories(query="v"),
    lambda backend, n: backend.tool_results.put_tool_result(ref="t", result=RESULT),
    lambda backend, n: backend.tool_results.read_tool_result(ref="t", offset=9_000),
]


async def trips(url: str, call: Call) -> set[int]:
    """The round trips of each of three calls, once the driver has prepared what it runs."""
    async with counted(url, secrets.token_hex(8)) as (backend, proxy):
        return await later_trips(backend, proxy, call)


async def later_trips(backend: Backend, proxy: Proxy, call: Call) -> set[int]:
    taken: list[int] = []
    for n in range(5):
        before = proxy.round_trips
        await call(backend, n)
        taken.append(proxy.round_trips - before)
    assert proxy.connections == 1
    return set(taken[2:])


@pytest.mark.parametrize("call", ONE)
async def test_hot_operations_are_one_round_trip(shared_postgres_url: str, call: Call) -> None:
    assert await trips(shared_postgres_url, call) == {1}


@pytest.mark.parametrize("call", FEW)
async def test_the_others_are_a_few(shared_postgres_url: str, call: Call) -> None:
    assert max(await trips(shared_postgres_url, call)) <= 8


async def test_a_duplicate_and_a_conflict_cost_one_more(postgres_url: str) -> None:
    async def duplicate(backend: Backend, n: int) -> None:
        answer = await backend.runs.append_messages(
            run_id="r", messages=TURN, idempotency_key="same"
        )
        assert answer.applied is (n == 0)

    async def conflict(backend: Backend, n: int) -> None:
        answer = await backend.runs.append_messages(run_id="r", messages=TURN, expected_count=1)
        assert answer.conflict

    assert max(await trips(postgres_url, duplicate)) <= 2
    assert max(await trips(postgres_url, conflict)) <= 2


async def test_a_load_is_one_round_trip_however_deep_the_family_is(postgres_url: str) -> None:
    async with counted(postgres_url) as (backend, proxy):
        ids = ["r", *(f"f{depth}" for depth in range(80))]
        for run_id, new_run_id in itertools.pairwise(ids):
            await backend.runs.append_messages(run_id=run_id, messages=TURN[:1])
            await backend.runs.fork_run(run_id=run_id, new_run_id=new_run_id)

        async def load(backend: Backend, n: int) -> None:
            run = (await backend.runs.load_run(run_id=ids[-1])).run
            assert run
            assert len(run.messages) == 84

        assert await later_trips(backend, proxy, load) == {1}


async def test_an_append_waits_for_nobody_at_another_run(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        for n in range(20):
            await backend.runs.create_run(run_id=f"{n}")
        holder = await asyncpg.connect(postgres_url)
        await holder.execute("BEGIN")
        await holder.execute("SELECT FROM agent_stores.runs WHERE id = '0' FOR UPDATE")
        await asyncio.gather(
            *(
                backend.runs.append_messages(run_id=f"{n}", messages=TURN, timeout=10)
                for n in range(1, 20)
            )
        )
        with pytest.raises(OutcomeUnknownError):
            await backend.runs.append_messages(run_id="0", messages=TURN, timeout=0.2)
        await holder.close()
        assert (await backend.runs.append_messages(run_id="0", messages=TURN)).applied
