"""Listing runs in Redis: a walk along the index with the fewest, in short steps."""

from typing import NamedTuple

from stores_core.limits import looked_at_most
from stores_core.runs import ListRunsRequest
from stores_core.values import micros
from stores_redis.keys import Bucket, filter_name
from stores_redis.run_rows import StoredRun, stored_run
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

_LIST = Script("list_runs")

_HEADERS_AT_ONCE, _LOOKED_AT_ONCE = 250, 1_000
"""What one step may read, so that it stays short."""


class Page(NamedTuple):
    """Headers, the position to go on from ("" at the end), and how many were looked at."""

    runs: list[StoredRun]
    position: str
    looked: int


async def list_page(tenant: Tenant, request: ListRunsRequest) -> Page:
    """A page of the runs that fit."""
    return await _page(tenant, tenant.buckets[0], request)


async def _page(tenant: Tenant, bucket: Bucket, request: ListRunsRequest) -> Page:
    """A page of a bucket's runs."""
    keys = [bucket.label(filter_name(*label)) for label in request.labels.items()]
    if request.parent_id is not None:
        keys.append(bucket.forks(request.parent_id))
    before = None if request.updated_before is None else micros(request.updated_before)
    filtered = bool(keys) or before is not None
    most = looked_at_most(request.limit) if filtered else request.limit
    score, _, id = request.cursor.partition(":")
    if before is not None and (not score or float(score) < 1 - before):
        score, id = str(1 - before), ""  # only what was created before can have been idle since

    def is_wanted(run: StoredRun) -> bool:
        # An index may name a run of another time at this id, whose header the server removed.
        of_parent = request.parent_id in (None, run.parent)
        return of_parent and request.labels.items() <= run.labels.items()

    found: list[StoredRun] = []
    looked = 0
    while True:
        wanted = min(request.limit - len(found), _HEADERS_AT_ONCE)
        steps = min(most - looked, _LOOKED_AT_ONCE)
        args: list[Arg] = [bucket.tag, score, id, wanted, steps, "" if before is None else before]
        reply = await tenant.run(_LIST, keys or [bucket.runs()], args, writes=False)
        count, last_score, last_id, *runs = reply
        looked += int(count)
        score, id = last_score.decode(), last_id.decode()
        pairs = zip(runs[::2], runs[1::2], strict=True)
        found += filter(is_wanted, (stored_run(name.decode(), flat) for name, flat in pairs))
        if not score or len(found) >= request.limit or looked >= most:
            return Page(found, f"{score}:{id}" if score else "", looked)
