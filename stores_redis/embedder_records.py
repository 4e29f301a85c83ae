"""Which embedder's vectors a tenant of many buckets holds.

Each bucket knows its own generations. A record in the first bucket sees to it that no two buckets
begin with different embedders: it is made before the first vector, and asked where a bucket has
none.
"""

from stores_core.embedding import check_embedder
from stores_core.moving import EmbedderInfo
from stores_redis.generations import info_of, info_text
from stores_redis.storage import Tenant


async def check_record(tenant: Tenant, ours: EmbedderInfo) -> None:
    """Raises EmbeddingMismatchError where another embedder is on record."""
    found = await tenant.read("GET", tenant.buckets[0].embedder())
    check_embedder(info_of(found) if found else None, ours)


async def make_record(tenant: Tenant, ours: EmbedderInfo) -> None:
    """As :func:`check_record`; where there is none, this one is put on record."""
    key = tenant.buckets[0].embedder()
    _, found = await tenant.write_many([("SET", key, info_text(ours), "NX"), ("GET", key)])
    check_embedder(info_of(found), ours)


async def change_record(tenant: Tenant, ours: EmbedderInfo) -> None:
    """Put this one on record, which has taken over in all buckets."""
    await tenant.write_many([("SET", tenant.buckets[0].embedder(), info_text(ours))])
