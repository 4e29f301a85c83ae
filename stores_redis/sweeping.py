"""Freeing what nothing can reach of runs, within a budget."""

from collections import Counter
from datetime import datetime
from itertools import compress

from stores_core.moving import STAGED_FOR
from stores_core.values import micros
from stores_redis.keys import Bucket, Place
from stores_redis.places import Places
from stores_redis.scripts import Script
from stores_redis.storage import Tenant

_TRIM = Script("trim_log")
_DROP = Script("drop_staged")

_DUE = Script("births_due")

ORPHANED_FOR = 3_600
"""Seconds after which what no claim names is removed; a fork claims within ten minutes or never."""

_CLAIMS_AT_ONCE = 100

_AT_ONCE = 10_000
"""So many entries one step frees, and so many names are looked at."""


async def sweep_runs(places: Places, now: datetime, budget: int) -> tuple[dict[str, int], int]:
    """What was freed, by kind, and what is left of the budget: 0 where the work was not done.

    A log that is looked at in vain costs one, as each entry that is freed.
    """
    tenant, freed = places.tenant, Counter[str]()
    work = [
        ("EXISTS", bucket.staged(), bucket.births(), bucket.deaths(), bucket.trimmable())
        for bucket in tenant.buckets
    ]
    for bucket in compress(tenant.buckets, await tenant.read_many(work)):
        budget -= await _drop_staged(tenant, bucket, now, budget, freed)
        if tenant.is_spread:
            budget -= await _bury(places, bucket, budget, freed)
        budget -= await _trim_logs(tenant, bucket, budget, freed)
    return {kind: count for kind, count in freed.items() if count}, max(0, budget)


async def _drop_staged(
    tenant: Tenant, bucket: Bucket, now: datetime, budget: int, freed: Counter[str]
) -> int:
    horizon = micros(now - STAGED_FOR)
    most = min(budget, _AT_ONCE)
    names: list[bytes] = await tenant.read(
        "ZRANGEBYSCORE", bucket.staged(), "-inf", f"({horizon}", "LIMIT", 0, most
    )
    spent = 0
    for name in names:
        if spent >= budget:
            break
        args = (bucket.tag, name, horizon)
        count = int((await tenant.run(_DROP, [bucket.staged()], args, writes=True))[0])
        freed["entries"] += count
        spent += max(1, count)
    return spent


async def _bury(places: Places, bucket: Bucket, budget: int, freed: Counter[str]) -> int:
    """Remove runs that no claim names, and claims whose runs are gone."""
    spent = 0
    while spent < budget:
        args = (ORPHANED_FOR, min(budget - spent, _CLAIMS_AT_ONCE))
        due: list[bytes] = await places.tenant.run(_DUE, [bucket.births()], args, writes=False)
        if not due:
            break
        born = [Place.of(bucket, member.decode()) for member in due]
        for place, is_claimed in zip(born, await places.claimed(born), strict=True):
            if not is_claimed and await places.remove(place) == b"deleted":
                freed["runs"] += 1
        await places.tenant.write_many([("ZREM", bucket.births(), *due)])
        spent += len(due)
    while spent < budget:
        most = min(budget - spent, _CLAIMS_AT_ONCE)
        dead: list[bytes] = await places.tenant.read("SRANDMEMBER", bucket.deaths(), most)
        if not dead:
            break
        for member in dead:
            await places.drop_claim(Place.of(bucket, member.decode()))
        await places.tenant.write_many([("SREM", bucket.deaths(), *dead)])
        spent += len(dead)
    return spent


async def _trim_logs(tenant: Tenant, bucket: Bucket, budget: int, freed: Counter[str]) -> int:
    spent = 0
    while spent < budget:
        log: bytes | None = await tenant.read("SRANDMEMBER", bucket.trimmable())
        if log is None:
            break
        args = (bucket.tag, log, min(budget - spent, _AT_ONCE))
        count = int((await tenant.run(_TRIM, [bucket.trimmable()], args, writes=True))[0])
        freed["entries"] += count
        spent += max(1, count)
    return spent
