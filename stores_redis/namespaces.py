"""The namespaces of a tenant, in code-point order."""

from collections.abc import AsyncGenerator, Sequence
from heapq import merge

from stores_redis.keys import Bucket
from stores_redis.storage import Tenant

_PAGE = 1_000


async def list_namespaces(
    tenant: Tenant, prefix: str, after: str | None, most: int, start: str = ""
) -> Sequence[str]:
    """Up to ``most`` namespaces that begin with ``prefix``, behind ``after``, from ``start`` on."""
    pages: list[list[str]] = []
    for bucket in tenant.buckets:
        pages.append(await _page(tenant, bucket, prefix, after, most, start))
    return list(merge(*pages))[:most]


async def all_namespaces(tenant: Tenant, start: str = "") -> AsyncGenerator[str]:
    """All namespaces from a name on, read a page at a time."""
    names = await list_namespaces(tenant, "", None, _PAGE, start)
    while names:
        for name in names:
            yield name
        names = await list_namespaces(tenant, "", names[-1], _PAGE)


async def namespaces_of(tenant: Tenant, bucket: Bucket) -> AsyncGenerator[str]:
    """All namespaces of one bucket, read a page at a time."""
    names = await _page(tenant, bucket, "", None, _PAGE, "")
    while names:
        for name in names:
            yield name
        names = await _page(tenant, bucket, "", names[-1], _PAGE, "")


async def _page(
    tenant: Tenant, bucket: Bucket, prefix: str, after: str | None, most: int, start: str
) -> list[str]:
    first = b"[" + max(prefix, start).encode()
    if after is not None and after >= prefix:
        first = b"(" + after.encode()
    # No text has this byte, so all that begin with the prefix are below.
    last = b"[" + prefix.encode() + b"\xff"
    names = await tenant.read("ZRANGEBYLEX", bucket.namespaces(), first, last, "LIMIT", 0, most)
    return [name.decode() for name in names]
