"""The stored format of a tenant: its revision, how it is recognised, and the way between revisions.

A tenant's meta key bears the revision and the number of buckets. It is written once, before
anything else of the tenant. The key of the whole storage bears its identity.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from redis.exceptions import ResponseError

from stores_core.errors import InvalidRequestError, SchemaVersionError, StoreUnavailableError
from stores_core.revisions import Revision, State, destination, state_at
from stores_redis.keys import storage_meta, tenant_meta, tenants
from stores_redis.scripts import Script
from stores_redis.storage import Storage, Tenant

CODE = Revision(1, oldest=1)
"""What this code writes. It works on newer ones too whose ``oldest`` is no newer than this."""

ADVICE = (
    "save a copy first: BGSAVE, and keep the file",
    "open the tenant with new code everywhere before; older code refuses it afterwards",
)

_FOREIGN = (
    "a key of ours is there that we did not make; it was left as it is; open with another prefix"
)

_CLAIM = Script("tenant_claim")


class Step(NamedTuple):
    """From the revision before to ``end``; ``work`` may be repeated after a cut."""

    end: Revision
    sentence: str
    work: Callable[[Tenant], Awaitable[None]]


STEPS: Sequence[Step] = ()
"""All steps, in order. There is one revision so far."""


class Found(NamedTuple):
    """What stands under a tenant's name. ``revision`` and ``buckets`` are 0 where there is none."""

    state: State
    revision: Revision
    buckets: int


async def look(storage: Storage, name: str) -> Found:
    """What a tenant's meta key says."""
    key = tenant_meta(storage.prefix, name)
    try:
        fields, is_there = await storage.read_many(
            [("HMGET", key, "format", "oldest", "buckets"), ("EXISTS", key)]
        )
    except StoreUnavailableError as error:
        if isinstance(error.__cause__, ResponseError) and "WRONGTYPE" in error.__cause__.args:
            return Found(State.FOREIGN, Revision(0, 0), 0)
        raise
    if not is_there:
        return Found(State.ABSENT, Revision(0, 0), 0)
    try:
        number, oldest, buckets = (int(field) for field in fields)
    except (TypeError, ValueError):
        return Found(State.FOREIGN, Revision(0, 0), 0)
    revision = Revision(number, oldest)
    return Found(state_at(revision, CODE), revision, buckets)


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
        return (
            f"the tenant has the stored format {found.revision}, this code needs {CODE}; save a "
            "copy and run `await backend.admin.migrate()`"
        )
    return _FOREIGN


def plan(found: Revision, target: str = "") -> Sequence[Step]:
    """The steps to the revision ``target`` names, or to the code's. Raises InvalidRequestError."""
    end = destination(target, found, CODE)
    return [step for step in STEPS if found.number < step.end.number <= end]


async def migrate(tenant: Tenant, target: str = "") -> list[str]:
    """Take the steps that are left; what was done."""
    found = await look(tenant.storage, tenant.name)
    applied: list[str] = []
    for step in plan(found.revision, target):
        await step.work(tenant)
        meta = tenant_meta(tenant.storage.prefix, tenant.name)
        revision = ("format", step.end.number, "oldest", step.end.oldest)
        await tenant.storage.write_many([("HSET", meta, *revision)])
        applied.append(step.sentence)
    now = await look(tenant.storage, tenant.name)
    tenant.refused = "" if now.state is State.CURRENT else refusal(now)
    return applied
