"""Opening a Redis server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from stores_core.backend import Backend
from stores_core.capabilities import Capability
from stores_core.embedding import Embedder, NoteEmbedder
from stores_core.errors import InvalidRequestError
from stores_core.retention import Retention
from stores_core.values import Clock
from stores_redis.admin import RedisAdmin
from stores_redis.cluster import ClusterStorage
from stores_redis.connections import HostPool, own_pool
from stores_redis.generations import Generations
from stores_redis.keys import PREFIX, check_prefix
from stores_redis.memory import RedisMemoryStore
from stores_redis.moving import RedisMoving
from stores_redis.places import Places
from stores_redis.routing import named_by
from stores_redis.runs import RedisRunStore
from stores_redis.sentinel import SentinelStorage
from stores_redis.settings import read_settings, take
from stores_redis.storage import WAITS_MILLISECONDS, Storage
from stores_redis.tool_results import RedisToolResultStore
from stores_redis.versions import enter_tenant, identity_of

POOL_SIZE = 10
CONNECT_TIMEOUT = 10.0
BUCKETS, CLUSTER_BUCKETS = 1, 64
MOST_BUCKETS = 1_024


@asynccontextmanager
async def open_redis(
    url: str,
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    prefix: str = PREFIX,
    buckets: int = 0,
    client: Any = None,
    pool_size: int = POOL_SIZE,
    connect_timeout: float = CONNECT_TIMEOUT,
    wait_replicas: int = 0,
    wait_milliseconds: int = WAITS_MILLISECONDS,
    allow_eviction: bool = False,
    sentinel_password: str = "",
    tls: bool = False,
    ssl_ca_certs: str = "",
    ssl_certfile: str = "",
    ssl_keyfile: str = "",
    notes_per_namespace: int = 0,
    result_max_age: float = 0,
    result_max_count: int = 0,
    result_max_bytes: int = 0,
) -> AsyncGenerator[Backend]:
    """Open ``redis://user:password@host:port/db``, or ``rediss://`` for TLS, parts percent-encoded.
    ``redis+cluster://user:password@host:port,host:port`` names nodes of a cluster, one at least,
    and ``redis+sentinel://user:password@host:port,host:port/name`` Sentinels, which have
    ``sentinel_password`` if they want one, and what they watch over; with ``tls`` both take TLS.

    ``prefix`` begins all our keys. ``client`` is a ``redis.asyncio.Redis`` of the host's, used in
    place of up to ``pool_size`` connections of our own and never closed; of the URL then only the
    scheme counts. ``connect_timeout`` is in seconds.

    A tenant's data lies in so many ``buckets``, which a cluster may hold on different machines: 1,
    in a cluster 64, unless something else is said when the tenant is opened first. It cannot be
    changed later.

    With ``wait_replicas`` a write is acknowledged once so many replicas have it, and is of unknown
    outcome where they have not after ``wait_milliseconds``. A server that removes keys when its
    memory is full is refused, unless ``allow_eviction`` says that data may vanish.

    ``ssl_ca_certs``, ``ssl_certfile`` and ``ssl_keyfile`` name files. The rest are those of
    ``memory:``.
    """
    for name, value, least in (
        ("pool_size", pool_size, 1),
        ("buckets", buckets, 0),
        ("wait_replicas", wait_replicas, 0),
        ("wait_milliseconds", wait_milliseconds, 1),
    ):
        if value < least:
            raise InvalidRequestError(field=name, found=str(value), allowed=f"{least} or more")
    if buckets > MOST_BUCKETS:
        raise InvalidRequestError(
            field="buckets", found=str(buckets), allowed=f"1 to {MOST_BUCKETS}, or 0 for the usual"
        )
    check_prefix(prefix)
    waits = wait_replicas, wait_milliseconds
    files = {
        "ssl_ca_certs": ssl_ca_certs,
        "ssl_certfile": ssl_certfile,
        "ssl_keyfile": ssl_keyfile,
    }
    pool = partial(own_pool, size=pool_size, connect_timeout=connect_timeout, **files)
    named = partial(named_by, size=pool_size, tls=tls, connect_timeout=connect_timeout, **files)
    scheme, usual = url.partition(":")[0], BUCKETS
    if client is not None and scheme in ("redis+cluster", "redis+sentinel"):
        raise InvalidRequestError(
            field="client", found=f"one, with {scheme}:", allowed="none: servers come and go"
        )
    if scheme == "redis+cluster":
        usual = CLUSTER_BUCKETS
        storage: Storage = ClusterStorage(named(url), prefix, *waits)
    elif scheme == "redis+sentinel":
        sentinels = named(url, password=sentinel_password)
        storage = SentinelStorage(named(url), sentinels, prefix, *waits)
    else:
        storage = Storage(pool(url) if client is None else HostPool(client), prefix, *waits)
    try:
        await storage.refresh()
        take(storage, await read_settings(storage), allow_eviction=allow_eviction)
        storage.identity = await identity_of(storage)
        held = await enter_tenant(storage, tenant, buckets or usual, given=bool(buckets))
        embeds = None if embedder is None else NoteEmbedder(embedder)
        retention = Retention(result_max_age, result_max_count, result_max_bytes)
        generations = Generations()
        places = Places(held)
        runs = RedisRunStore(places)
        yield Backend(
            name="redis",
            runs=runs,
            memory=RedisMemoryStore(held, embeds, notes_per_namespace, generations),
            tool_results=RedisToolResultStore(held, retention),
            admin=RedisAdmin(places, runs, embeds, retention),
            moving=RedisMoving(places, generations),
            capabilities=frozenset({Capability.SHARED, Capability.EMBEDDINGS, Capability.MOVABLE}),
            durability=storage.durability,
            new_fork_id=places.new_fork_id if held.is_spread else None,
            identity=f"{storage.identity}\0{tenant}",
        )
    finally:
        await storage.close()
