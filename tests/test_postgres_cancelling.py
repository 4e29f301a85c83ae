"""Every operation, cancelled at each of its awaits: no connection and no transaction stays behind.

The pool holds one connection, so that one which is not given back, or is given back with a
transaction or an answer still on it, is met by the very next call.
"""

import asyncio
import itertools

import pytest

from conformance_tests.faults.acting import OPERATIONS, TURN, prepare
from conformance_tests.faults.cancelling import cancel_everywhere
from stores_core import open_backend
from tests.postgres_callers import settled, watching


@pytest.mark.parametrize("name", OPERATIONS)
async def test_cancelled_at_any_await_it_leaves_no_transaction(
    shared_postgres_url: str, name: str
) -> None:
    url, ids = shared_postgres_url, (f"{name} {n} " for n in itertools.count())
    async with (
        open_backend(url, pool_size=1, tenant=name) as backend,
        open_backend(url, pool_size=2, tenant=name) as other,
        watching(url) as eye,
    ):

        async def look() -> None:
            assert not await settled(eye)

        cancelled = await cancel_everywhere(
            OPERATIONS[name], backend, other, lambda: next(ids), also=look
        )
        assert cancelled > 0
        assert await settled(eye, "%", most=3) <= 3


async def test_callers_that_give_up_leave_the_pool_as_it_was(postgres_url: str) -> None:
    async with open_backend(postgres_url, pool_size=5) as backend:
        await prepare(backend, "r")
        calls = [
            asyncio.ensure_future(
                backend.runs.load_run(run_id="r")
                if n % 2
                else backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key=f"{n}")
            )
            for n in range(400)
        ]
        for n, call in enumerate(calls):
            if n % 3 == 0:
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                call.cancel()
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*calls, return_exceptions=True)
        assert not [error for error in ended if isinstance(error, Exception)]
        run = (await backend.runs.load_run(run_id="r")).run
        assert run
        assert len(run.messages) % 3 == 0
        async with watching(postgres_url) as eye:
            assert 0 < await settled(eye, "%", most=5) <= 5
            assert not await settled(eye)
