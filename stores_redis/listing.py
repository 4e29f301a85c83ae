"""Listing the runs of a bucket in Redis: a walk along the index with the fewest, in short steps."""

from typing import NamedTuple

from stores_core.limits import looked_at_most
from stores_core.runs import ListRunsRequest
from stores_core.values import micros
from stores_redis.keys import Bucket, filter_name
from stores_redis.run_rows import StoredRun, stored_run
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Call, Tenant

_LIST = Script("list_runs")

HEADERS_AT_ONCE, LOOKED_AT_ONCE = 250, 1_000
"""What one step may read, so that it stays short."""


class Page(NamedTuple):
    """Headers, the position to go on from ("" at the end), and how many were looked at."""

    runs: list[StoredRun]
    position: str
    looked: int


class Wanted:
    """What a request asks of each bucket."""

    def __init__(self, request: ListRunsRequest) -> None:
        self._request = request
        before = request.updated_before
        self._before = None if before is None else micros(before)
        self.is_filtered = bool(request.labels or request.parent_id is not None or before)
        self.most = looked_at_most(request.limit) if self.is_filtered else request.limit
        self.score, _, self.id = request.cursor.partition(":")
        if self._before is not None and (not self.score or float(self.score) < 1 - self._before):
            # Only what was created before can have been idle since.
            self.score, self.id = str(1 - self._before), ""

    def call(
        self,
        bucket: Bucket,
        score: str,
        id: str,
        headers: int,
        steps: int,
        *,
        members: bool = False,
    ) -> Call:
        """One step of a bucket's walk."""
        labels = self._request.labels.items()
        keys = [bucket.label(filter_name(*label)) for label in labels]
        if self._request.parent_id is not None:
            keys.append(bucket.forks(self._request.parent_id))
        before: Arg = "" if self._before is None else self._before
        args: list[Arg] = [bucket.tag, score, id, headers, steps, before, int(members)]
        return _LIST, keys or [bucket.runs()], args

    def fits(self, run: StoredRun) -> bool:
        """Whether an index does not name a run of another time at this id, whose header the server
        removed."""
        of_parent = self._request.parent_id in (None, run.parent)
        return of_parent and self._request.labels.items() <= run.labels.items()


async def one_page(tenant: Tenant, bucket: Bucket, limit: int, wanted: Wanted) -> Page:
    """A page of a bucket's runs."""
    found: list[StoredRun] = []
    looked, score, id = 0, wanted.score, wanted.id
    while True:
        headers = min(limit - len(found), HEADERS_AT_ONCE)
        steps = min(wanted.most - looked, LOOKED_AT_ONCE)
        script, keys, args = wanted.call(bucket, score, id, headers, steps)
        reply = await tenant.run(script, keys, args, writes=False)
        count, last_score, last_id, *runs = reply
        looked += int(count)
        score, id = last_score.decode(), last_id.decode()
        pairs = zip(runs[::2], runs[1::2], strict=True)
        found += filter(wanted.fits, (stored_run(name.decode(), flat) for name, flat in pairs))
        if not score or len(found) >= limit or looked >= wanted.most:
            return Page(found, f"{score}:{id}" if score else "", looked)
