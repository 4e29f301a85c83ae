"""Taking a step between revisions: one at a time does, and what it does may be repeated.

Whoever begins holds the step for some seconds, and longer while the work goes on. One who was held
up for too long is overtaken, and every bucket refuses what still comes from there.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from stores_core.revisions import Revision
from stores_redis.keys import tenant_meta
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

HOLDS = 10
"""Seconds for which a step is held without a sign of life."""

_POLLS = 0.1

_BEGIN = Script("step_begin")
_GO_ON = Script("step_go_on")
_END = Script("step_end")


class OvertakenError(Exception):
    """Somebody else is at the step, or has done it: look again."""


class Hold:
    """One who takes a step of a tenant, under a number that is higher than those before."""

    def __init__(self, tenant: Tenant, number: bytes) -> None:
        self._tenant, self._number = tenant, number
        self._meta = tenant_meta(tenant.storage.prefix, tenant.name)

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> list[bytes]:
        """Run a piece of the work, of one bucket, that begins as step_fence.lua says."""
        await self._told(_GO_ON, [self._meta], (HOLDS,))
        return await self._told(script, keys, args)

    async def end(self, revision: Revision) -> None:
        """Say that the tenant is at a revision."""
        await self._told(_END, [self._meta], (revision.number, revision.oldest))

    async def _told(
        self, script: Script, keys: Sequence[bytes], args: Sequence[Arg]
    ) -> list[bytes]:
        reply: list[Any] = await self._tenant.run(script, keys, (self._number, *args), writes=True)
        if reply[0] == b"lost":
            raise OvertakenError
        return reply


async def begin(tenant: Tenant, found: Revision, newer: Revision, *, is_unfinished: bool) -> Hold:
    """Begin a step of a tenant that was ``found`` so, once nobody else is at it.

    ``newer`` is the newer one of both ends. Raises OvertakenError.
    """
    meta = tenant_meta(tenant.storage.prefix, tenant.name)
    seen = found.number, found.oldest, "1" if is_unfinished else ""
    args = (*seen, newer.number, newer.oldest, HOLDS)
    while True:
        reply = await tenant.run(_BEGIN, [meta], args, writes=True)
        if reply[0] == b"begun":
            return Hold(tenant, reply[1])
        if reply[0] == b"changed":
            raise OvertakenError
        await asyncio.sleep(_POLLS)
