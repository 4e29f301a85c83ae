"""Where runs lie, and the claims that lead from the home of an id to a run in another bucket.

A run and all its forks share the bucket of the family's root, so that a fork can share entries. A
fork whose id has its home in another bucket is written first, under a token that no other run ever
bears, and then claims the id at home. The claim is the birth; the removal of the data is the death.
A claim without data, or data without a claim, is a left-over: nobody sees it, whoever meets a claim
that is in the way removes it, and sweep removes the rest. docs/decisions.md has the argument.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from stores_core.errors import CorruptRecordError, StoreError, StoreUnavailableError
from stores_core.values import new_id
from stores_redis.keys import Place
from stores_redis.logs import TRIES, gone_meanwhile
from stores_redis.run_rows import new_token
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

T = TypeVar("T")

CLAIMED_WITHIN = 600
"""Seconds that a fork may take between its look at the id and its claim."""

KNOWN = 10_000
"""So many places one client remembers."""

_LOOK = Script("claim_look")
_CLAIM = Script("claim")
_DROP = Script("claim_drop")
_DELETE = Script("delete_run")


class Looked(NamedTuple):
    """What stands at an id: the lineage of its run (parent and fork point), None where it is free.
    ``at`` is the time of the home's server in seconds."""

    at: bytes
    lineage: tuple[str, int] | None


class Places:
    """The places of a tenant's runs, as far as one client knows them."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._known: OrderedDict[str, Place] = OrderedDict()

    def home(self, id: str) -> Place:
        """Where a run lies that is no fork from another bucket."""
        return Place(self.tenant.home(id), id)

    def near(self, id: str) -> Place:
        """Where the run lies, as far as is known here."""
        return self._known.get(id) or self.home(id)

    def new_fork_id(self, source: str, now: datetime) -> str:
        """An id for a fork of ``source`` whose home is where that lies: no claim is needed."""
        bucket = self.near(source).bucket
        while True:
            id = new_id(now)
            if self.tenant.home(id) is bucket:
                return id

    async def at(self, id: str, step: Callable[[Place], Awaitable[T | None]]) -> T | None:
        """What ``step`` finds where the run lies. None says that the run is not there, and is the
        answer where it is nowhere else."""
        place = self.near(id)
        for _ in range(TRIES):
            answer = await step(place)
            if answer is not None or not self.tenant.is_spread:
                return answer
            now = await self._now(id)
            if now is None or (now == place and now.token):
                return None  # a claim without data is left of a run that is gone
            place = now
        raise gone_meanwhile()

    async def _now(self, id: str) -> Place | None:
        """Where the home says that the run lies; None where it names no place."""
        token, away = await self.tenant.read("HMGET", self.home(id).run, "token", "away")
        if away:
            place = self._place_of(id, away)
            self._remember(place)
            return place
        self._known.pop(id, None)
        return self.home(id) if token else None

    async def look(self, id: str) -> Looked:
        """What stands at an id. A claim without data is removed."""
        home = self.home(id)
        for _ in range(TRIES):
            at, token, parent, fork, away = await self.tenant.run(
                _LOOK, [home.run], (), writes=False
            )
            if token:
                return Looked(at, (parent.decode(), int(fork or 0)))
            if not away:
                return Looked(at, None)
            place = self._place_of(id, away)
            token, parent, fork = await self.tenant.read(
                "HMGET", place.run, "token", "parent", "fork"
            )
            if token:
                return Looked(at, ((parent or b"").decode(), int(fork or 0)))
            await self.drop_claim(place)
        raise gone_meanwhile()

    def new_place(self, beside: Place, id: str) -> Place:
        """Where a run with this id is written that shares entries with the one at ``beside``."""
        home = self.home(id)
        return home if home.bucket is beside.bucket else Place(beside.bucket, id, new_token())

    async def claim(self, place: Place, looked: Looked) -> bool:
        """Claim the id for the run that was written there. False, and the run is removed, where the
        id is taken or it took too long. Others see nothing of the run before."""
        args = (claim_text(place), looked.at, CLAIMED_WITHIN)
        try:
            reply = await self.tenant.run(_CLAIM, [self.home(place.id).run], args, writes=True)
        except StoreUnavailableError:
            await self._withdraw(place)
            raise
        if reply[0] == b"claimed":
            self._remember(place)
            return True
        await self._withdraw(place)
        return False

    async def _withdraw(self, place: Place) -> None:
        """Remove what was written for an id that others got; what fails is left to sweep."""
        with suppress(StoreError):
            await self.remove(place)

    async def remove(self, place: Place, expected: Sequence[Arg] = ("", "")) -> bytes:
        """Remove the run that lies there, if it has so many entries: what the script says."""
        args = (place.bucket.tag, place.member, *expected)
        reply = await self.tenant.run(_DELETE, [place.run, place.keys], args, writes=True)
        return reply[0]

    async def drop_claim(self, place: Place) -> None:
        """Remove the claim that names a place from which the run is gone."""
        args = (claim_text(place),)
        await self.tenant.run(_DROP, [self.home(place.id).run], args, writes=True)

    async def claimed(self, places: Sequence[Place]) -> list[bool]:
        """Of each place whether it counts: it is at home, or the claim there names it."""
        away = [place for place in places if place.token]
        if not away:
            return [True] * len(places)
        claims = await self.tenant.read_many(
            [("HGET", self.home(place.id).run, "away") for place in away]
        )
        told = {
            place.member: claim == claim_text(place).encode()
            for place, claim in zip(away, claims, strict=True)
        }
        return [told.get(place.member, not place.token) for place in places]

    def _place_of(self, id: str, away: bytes) -> Place:
        number, _, token = away.decode().partition(" ")
        try:
            return Place(self.tenant.buckets[int(number)], id, token)
        except (ValueError, IndexError) as error:
            raise CorruptRecordError(store="runs", id=id) from error

    def _remember(self, place: Place) -> None:
        self._known[place.id] = place
        self._known.move_to_end(place.id)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)


def claim_text(place: Place) -> str:
    """A place as its claim names it."""
    return f"{place.bucket.number} {place.token}"
