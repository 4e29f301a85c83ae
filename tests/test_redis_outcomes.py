"""Writes whose answer is lost, and writes that never left: told apart, and settled by a retry."""

import asyncio
import random
import time
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import (
    Backend,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
    ToolResult,
    open_backend,
)
from tests.lines import TURN, lines
from tests.proxy import Fault, proxied
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown


@pytest.mark.parametrize("reset", [False, True])
async def test_a_lost_answer_is_of_unknown_outcome_and_the_key_settles_it(
    redis_url: str, reset: bool
) -> None:
    async with lines(redis_url) as both:
        both.proxy.cut(Fault(reply=0, reset=reset))
        with pytest.raises(OutcomeUnknownError) as unknown:
            await both.append("k")
        assert unknown.value.retry_with == {"idempotency_key": "k"}
        assert await both.count() == 6, "the server had done it, once"
        again = await both.append("k")
        assert (again.found, again.applied, again.message_count) == (True, False, 6)
        assert await both.count() == 6


async def test_an_append_is_one_round_trip_and_never_sent_again(redis_url: str) -> None:
    async with lines(redis_url) as both:
        await both.append()
        before = both.proxy.round_trips
        await both.append()
        assert both.proxy.round_trips == before + 1
        for n in range(5):
            await both.backend.runs.get_run(run_id="r")  # connected again
            both.proxy.cut(Fault(reply=0))
            with pytest.raises(OutcomeUnknownError):
                await both.append()
            assert await both.count() == 9 + 3 * (n + 1), "once, although there is no key"


async def test_no_cut_at_any_byte_tears_an_append_or_applies_it_twice(redis_url: str) -> None:
    """At every byte of the answer, up to behind its last, and all over the request."""
    faults = [Fault(reply=byte, reset=bool(byte % 2)) for byte in range(40)]
    faults += [Fault(request=byte) for byte in range(0, 900, 13)]
    outcomes = {"applied": 0, "unknown": 0}
    async with lines(redis_url) as both:
        for number, fault in enumerate(faults):
            for key in (f"warm {number}", f"cut {number}"):
                both.proxy.cut(fault if key.startswith("cut") else None)
                try:
                    assert (await both.append(key)).applied
                    outcomes["applied"] += 1
                except OutcomeUnknownError:
                    outcomes["unknown"] += 1
                    assert (await both.append(key)).found
        assert both.proxy.cuts >= outcomes["unknown"] > 60
        assert await both.count() == 3 + 2 * 3 * len(faults)


async def test_a_fork_that_is_cut_at_any_byte_is_whole_or_not_there(redis_url: str) -> None:
    async with lines(redis_url) as both:
        await both.backend.runs.fork_run(run_id="r", new_run_id="warm")
        for byte in range(24):
            await both.backend.runs.get_run(run_id="r")  # connected
            both.proxy.cut(Fault(reply=byte) if byte % 2 else Fault(request=15 * byte))
            fork = f"fork {byte}"
            try:
                answer = await both.backend.runs.fork_run(run_id="r", new_run_id=fork)
                assert answer.created
            except OutcomeUnknownError as error:
                fork = error.retry_with["new_run_id"]
            both.proxy.cut(None)
            there = await both.straight.runs.get_run(run_id=fork)
            assert not there.info or there.info.message_count == 3
            again = await both.backend.runs.fork_run(run_id="r", new_run_id=fork)
            assert (again.parent_id, again.fork_point) == ("r", 3)
        assert both.proxy.cuts > 12


async def test_a_staged_batch_is_applied_once_and_whole_wherever_it_is_cut(redis_url: str) -> None:
    """A batch that takes several requests: what was staged before the cut is never seen."""
    big = [Message(role="user", text=f"{n}" * 400_000) for n in range(10)]
    async with lines(redis_url) as both:
        both.proxy.cut(None)
        applied = 0
        for after in range(4):
            for fault in (Fault(reply=0, after=after), Fault(request=500, after=after)):
                key = f"{after} {fault.reply}"
                both.proxy.cut(fault)
                most = 10
                try:
                    await both.backend.runs.append_messages(
                        run_id="r", messages=big, idempotency_key=key
                    )
                except OutcomeUnknownError:
                    pass
                except StoreUnavailableError:
                    most = 0
                both.proxy.cut(None)
                assert await both.count() - 3 - 10 * applied in (0, most)
                await both.backend.runs.append_messages(
                    run_id="r", messages=big, idempotency_key=key
                )
                applied += 1
                assert await both.count() == 3 + 10 * applied
        assert both.proxy.cuts > 2


async def test_a_server_that_is_not_there_applies_nothing(redis_url: str) -> None:
    async with lines(redis_url) as both:
        both.proxy.refusing = True
        both.proxy.cut_all()
        await asyncio.sleep(0.01)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await both.append("k")
        both.proxy.refusing = False
        assert (await both.append("k")).applied
        assert await both.count() == 6


async def test_an_answer_that_never_comes_ends_with_the_timeout(redis_url: str) -> None:
    async with lines(redis_url) as both:
        both.proxy.silent = True
        started = time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            await both.append("k", timeout=0.3)
        with pytest.raises(StoreUnavailableError):  # the connection is made, or waited for
            await both.append("k", timeout=0.3)
        assert time.monotonic() - started < 2.0
        both.proxy.silent = False
        both.proxy.cut_all()
        assert (await both.append("k")).applied
        assert await both.count() == 6


async def test_cancelled_calls_leave_no_answer_behind_for_others(redis_url: str) -> None:
    async with lines(redis_url) as both:
        await both.straight.runs.create_run(run_id="other", labels={"a": "other"})
        both.proxy.delay = 0.02
        rng = random.Random(7)
        for n in range(30):
            call = asyncio.create_task(both.append(f"k {n}"))
            await asyncio.sleep(rng.uniform(0.0, 0.06))
            call.cancel()
            await asyncio.wait({call})
            info = (await both.backend.runs.get_run(run_id="other")).info
            assert info
            assert info.labels == {"a": "other"}
        both.proxy.delay = 0.0
        for n in range(30):
            await both.append(f"k {n}")
        assert await both.count() == 3 + 3 * 30


async def test_connections_that_are_ended_at_random_lose_and_double_nothing(redis_url: str) -> None:
    rng, told = random.Random(5), list[str]()

    async def write(backend: Backend, name: str) -> None:
        for n in range(40):
            key = f"{name} {n}"
            batch = [Message(role="user", text=f"{key} {place}") for place in range(3)]
            while True:
                try:
                    answer = await backend.runs.append_messages(
                        run_id="r", messages=batch, idempotency_key=key
                    )
                except OutcomeUnknownError:
                    continue
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)
                    continue
                assert answer.found
                told.append(key)
                break

    async def terminate() -> None:
        async with Redis.from_url(redis_url.partition("?")[0]) as client:
            while True:
                await asyncio.sleep(rng.uniform(0.002, 0.02))
                await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async with open_backend(redis_url, pool_size=4) as backend:
        await backend.runs.create_run(run_id="r")
        killer = asyncio.create_task(terminate())
        await asyncio.gather(*(write(backend, name) for name in "abcdef"))
        killer.cancel()
        await asyncio.wait({killer})
    async with open_backend(redis_url) as backend:
        run = (await backend.runs.load_run(run_id="r")).run
        assert run
        texts = [message.text for message in run.messages]
        batches = [text.rpartition(" ")[0] for text in texts[::3] if text]
        assert texts == [f"{batch} {place}" for batch in batches for place in range(3)]
        assert sorted(batches) == sorted(set(told)), "acknowledged, and only once"
        assert len(told) == 240


async def test_deletes_puts_and_updates_may_just_be_sent_again(redis_url: str) -> None:
    async with lines(redis_url) as both:
        runs, memory, results = both.backend.runs, both.backend.memory, both.backend.tool_results
        result = ToolResult(content=[{"type": "text", "text": "x"}])
        for after in range(4):
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
                both.proxy.cut(None)
        assert both.proxy.cuts >= 5
        assert not (await both.straight.memory.get_memory(key="k")).found
        assert not (await both.straight.tool_results.get_tool_result(ref="t")).found


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_client_of_the_hosts_sends_nothing_again_and_stays_open(
    redis: str, decode: bool, protocol: int
) -> None:
    """The driver's own client would send a write again, three times, and decode what it reads."""
    async with proxied(redis) as proxy:
        settings = {"decode_responses": decode, "protocol": protocol, "max_connections": 4}
        async with Redis.from_url(proxy.url(redis), **settings) as client:
            async with open_backend(with_prefix("redis:"), client=client) as backend:
                await backend.runs.create_run(run_id="r", labels={"a": "ü"})
                await backend.runs.append_messages(run_id="r", messages=TURN)
                proxy.cut(Fault(reply=0))
                with pytest.raises(OutcomeUnknownError):
                    await backend.runs.append_messages(run_id="r", messages=TURN)
                run = (await backend.runs.load_run(run_id="r")).run
                assert run
                assert (len(run.messages), dict(run.labels)) == (6, {"a": "ü"})
                listed = (await backend.runs.list_runs(labels={"a": "ü"})).runs
                assert [info.id for info in listed] == ["r"]
            assert await client.ping()
