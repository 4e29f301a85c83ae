"""Listing the runs of a tenant in Redis: the walks of all its buckets, merged.

Without filters members of the indexes are merged first, and only the runs on the page have their
headers read. A run whose id has its home in another bucket counts if the claim there names it.
"""

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from stores_core.runs import ListRunsRequest
from stores_redis.keys import Bucket, Place
from stores_redis.listing import HEADERS_AT_ONCE, LOOKED_AT_ONCE, Page, Wanted, one_page
from stores_redis.places import Places, claim_text
from stores_redis.run_rows import StoredRun, stored_run
from stores_redis.storage import Command

_SPARE = 2
"""So many more are asked of each bucket than its share of a page."""


async def list_page(places: Places, request: ListRunsRequest) -> Page:
    """A page of the runs that fit."""
    wanted = Wanted(request)
    if places.tenant.is_spread:
        return await _Merge(places, request.limit, wanted).page()
    return await one_page(places.tenant, places.tenant.buckets[0], request.limit, wanted)


Key = tuple[float, bytes]
"""A place in a listing: what comes first is less."""


class _Seen(NamedTuple):
    """An entry of an index, and its run's header where that was read too."""

    score: str
    place: Place
    header: Sequence[bytes]

    @property
    def key(self) -> Key:
        return float(self.score), self.place.id.encode()


class _Walk:
    """The walk through one bucket: what was seen and is not given yet, and where it has come to.
    ``is_done`` says that there is nothing behind that."""

    def __init__(self, bucket: Bucket, score: str, id: str) -> None:
        self.bucket, self.score, self.id = bucket, score, id
        self.seen: list[_Seen] = []
        self.is_done = False

    @property
    def key(self) -> Key:
        return float(self.score or "-inf"), self.id.encode()

    def take(self, reply: Sequence[Any], *, members: bool) -> int:
        """Take in what a step found; how many it looked at."""
        count, score, id, *rows = reply
        for name, told in zip(rows[::2], rows[1::2], strict=True):
            place = Place.of(self.bucket, name.decode())
            if members:
                self.seen.append(_Seen(told[0].decode(), place, ()))
            else:
                created = told[told.index(b"created") + 1]
                self.seen.append(_Seen(str(-int(created)), place, told))
        self.is_done = not score
        self.score, self.id = score.decode(), id.decode()
        return int(count)


class _Merge:
    """One page of all buckets."""

    def __init__(self, places: Places, limit: int, wanted: Wanted) -> None:
        self._places, self._limit, self._wanted = places, limit, wanted
        buckets = places.tenant.buckets
        self._walks = [_Walk(bucket, wanted.score, wanted.id) for bucket in buckets]
        self._reads_headers = wanted.is_filtered
        self._looked = 0

    async def page(self) -> Page:
        """The page."""
        found: list[StoredRun] = []
        last = ""
        while len(found) < self._limit:
            ready = self._ready(self._limit - len(found))
            if ready:
                last = f"{ready[-1].score}:{ready[-1].place.id}"
                found += filter(self._wanted.fits, await self._counting(ready))
                continue
            due = [walk for walk in self._walks if not walk.is_done and not walk.seen]
            if not due:
                return Page(found, "", self._looked)
            if self._reads_headers and self._looked >= self._wanted.most:
                behind = min(due, key=lambda walk: walk.key)
                return Page(found, f"{behind.score}:{behind.id}", self._looked)
            await self._advance(due, self._limit - len(found))
        more = any(walk.seen or not walk.is_done for walk in self._walks)
        return Page(found, last if more else "", self._looked)

    def _ready(self, most: int) -> list[_Seen]:
        """What no walk can still come to anything before, taken out."""
        frontier = min((walk.key for walk in self._walks if not walk.is_done), default=None)
        merged = merge(*(walk.seen for walk in self._walks), key=lambda seen: seen.key)
        ready = [seen for seen in islice(merged, most) if frontier is None or seen.key <= frontier]
        if ready:
            for walk in self._walks:
                walk.seen = [seen for seen in walk.seen if seen.key > ready[-1].key]
        return ready

    async def _advance(self, due: list[_Walk], lacking: int) -> None:
        """Let walks look at more."""
        budget = self._wanted.most - self._looked
        if self._reads_headers:
            due = due[:budget]
        headers = min(lacking // len(due) + _SPARE, HEADERS_AT_ONCE)
        steps = min(budget // len(due), LOOKED_AT_ONCE) if self._reads_headers else headers
        members = not self._reads_headers
        calls = [
            self._wanted.call(walk.bucket, walk.score, walk.id, headers, steps, members=members)
            for walk in due
        ]
        for walk, reply in zip(due, await self._places.tenant.run_many(calls), strict=True):
            looked = walk.take(reply, members=members)
            self._looked += looked if self._reads_headers else 0

    async def _counting(self, ready: Sequence[_Seen]) -> list[StoredRun]:
        """The runs that are there: where an id is claimed, the one whose place the claim names."""
        commands: list[Command] = []
        for seen in ready:
            if not self._reads_headers:
                commands.append((b"HGETALL", seen.place.run))
            if seen.place.token:
                home = self._places.home(seen.place.id)
                commands.append((b"HGET", home.run, b"away"))
        replies = iter(await self._places.tenant.read_many(commands) if commands else ())
        runs: list[StoredRun] = []
        for seen in ready:
            header = seen.header if self._reads_headers else next(replies)
            counts = not seen.place.token or next(replies) == claim_text(seen.place).encode()
            self._looked += 0 if self._reads_headers else 1
            if counts and b"token" in header[::2]:
                runs.append(stored_run(seen.place.id, header))
        return runs
