"""Tenants as a whole: which hold data, how much, and erasing one."""

from collections.abc import AsyncIterator, Sequence

from stores_core.errors import StoreUnavailableError
from stores_redis.keys import Bucket, keys_pattern, tenants
from stores_redis.storage import Storage
from stores_redis.versions import look

_AT_ONCE = 500


async def list_tenants(storage: Storage, last: str | None, most: int) -> list[str]:
    """Up to ``most`` tenants behind ``last`` that hold data, in code-point order."""
    found: list[str] = []
    while True:
        first = b"-" if last is None else b"(" + last.encode()
        page = await storage.read(
            "ZRANGEBYLEX", tenants(storage.prefix), first, "+", "LIMIT", 0, _AT_ONCE
        )
        for name in (text.decode() for text in page):
            last = name
            if await holds_data(storage, await buckets_of(storage, name)):
                found.append(name)
            if len(found) == most:
                return found
        if len(page) < _AT_ONCE:
            return found


async def buckets_of(storage: Storage, name: str) -> list[Bucket]:
    """The buckets of a tenant, opened or not."""
    found = await look(storage, name)
    return [Bucket(storage.prefix, name, number) for number in range(found.buckets)]


async def holds_data(storage: Storage, buckets: Sequence[Bucket]) -> bool:
    """Whether there is a run, a note or a tool result."""
    there = await storage.read_many(
        [("EXISTS", bucket.runs(), bucket.namespaces(), bucket.results()) for bucket in buckets]
    )
    return any(there)


async def count_bytes(storage: Storage, tenant: str) -> int | None:
    """What the server uses for all keys of a tenant; None where it does not say."""
    total = 0
    try:
        async for keys in _keys_of(storage, tenant):
            # 0: it looks at all elements, rather than at some of them.
            sizes = [("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]
            total += sum(size or 0 for size in await storage.read_many(sizes))
    except StoreUnavailableError as error:
        if "NOPERM" in getattr(error.__cause__, "args", ()):
            return None
        raise
    return total


async def erase(storage: Storage, name: str) -> bool:
    """Remove everything of a tenant but the mark of its format; whether there was anything.

    Repeated after a cut, it goes on.
    """
    buckets = await buckets_of(storage, name)
    held = await holds_data(storage, buckets)
    async for keys in _keys_of(storage, name):
        for slot_keys in _by_tag(keys):
            await storage.write_many([("UNLINK", key) for key in slot_keys])
    return held


def _by_tag(keys: Sequence[bytes]) -> list[list[bytes]]:
    """Keys by the bucket that they are of."""
    found: dict[bytes, list[bytes]] = {}
    for key in keys:
        found.setdefault(key.partition(b"}")[0], []).append(key)
    return list(found.values())


async def _keys_of(storage: Storage, tenant: str) -> AsyncIterator[list[bytes]]:
    """All keys in the buckets of a tenant, a piece at a time, each at least once.

    The names in keys are encoded so that nothing in them is a pattern.
    """
    pattern = keys_pattern(storage.prefix, tenant)
    for node in storage.nodes():
        cursor = b"0"
        while True:
            cursor, keys = await node.read("SCAN", cursor, "MATCH", pattern, "COUNT", _AT_ONCE)
            if keys:
                yield keys
            if cursor == b"0":
                break
