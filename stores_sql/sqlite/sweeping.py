"""Freeing what nothing can reach, within a budget."""

from collections import Counter
from datetime import datetime

from sqlalchemy import select

from stores_core.moving import STAGED_FOR
from stores_core.retention import Retention
from stores_core.values import micros
from stores_sql.parameters import fixed, given
from stores_sql.sqlite.logs import trim
from stores_sql.sqlite.statements import Connection, Statement
from stores_sql.sqlite.tables import logs
from stores_sql.sqlite.tool_results import retain

_STALE = Statement(
    select(logs.c.number)
    .where(
        logs.c.tenant == given("tenant"),
        logs.c.staged.is_not(None),
        logs.c.staged < given("horizon"),
    )
    .limit(given("most"))
)
_TRIMMABLE = Statement(
    select(logs.c.number)
    .where(logs.c.tenant == given("tenant"), logs.c.trimmable == fixed(1))
    .order_by(logs.c.number)
    .limit(given("most"))
)


def sweep(
    connection: Connection, tenant: int, retention: Retention, now: datetime, budget: int
) -> tuple[dict[str, int], bool]:
    """What was freed, by kind, and whether the budget ended before the work.

    A log that is looked at in vain costs one, as each record that is freed.
    """
    freed: Counter[str] = Counter()
    freed["tool_results"] = retain(connection, tenant, retention, now, budget)
    budget -= freed["tool_results"]
    horizon = micros(now - STAGED_FOR)
    for query in (_STALE, _TRIMMABLE):
        values = {"horizon": horizon} if query is _STALE else {}
        for (log,) in query.all(connection, tenant=tenant, most=budget, **values):
            if budget <= 0:
                break
            trimmed = trim(connection, log, budget)
            freed["entries"] += trimmed
            budget -= max(1, trimmed)
    return {kind: count for kind, count in freed.items() if count}, budget <= 0
