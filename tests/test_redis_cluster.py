"""A cluster of six nodes: routing, slots on their way, a node that dies; and a plain client on a
server that enforces slots."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from stores_core import (
    Backend,
    InvalidRequestError,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
    open_backend,
)
from stores_redis.backend import CLUSTER_BUCKETS as BUCKETS
from stores_redis.keys import bucket_of
from tests.postgres_callers import work
from tests.redis_cluster import EmbeddedCluster, redis_cluster
from tests.redis_keys import turn
from tests.redis_server import with_prefix
from tests.redis_slots import SlotMover, check_crossed, forks_crossed, slot_of, slots_moving

FAMILIES, WORKERS, MOST_WAVES = 4, 6, 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with redis_cluster() as running:
        yield running


@pytest.fixture
def url(cluster: EmbeddedCluster) -> str:
    return with_prefix(cluster.url)


def prefix_of(url: str) -> str:
    return url.rpartition("prefix=")[2]


async def test_callers_beside_each_other_are_each_served(url: str) -> None:
    async with open_backend(url) as backend, open_backend(url) as other:
        await asyncio.gather(
            *(work(client, f"caller {n}", 5) for n, client in enumerate([backend, other] * 3))
        )
        assert (await backend.admin.verify()).problems == ()
        settings = (await backend.admin.check()).settings
        assert (settings["buckets"], settings["nodes"]) == ("64", "3")
        assert (await backend.admin.measure()).bytes
        assert (await backend.admin.erase_tenant(tenant="")).erased
        assert (await backend.runs.list_runs()).runs == ()


def large(mebibytes: int) -> Message:
    """One that is brought in several commands."""
    return Message(role="user", text="x" * mebibytes * 1_048_576)


async def test_a_plain_client_works_where_slots_are_enforced() -> None:
    with redis_cluster(primaries=1, replicas=0) as alone:
        plain = with_prefix(alone.url.replace("redis+cluster", "redis").partition(",")[0])
        async with open_backend(f"{plain}&buckets={BUCKETS}") as backend:
            await asyncio.gather(*(work(backend, f"caller {n}", 5) for n in range(4)))
            assert (await backend.admin.verify()).problems == ()
            assert (await backend.admin.erase_tenant(tenant="")).erased


async def test_a_client_follows_slots_that_move(cluster: EmbeddedCluster, url: str) -> None:
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=turn(3))
        mover, slot = SlotMover(cluster), slot_of(bucket_of("r", BUCKETS))
        for n in range(3):
            moving = asyncio.create_task(asyncio.to_thread(mover.move, slot, pause=0.3))
            while not moving.done():
                answer = await backend.runs.append_messages(run_id="r", messages=turn(1))
                assert answer.applied
                loaded = (await backend.runs.load_run(run_id="r")).run
                assert loaded is not None
                assert len(loaded.messages) == answer.message_count
            await moving
            assert mover.moved == n + 1
        assert (await backend.runs.fork_run(run_id="r")).created


@pytest.mark.long
async def test_a_slot_on_its_way_is_waited_for_as_long_as_the_caller_says(
    cluster: EmbeddedCluster, url: str
) -> None:
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=turn(3))
        mover, slot = SlotMover(cluster), slot_of(bucket_of("r", BUCKETS))
        ends = await asyncio.to_thread(mover.begin, slot)
        runs, calls = backend.runs, list[Callable[..., Coroutine[Any, Any, object]]]()
        calls.append(partial(runs.append_messages, run_id="r", messages=turn(1)))
        calls.append(partial(runs.append_messages, run_id="r", messages=[large(8)]))
        calls += [partial(call, run_id="r") for call in (runs.load_run, runs.fork_run)]
        calls += [runs.list_runs, backend.admin.verify]
        for call in calls:
            with pytest.raises(StoreUnavailableError, match="slot is being moved"):
                await call(timeout=2)
        waiting = [asyncio.create_task(call(timeout=60)) for call in calls]
        await asyncio.to_thread(mover.bring, slot, *ends)
        await asyncio.to_thread(mover.end, slot, *ends)
        await asyncio.gather(*waiting)
        found = (await runs.get_run(run_id="r")).info
        assert found is not None
        assert found.message_count == 5, "what was refused has not happened, the rest once"


@pytest.mark.long
async def test_a_storm_of_forks_while_slots_move(cluster: EmbeddedCluster, url: str) -> None:
    """Every id goes to one of those that ask for it, and holds that one's content."""
    won: dict[str, list[str]] = {}

    async def fork_and_append(backend: Backend, worker: int, wave: int) -> None:
        source, id = f"family {(worker + wave) % FAMILIES}", f"fork {wave} of {worker // 2}"
        answer = await backend.runs.fork_run(run_id=source, new_run_id=id)
        assert answer.found
        if answer.created:
            won.setdefault(id, []).append(source)
        added = await backend.runs.append_messages(run_id=id, messages=turn(1))
        assert added.applied

    async with open_backend(url) as first, open_backend(url) as second:
        for n in range(FAMILIES):
            await first.runs.create_run(run_id=f"family {n}")
            await first.runs.append_messages(run_id=f"family {n}", messages=turn(n + 1))
        waves, clients = 0, [first, second] * (WORKERS // 2)
        with slots_moving(cluster) as mover:
            while mover.moved < BUCKETS and waves < MOST_WAVES:
                await asyncio.gather(
                    *(fork_and_append(client, n, waves) for n, client in enumerate(clients))
                )
                waves += 1
        check_crossed(forks_crossed(cluster, prefix_of(url)), mover)
        assert len(won) == waves * WORKERS // 2
        for id, sources in won.items():
            [source] = sources
            run = (await second.runs.load_run(run_id=id)).run
            assert run is not None
            assert run.parent_id == source
            assert run.fork_point == int(source[-1]) + 1
            assert len(run.messages) == run.fork_point + 2  # each of the two added one
        listed = [run.id for run in (await first.runs.list_runs(limit=1_000)).runs]
        assert len(listed) == len(set(listed)) == len(won) + FAMILIES
        assert (await first.admin.verify()).problems == ()


@pytest.mark.long
async def test_when_a_node_dies_its_replica_takes_over_and_has_what_was_acknowledged() -> None:
    with redis_cluster(node_timeout=1_000) as cluster:
        url = f"{with_prefix(cluster.url)}&wait_replicas=1&wait_milliseconds=100"
        ids = [f"r{n}" for n in range(12)]
        told, failed = Counter[str](), 0
        async with open_backend(url) as backend:

            async def append_to_each(wave: int) -> int:
                """How many took it."""
                nonlocal failed
                count = 0
                for id in ids:
                    try:
                        answer = await backend.runs.append_messages(
                            run_id=id, messages=turn(1), idempotency_key=f"{wave}"
                        )
                    except (OutcomeUnknownError, StoreUnavailableError):
                        failed += 1
                    else:
                        told[id], count = answer.message_count, count + 1
                return count

            for id in ids:
                await backend.runs.create_run(run_id=id)
            assert await append_to_each(0) == len(ids)
            cluster.nodes[1].kill()
            for wave in range(1, 4):  # in which the replica takes over, without one of its own
                await append_to_each(wave)
            cluster.nodes[1].start()  # comes back as a replica
            until, wave = time.monotonic() + 20, 4
            while await append_to_each(wave) < len(ids):
                assert time.monotonic() < until, "writes do not go on"
                wave += 1
            assert failed, "the node was not missed"
            for id in ids:
                found = (await backend.runs.get_run(run_id=id)).info
                assert found is not None
                assert found.message_count >= told[id]
            assert (await backend.admin.verify()).problems == ()


@pytest.mark.parametrize("place", ["", "host", "host:", ":1", "host:x", "h:1,h"])
async def test_an_address_without_a_node_is_refused(place: str) -> None:
    with pytest.raises(InvalidRequestError, match="url") as refused:
        async with open_backend(f"redis+cluster://:secret@{place}"):
            pass
    assert "secret" not in str(refused.value)
