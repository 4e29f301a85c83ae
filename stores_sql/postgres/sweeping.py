"""Freeing what nothing can reach, within a budget."""

from datetime import datetime
from functools import partial

from sqlalchemy import or_, select

from stores_core.moving import STAGED_FOR
from stores_core.retention import Retention
from stores_core.values import micros
from stores_sql.parameters import given
from stores_sql.postgres.logs import free, hold
from stores_sql.postgres.result_rows import retain
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.tables import logs

SWEPT_AT_ONCE = 1_000
"""A sweep writes in pieces of this size, so that it holds no lock for long."""

_TO_FREE = Statement(
    select(logs.c.number)
    .where(
        logs.c.tenant == given("tenant"),
        logs.c.number > given("after"),
        or_(logs.c.trimmable, logs.c.staged < given("horizon")),
    )
    .order_by(logs.c.number)
    .limit(given("most"))
)


async def sweep(
    tenant: Tenant, retention: Retention, now: datetime, budget: int
) -> tuple[dict[str, int], bool]:
    """What was freed, by kind, and whether the budget ended before the work."""
    results = 0
    while retention.is_set() and results < budget:
        piece = min(budget - results, SWEPT_AT_ONCE)
        some = await tenant.write(partial(retain, retention=retention, now=now, budget=piece))
        results += some
        if some < piece:
            break
    entries, more = await _sweep_logs(tenant, now, budget - results)
    freed = {"tool_results": results, "entries": entries}
    return {kind: count for kind, count in freed.items() if count}, more


async def _sweep_logs(tenant: Tenant, now: datetime, budget: int) -> tuple[int, bool]:
    """How many entries were freed, and whether the budget ended before the work.

    A log that is looked at in vain costs one, as each entry that is freed.
    """
    horizon, freed, after = micros(now - STAGED_FOR), 0, -1
    while budget > 0:
        piece = min(budget, SWEPT_AT_ONCE)
        some, looked, last = await _piece(tenant, horizon, after, piece)
        if not looked:
            return freed, False
        # A log that this piece did not get to the end of comes again.
        after = last if some < piece else after
        freed += some
        budget -= max(some, looked)
    return freed, True


async def _piece(tenant: Tenant, horizon: int, after: int, budget: int) -> tuple[int, int, int]:
    """How much was freed, how many logs were looked at and the last of them."""

    async def work(connection: Connection, number: int) -> tuple[int, int, int]:
        rows = await _TO_FREE.all(
            connection, tenant=number, after=after, horizon=horizon, most=budget
        )
        found = [log for (log,) in rows]
        if not found:
            return 0, 0, after
        await hold(connection, number, found)
        return await free(connection, number, found, budget), len(found), found[-1]

    return await tenant.write(work)
