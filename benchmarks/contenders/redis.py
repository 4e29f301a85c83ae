"""Redis: redis-py with one key for each job and one command for each call; and our store.

Both use the server of the tests, or the one that ``STORES_TEST_REDIS_URL`` names.
"""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from redis.asyncio import BlockingConnectionPool as TypedPool
from redis.asyncio import Redis as TypedRedis

from benchmarks.contender import Contender, Entry, Ours, VectorEmbedder
from benchmarks.contenders.in_memory import DIMENSIONS
from stores_core import Message, ToolResult, open_backend
from stores_core.codec import decode_messages, decode_tool_result, encode
from tests.redis_server import redis_server, with_prefix

CONNECTIONS = 16

Redis: Any = TypedRedis  # its types are partly unknown
BlockingConnectionPool: Any = TypedPool


class Raw:
    """The least: a list for a run, a sorted set of runs, a string for a result."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._names = itertools.count()

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        for start in range(0, len(messages), 400):
            await self.append(run, messages[start : start + 400])

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        await self._client.rpush(run, *[encode(message) for message in turn])

    async def load(self, run: str) -> int:
        return len(decode_messages(await self._client.lrange(run, 0, -1)))

    async def last(self, run: str, count: int) -> int:
        return len(decode_messages(await self._client.lrange(run, -count, -1)))

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._names)}"
        await self._client.pipeline().copy(run, new).ltrim(new, 0, at - 1).execute()
        return new

    async def seed_runs(self, count: int) -> None:
        for start in range(0, count, 1_000):
            pipeline = self._client.pipeline(transaction=False)
            for number in range(start, min(start + 1_000, count)):
                pipeline.hset(f"listed-{number}", mapping={"created": number, "updated": number})
                pipeline.zadd("runs", {f"listed-{number}": number})
            await pipeline.execute()

    async def newest(self, count: int) -> int:
        ids = await self._client.zrevrange("runs", 0, count - 1)
        pipeline = self._client.pipeline(transaction=False)
        for id in ids:
            pipeline.hgetall(id)
        return len(await pipeline.execute())

    async def put_result(self, ref: str, text: str) -> None:
        result = ToolResult(content=[{"type": "text", "text": text}])
        await self._client.set(f"result-{ref}", encode(result))

    async def get_result(self, ref: str) -> int:
        body = await self._client.get(f"result-{ref}")
        return len((decode_tool_result(body).content or [{"text": ""}])[0]["text"])

    async def seed_notes(self, place: str, vectors: Sequence[Sequence[float]]) -> None:
        for start in range(0, len(vectors), 1_000):
            pipeline = self._client.pipeline(transaction=False)
            for number, vector in enumerate(vectors[start : start + 1_000], start):
                pipeline.execute_command(
                    "VADD", f"notes-{place}", "FP32", _packed(vector), str(number), "NOQUANT"
                )
            await pipeline.execute()

    async def recall(self, place: str, vector: Sequence[float], count: int) -> list[str]:
        found = await self._client.execute_command(
            # Random vectors have no neighbourhoods: asked as usual, it finds half of the nearest.
            *("VSIM", f"notes-{place}", "FP32", _packed(vector), "COUNT", count, "TRUTH")
        )
        return [name.decode() for name in found]


def _packed(vector: Sequence[float]) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


@asynccontextmanager
async def _raw() -> AsyncGenerator[Contender]:
    with redis_server() as url:
        pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS)
        async with Redis.from_pool(pool) as client:
            yield Raw(client)


@asynccontextmanager
async def _ours() -> AsyncGenerator[Contender]:
    embedder = VectorEmbedder(DIMENSIONS)
    with redis_server() as url:
        async with open_backend(
            with_prefix(url), embedder=embedder, pool_size=CONNECTIONS
        ) as backend:
            yield Ours(backend, embedder)


def entries() -> list[Entry]:
    return [Entry("raw redis-py", "raw redis-py", _raw), Entry("redis:", "raw redis-py", _ours)]
