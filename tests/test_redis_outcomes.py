"""Writes to Redis that are cut or cancelled; what every server must do is in
``test_server_outcomes.py``."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.faults.proxy import Fault, proxied
from stores_core import (
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
    open_backend,
)
from tests.lines import TURN, lines
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown


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
            with suppress(OutcomeUnknownError):  # where the cut came behind the whole answer
                await both.backend.runs.fork_run(run_id="r", new_run_id=fork)
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
