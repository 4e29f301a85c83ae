"""Giving up the tool results that retention does not keep."""

from datetime import datetime

from stores_core.retention import Retention
from stores_core.values import micros
from stores_redis.results import Results, age_text
from stores_redis.scripts import Script

_SURPLUS = Script("results_surplus")
_OLDEST = Script("results_oldest")

_AT_ONCE = 100
_OF_EACH = 4
"""So many of each bucket are looked at, which merge to the oldest of all."""


async def retain(
    results: Results, retention: Retention, now: datetime, budget: int | None = None
) -> int:
    """Give up what retention does not keep; how many. The newest result of a tenant stays."""
    if not retention.is_set():
        return 0
    horizon = ""
    if retention.age:
        horizon = age_text(micros(now) - round(retention.age * 1_000_000))
    over = _over_all if results.tenant.is_spread else _in_one
    freed = 0
    while budget is None or freed < budget:
        most = _AT_ONCE if budget is None else min(_AT_ONCE, budget - freed)
        surplus = await over(results, retention, horizon, most)
        if not surplus:
            break
        for ref, age in surplus:
            freed += await results.remove(ref, age)
    return freed


async def _in_one(
    results: Results, retention: Retention, horizon: str, most: int
) -> list[tuple[str, str]]:
    """Refs and ages of up to ``most`` results that are to go, where there is one bucket."""
    [bucket] = results.tenant.buckets
    keys = bucket.results(), bucket.result_order(), bucket.result_bytes()
    args = (horizon, retention.count, retention.bytes, most)
    surplus = await results.tenant.run(_SURPLUS, keys, args, writes=False)
    return [
        (ref.decode(), age.decode()) for ref, age in zip(surplus[::2], surplus[1::2], strict=True)
    ]


async def _over_all(
    results: Results, retention: Retention, horizon: str, most: int
) -> list[tuple[str, str]]:
    """The same over all buckets: some of those that are to go, or none if none is."""
    calls = [
        (_OLDEST, [bucket.results(), bucket.result_order(), bucket.result_bytes()], (_OF_EACH,))
        for bucket in results.tenant.buckets
    ]
    replies = await results.tenant.run_many(calls)
    left = sum(int(reply[0]) for reply in replies)
    held = sum(int(reply[1]) for reply in replies)
    oldest: list[tuple[str, str, int]] = []
    known_to = ("", "")  # the place down to which all results are named
    for count, _, *named in replies:
        some = [
            (age.decode(), ref.decode(), int(size))
            for ref, age, size in zip(named[::3], named[1::3], named[2::3], strict=True)
        ]
        oldest += some
        if len(some) < int(count):
            known_to = max(known_to, some[-1][:2])
    surplus: list[tuple[str, str]] = []
    for age, ref, size in sorted(oldest, reverse=True):
        is_surplus = (
            (horizon and age > horizon) or 0 < retention.count < left or 0 < retention.bytes < held
        )
        if left <= 1 or not is_surplus or (age, ref) < known_to or len(surplus) == most:
            break
        surplus.append((ref, age))
        left, held = left - 1, held - size
    return surplus
