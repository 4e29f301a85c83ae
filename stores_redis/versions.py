"""The stored format of a tenant: its revision, how it is recognised, and the way between revisions.

A tenant's meta key bears the revision and the number of buckets. It is written before
anything else of the tenant, and changed by migrations alone. The key of the whole storage bears
its identity.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import ResponseError

from stores_core.errors import InvalidRequestError, SchemaVersionError, StoreUnavailableError
from stores_core.revisions import (
    Change,
    Revision,
    State,
    Step,
    destination,
    state_at,
    steps,
)
from stores_redis.keys import storage_meta, tenant_meta, tenants
from stores_redis.revisions import r0002_counts
from stores_redis.scripts import Script
from stores_redis.steps import Hold, OvertakenError, begin
from stores_redis.storage import Storage, Tenant

CODE = Revision(2, oldest=2)
"""What this code writes. It works on newer ones too whose ``oldest`` is no newer than this."""

ADVICE = (
    "save a copy first: BGSAVE, and keep the file",
    "stop all clients of the tenant first: those that have it open do not see that its format "
    "changes",
)

_FOREIGN = (
    "a key of ours is there that we did not make; it was left as it is; open with another prefix"
)

_CLAIM = Script("tenant_claim")


Work = Callable[[Tenant, Hold], Awaitable[None]]
"""What a step does, while it is held."""

_REVISIONS = {1: Revision(1, 1), 2: CODE}
_CHANGES: Mapping[int, Change[Work]] = {2: r0002_counts}


class Found(NamedTuple):
    """What stands under a tenant's name. ``revision`` and ``buckets`` are 0 where there is none.

    ``is_unfinished`` says that a step to this revision, or back from it, has begun and not ended:
    no code works on such a tenant, and the step can be taken in both directions.
    """

    state: State
    revision: Revision
    buckets: int
    is_unfinished: bool = False


async def look(storage: Storage, name: str) -> Found:
    """What a tenant's meta key says."""
    key = tenant_meta(storage.prefix, name)
    try:
        fields, is_there = await storage.read_many(
            [("HMGET", key, "format", "oldest", "buckets", "unfinished"), ("EXISTS", key)]
        )
    except StoreUnavailableError as error:
        if isinstance(error.__cause__, ResponseError) and "WRONGTYPE" in error.__cause__.args:
            return Found(State.FOREIGN, Revision(0, 0), 0)
        raise
    if not is_there:
        return Found(State.ABSENT, Revision(0, 0), 0)
    try:
        number, oldest, buckets = (int(field) for field in fields[:3])
    except (TypeError, ValueError):
        return Found(State.FOREIGN, Revision(0, 0), 0)
    revision = Revision(number, oldest)
    state, is_unfinished = state_at(revision, CODE), fields[3] is not None
    if is_unfinished and state is State.CURRENT:
        state = State.BEHIND
    return Found(state, revision, buckets, is_unfinished)


async def identity_of(storage: Storage) -> str:
    """The identity of the storage, which gets one if it has none. Raises SchemaVersionError."""
    reply = await storage.run(
        _CLAIM, [storage_meta(storage.prefix)], ("identity", secrets.token_hex(16)), writes=True
    )
    if not reply[0]:
        raise SchemaVersionError(_FOREIGN)
    return reply[0].decode()


async def enter_tenant(storage: Storage, name: str, buckets: int, *, given: bool = False) -> Tenant:
    """The tenant, entered with so many buckets if it is new.

    Raises InvalidRequestError where it has another number of them and this one was ``given``.

    Where the stored format is not one that this code works on, nothing of it is read or written
    but by a migration.
    """
    found = await look(storage, name)
    if found.state is State.ABSENT:
        await storage.run(
            _CLAIM,
            [tenant_meta(storage.prefix, name)],
            ("format", CODE.number, "oldest", CODE.oldest, "buckets", buckets),
            writes=True,
        )
        await storage.write_many([("ZADD", tenants(storage.prefix), 0, name)])
        found = await look(storage, name)
    if given and found.buckets not in (0, buckets):
        raise InvalidRequestError(
            field="buckets",
            found=f"{buckets}, for a tenant that was made with {found.buckets}",
            allowed=f"{found.buckets}, or leave it out; to change it, copy the tenant to another",
        )
    tenant = Tenant(storage, name, found.buckets or 1)
    if found.state is not State.CURRENT:
        tenant.refused = refusal(found)
    return tenant


def refusal(found: Found) -> str:
    """Why stores do not work on a tenant in this state, and what to do."""
    if found.state is State.AHEAD:
        return (
            f"the tenant has the stored format {found.revision}, this code knows {CODE}; it was "
            "left as it is; update agent-stores"
        )
    if found.state is State.BEHIND:
        has = f"the stored format {found.revision}"
        if found.is_unfinished:
            has = "a stored format that is being changed, or was half-way"
        return (
            f"the tenant has {has}, this code needs {CODE}; save a copy and run "
            "`await backend.admin.migrate()`"
        )
    return _FOREIGN


def plan(found: Found, target: str = "") -> Sequence[Step[Work]]:
    """The steps to the revision that ``target`` names, or to the code's.

    Raises InvalidRequestError.
    """
    start, end = found.revision.number, destination(target, found.revision, CODE)
    if found.state not in (State.CURRENT, State.BEHIND):
        return ()
    if end < start > CODE.number:
        raise InvalidRequestError(
            field="target",
            found=f"{end:04d}, from the newer {found.revision}",
            allowed="what the code of that revision knows the way back to: update agent-stores",
        )
    if found.is_unfinished and end >= start:
        start -= 1  # the step to it is taken again, from where it was cut off
    return steps(_REVISIONS, _CHANGES, start, end)


async def migrate(tenant: Tenant, target: str = "") -> list[str]:
    """Take the steps that are left; what was done here. Others may be at it too."""
    applied: list[str] = []
    at_work = Tenant(tenant.storage, tenant.name, len(tenant.buckets))  # which nothing refuses
    while steps := plan(found := await look(tenant.storage, tenant.name), target):
        step = steps[0]
        newer = max(step.start, step.end, key=lambda revision: revision.number)
        with suppress(OvertakenError):
            hold = await begin(at_work, found.revision, newer, is_unfinished=found.is_unfinished)
            await step.work(at_work, hold)
            await hold.end(step.end)
            applied.append(step.sentence)
    tenant.refused = "" if found.state is State.CURRENT else refusal(found)
    return applied
