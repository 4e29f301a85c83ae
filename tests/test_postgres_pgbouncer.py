"""The real PgBouncer in transaction mode, where it is installed."""

import asyncio
import random

import pytest

from stores_core import open_backend
from tests.pgbouncer import PROGRAM, pgbouncer
from tests.postgres_callers import TURN, sessions, settled, watching, work

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no pgbouncer is installed (Debian: apt-get install pgbouncer)"
)


@pytest.mark.long
async def test_a_pooler_in_transaction_mode_makes_no_difference(postgres_url: str) -> None:
    rng = random.Random(4)
    with pgbouncer(postgres_url, connections=2) as url:
        async with (
            open_backend(url, prepared_statements=False, pool_size=20, timeout=90) as one,
            open_backend(url, prepared_statements=False, pool_size=20, timeout=90) as other,
            asyncio.timeout(100),
        ):
            await asyncio.gather(
                *(work(rng.choice((one, other)), f"caller {n}", 1) for n in range(30))
            )
            async with watching(postgres_url) as eye:
                assert await sessions(eye) == 2
            checked = await one.admin.verify()
            assert checked.problems == ()


async def test_a_client_behind_a_pooler_and_a_direct_one_are_the_same_storage(
    postgres_url: str,
) -> None:
    with pgbouncer(postgres_url) as pooled:
        async with (
            open_backend(postgres_url) as direct,
            open_backend(f"{pooled}?prepared_statements=false") as behind,
        ):
            await direct.runs.create_run(run_id="r")
            assert (await behind.runs.append_messages(run_id="r", messages=TURN)).applied
            # A cancelled call gives its server connection back clean to whoever comes next.
            for steps in range(30):
                call = asyncio.ensure_future(
                    behind.runs.fork_run(run_id="r", new_run_id=f"{steps}")
                )
                for _ in range(steps):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait({call})
                assert (await direct.runs.get_run(run_id="r")).found
                assert (await behind.runs.get_run(run_id="r")).found
            async with watching(postgres_url) as eye:
                assert not await settled(eye)
