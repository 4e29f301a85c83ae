"""Opens a Redis whose vector sets are asked by every query, in however small a namespace.

For the suite: ``python -m tests.redis_server -- python -m conformance_tests
tests.redis_indexed:open_backend``.
"""

import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from stores_core import Backend, Clock, Embedder
from stores_core.embedding import Vector
from stores_core.moving import EmbedderInfo
from stores_redis import embedding, recall
from stores_redis.backend import open_redis
from stores_redis.vector_indexes import Near, VectorIndexes

PREFIX = "indexed"

asked: Counter[str] = Counter()
"""How often a set proposed, and how often it could not."""


class EarlyIndexes(VectorIndexes):
    """Begins a set and brings it up to date before each query."""

    async def near(
        self, namespace: str, info: EmbedderInfo, query: Vector, limit: int, wanted: Iterable[bytes]
    ) -> Near | None:
        await self.catch_up(namespace, info, 1_000_000, begin=True)
        found = await super().near(namespace, info, query, limit, wanted)
        asked["in vain" if found is None else "proposed"] += 1
        return found


def early() -> None:
    """Let recall in this process work so from now on."""
    recall.VectorIndexes = EarlyIndexes
    embedding.Matrices.has = lambda self, namespace, generation: False


@asynccontextmanager
async def open_backend(
    *, tenant: str = "", embedder: Embedder | None = None, clock: Clock | None = None
) -> AsyncGenerator[Backend]:
    early()
    url = os.environ["STORES_TEST_REDIS_URL"]
    async with open_redis(
        url, prefix=PREFIX, tenant=tenant, embedder=embedder, clock=clock
    ) as backend:
        yield backend
