"""Freeing what nothing can reach of runs, within a budget."""

from collections import Counter
from datetime import datetime

from stores_core.moving import STAGED_FOR
from stores_core.values import micros
from stores_redis.keys import Bucket
from stores_redis.scripts import Script
from stores_redis.storage import Tenant

_TRIM = Script("trim_log")
_DROP = Script("drop_staged")

_AT_ONCE = 10_000
"""So many entries one step frees, and so many names are looked at."""


async def sweep_runs(tenant: Tenant, now: datetime, budget: int) -> tuple[dict[str, int], int]:
    """What was freed, by kind, and what is left of the budget: 0 where the work was not done.

    A log that is looked at in vain costs one, as each entry that is freed.
    """
    freed = Counter[str]()
    for bucket in tenant.buckets:
        budget -= await _drop_staged(tenant, bucket, now, budget, freed)
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
