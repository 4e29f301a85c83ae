"""Namespaces are listed by how many notes they hold, and large batches of notes may be pending.

What is large had to be looked for in every namespace. A large batch of notes was one script, which
held the server up; code of before would read one that is half-way in.
"""

from stores_redis.generations import Generations
from stores_redis.note_batches import settle_all
from stores_redis.scripts import Script
from stores_redis.steps import Hold
from stores_redis.storage import Tenant

_UPGRADE = Script("r0002_upgrade")
_DOWNGRADE = Script("r0002_downgrade")

_AT_ONCE = 1_000


async def upgrade(tenant: Tenant, hold: Hold) -> None:
    """Count the notes of every namespace."""
    for bucket in tenant.buckets:
        keys = bucket.step(), bucket.namespaces(), bucket.note_counts()
        at = b"-"
        while at:
            reply = await hold.run(_UPGRADE, keys, (bucket.tag, at, _AT_ONCE))
            at = reply[1] if reply[0] == b"on" else b""


async def downgrade(tenant: Tenant, hold: Hold) -> None:
    """Take pending batches in, and forget the counts."""
    for bucket in tenant.buckets:
        keys = bucket.step(), bucket.note_counts(), bucket.pending_notes()
        while (await hold.run(_DOWNGRADE, keys, ()))[0] == b"pending":
            await settle_all(tenant, Generations())
