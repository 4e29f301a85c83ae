"""Imports of runs where a tenant has many buckets: a family comes to lie in one, families in
several, and nothing is left behind where its logs waited."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.suite.cargo import Cargo, assert_same_cargo, bring, take
from stores_core import Backend, Event, ImportOutcome, LogRange, RunRecord, open_backend
from stores_redis.keys import Bucket, bucket_of
from tests.redis_keys import keys_of, turn

Redis: Any = TypedRedis  # its types are partly unknown

BUCKETS = 8
FAMILIES = 12
TENANTS = "source", "target"


@asynccontextmanager
async def clients_of(url: str) -> AsyncGenerator[tuple[Backend, Backend, Backend]]:
    """One of a source, and two of a target."""
    async with (
        open_backend(f"{url}&buckets={BUCKETS}", tenant=TENANTS[0]) as source,
        open_backend(f"{url}&buckets={BUCKETS}", tenant=TENANTS[1]) as target,
        open_backend(f"{url}&buckets={BUCKETS}", tenant=TENANTS[1]) as other,
    ):
        yield source, target, other


async def furnish(source: Backend) -> dict[str, list[str]]:
    """Families of three: a root, a fork of all of it and a fork of a part; each with more."""
    families: dict[str, list[str]] = {}
    runs = source.runs
    for n in range(FAMILIES):
        root = f"root {n}"
        await runs.create_run(run_id=root)
        # Some share events alone, so that not all of a family begin with the same messages.
        events = [Event(kind="e", text="e")] * (n % 3 if n % 4 else 2)
        await runs.append_messages(run_id=root, messages=turn(n % 4), events=events)
        families[root] = [root]
        for at in (0, 1):
            id = f"fork {n} {at}"
            await runs.fork_run(run_id=root, new_run_id=id, at_message=at)
            # Some write more than they share, so that no order of sizes tells the root's log.
            await runs.append_messages(
                run_id=id, messages=turn(1 + 9 * at), events=[Event(kind="e", text="e")]
            )
            families[root].append(id)
    return families


async def lie(url: str, ids: Iterable[str]) -> dict[str, int]:
    """The number of the bucket that each run of the target lies in."""
    prefix = re.findall("prefix=([^&]+)", url)[0]
    found: dict[str, int] = {}
    async with Redis.from_url(url.partition("?")[0]) as client:
        for id in ids:
            home = Bucket(prefix, TENANTS[1], bucket_of(id, BUCKETS))
            away = await client.hget(home.run(id), "away")
            found[id] = int(away.split()[0]) if away else home.number
    return found


async def kept(url: str) -> Counter[str]:
    """How often a segment of each name is there in the target."""
    names = [re.findall(rf"{{{TENANTS[1]}\.\d+}}:seg:(.+)", key) for key in await keys_of(url)]
    return Counter(name for found in names for name in found)


async def is_all_in_use(url: str) -> bool:
    """Whether nothing waits to be referred to."""
    return not [key for key in await keys_of(url) if key.endswith(":staged")]


async def test_families_are_spread_and_each_lies_together(redis_url: str) -> None:
    async with clients_of(redis_url) as (source, target, other):
        families = await furnish(source)
        cargo = await take(source)
        await bring(target, cargo)
        lies = [await lie(redis_url, ids) for ids in families.values()]
        assert [len(set(of_family.values())) for of_family in lies] == [1] * FAMILIES
        used = {number for of_family in lies for number in of_family.values()}
        assert len(used) >= BUCKETS // 2, f"{FAMILIES} families lie in {len(used)} buckets"
        assert set((await kept(redis_url)).values()) == {1}, "a log is there twice"
        assert await is_all_in_use(redis_url)
        for client in (target, other):
            assert_same_cargo(await take(client), cargo)
        assert (await target.admin.verify()).problems == ()


async def test_a_fork_of_an_imported_run_lies_beside_it(redis_url: str) -> None:
    async with clients_of(redis_url) as (source, target, _):
        families = await furnish(source)
        await bring(target, await take(source))
        for root in families:
            assert (await target.runs.fork_run(run_id=root, new_run_id=f"{root} again")).created
            assert len(set((await lie(redis_url, [root, f"{root} again"])).values())) == 1


async def test_two_that_import_at_once_bring_one_whole_copy(redis_url: str) -> None:
    async with clients_of(redis_url) as (source, target, other):
        await furnish(source)
        cargo = await take(source)
        await asyncio.gather(bring(target, cargo, piece=3), bring(other, cargo, piece=2))
        assert_same_cargo(await take(target), cargo)
        assert (await other.admin.verify()).problems == ()
        await bring(other, cargo)
        for run in cargo.runs:
            answer = await target.moving.import_run(run=run)
            assert answer.outcome is ImportOutcome.SAME


async def test_an_import_goes_on_after_another_drew_its_logs_elsewhere(redis_url: str) -> None:
    async with clients_of(redis_url) as (source, slow, quick):
        await furnish(source)
        cargo = await take(source)
        for log, entries in cargo.logs.items():
            await slow.moving.import_entries(log=log, start=0, entries=entries[:1])
        await bring(quick, cargo)
        for log, entries in cargo.logs.items():
            answer = await slow.moving.import_entries(log=log, start=1, entries=entries[1:])
            assert answer.length == len(entries)
        for run in cargo.runs:
            assert (await slow.moving.import_run(run=run)).outcome is ImportOutcome.SAME
        assert set((await kept(redis_url)).values()) == {1}, "a log is there twice"
        assert await is_all_in_use(redis_url)


async def test_logs_of_two_families_are_kept_for_a_run_that_reads_both(redis_url: str) -> None:
    """No run of ours reads both while their roots read one each, but an import may say so."""
    async with clients_of(redis_url) as (source, target, _):
        await furnish(source)
        cargo = await take(source)
        await bring(target, cargo)
        roots = [run for run in cargo.runs if run.info.id.startswith("root") and run.messages]
        lies = await lie(redis_url, [run.info.id for run in roots])
        one = roots[0]
        two = next(run for run in roots if lies[run.info.id] != lies[one.info.id])
        ranges: list[LogRange] = [*one.messages, *two.messages]
        count = sum(part.length for part in ranges)
        info = one.info.model_copy(update={"id": "both", "message_count": count, "event_count": 0})
        both = RunRecord(info=info, messages=ranges)
        assert (await target.moving.import_run(run=both)).outcome is ImportOutcome.CREATED
        wanted = [text for part in ranges for text in cargo.logs[part.log][: part.length]]
        runs = {run.info.id for run in cargo.runs}
        for id in runs:
            assert (await target.runs.delete_run(run_id=id)).deleted
        while (await target.admin.sweep()).more:
            pass
        held = await take(target)
        assert [text for part in ranges for text in held.logs[part.log]] == wanted
        assert len((await target.runs.read_messages(run_id="both")).entries) == count
        assert (await target.runs.delete_run(run_id="both")).deleted
        while (await target.admin.sweep()).more:
            pass
        assert not await kept(redis_url)


async def test_what_is_missing_of_a_log_is_said_wherever_the_rest_lies(redis_url: str) -> None:
    async with clients_of(redis_url) as (source, target, _):
        await furnish(source)
        cargo = await take(source)
        short = Cargo(logs={log: entries[:-1] for log, entries in cargo.logs.items()})
        await bring(target, short)
        for run in cargo.runs:
            with pytest.raises(ValueError, match="brought by import_entries first"):
                await target.moving.import_run(run=run)
        await bring(target, cargo)
        assert_same_cargo(await take(target), cargo)
