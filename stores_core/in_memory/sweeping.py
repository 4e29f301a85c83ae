"""Freeing what nothing can reach, within a budget."""

from collections import Counter
from datetime import datetime

from stores_core.in_memory.storage import Tenant
from stores_core.in_memory.tool_results import retain
from stores_core.moving import STAGED_FOR
from stores_core.retention import Retention


def sweep(
    tenant: Tenant, retention: Retention, now: datetime, budget: int
) -> tuple[dict[str, int], bool]:
    """What was freed, by kind, and whether the budget ended before the work. The lock is held."""
    freed: Counter[str] = Counter()
    results = retain(tenant, retention, now, budget)
    freed["tool_results"] += results
    budget -= results
    stale = [
        log
        for log in tenant.logs.by_id.values()
        if log.staged_at is not None and log.staged_at < now - STAGED_FOR
    ]
    for log in stale:
        while log.entries and budget:
            log.entries.pop()
            freed["entries"] += 1
            budget -= 1
        if not log.entries:
            tenant.logs.drop(log)
    for log in list(tenant.logs.trimmable):
        needed = max(log.users.values(), default=0)
        surplus = min(budget, len(log.entries) - needed)
        if surplus > 0:
            del log.entries[len(log.entries) - surplus :]
            freed["entries"] += surplus
            budget -= surplus
        if len(log.entries) <= needed:
            tenant.logs.trimmable.discard(log)
    return {kind: count for kind, count in freed.items() if count}, budget <= 0
