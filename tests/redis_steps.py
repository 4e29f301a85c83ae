"""Calls to Redis taken step by step, with others between two steps, and what is stored then."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from redis.asyncio import Redis as TypedRedis

from stores_core import (
    Backend,
    open_backend,
)
from stores_redis.keys import bucket_of
from tests.redis_keys import keys_of, turn

Redis: Any = TypedRedis  # its types are partly unknown

BUCKETS = 16
LONG_AGO = 1_000_000_000
ENTRIES = 3


class Crash(BaseException):
    """The process of the caller ends here."""


class Steps:
    """What a caller sends, one after another: before step ``at`` it does ``between``."""

    def __init__(self, at: int, between: Callable[[], Awaitable[object]]) -> None:
        self.taken = 0
        self._at, self._between = at, between

    async def next(self) -> None:
        if self.taken == self._at:
            STEPPED.set(None)  # what happens between is sent by others
            await self._between()
            STEPPED.set(self)
        self.taken += 1


STEPPED: ContextVar[Steps | None] = ContextVar("STEPPED", default=None)


async def stepping(
    call: Callable[[], Awaitable[Any]], at: int, between: Callable[[], Awaitable[object]]
) -> tuple[Any, bool]:
    """The answer to a call, and whether it took so many steps that something came between."""
    steps = Steps(at, between)

    async def run() -> Any:
        STEPPED.set(steps)
        return await call()

    answer = await asyncio.create_task(run())
    return answer, steps.taken > at


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Backend]:
    async with open_backend(f"{url}&buckets={BUCKETS}") as backend:
        yield backend


async def started(backend: Backend, id: str) -> str:
    """A run of some messages."""
    await backend.runs.create_run(run_id=id)
    await backend.runs.append_messages(run_id=id, messages=turn(ENTRIES))
    return id


def elsewhere(source: str, number: int) -> str:
    """An id whose home is another bucket than that of the source."""
    return next(
        id
        for id in (f"fork-{number}-{n}" for n in range(1_000))
        if bucket_of(id, BUCKETS) != bucket_of(source, BUCKETS)
    )


async def aged(url: str) -> None:
    """As if all that was written had been written long ago."""
    async with Redis.from_url(url.partition("?")[0]) as client:
        for key in await keys_of(url):
            if key.endswith(":births"):
                for member in await client.zrange(key, 0, -1):
                    await client.zadd(key, {member: LONG_AGO})


async def swept(backend: Backend) -> None:
    while (await backend.admin.sweep()).more:
        pass


async def check_whole(backend: Backend, url: str, *, stopped: bool = False) -> None:
    """What is listed is there and whole, and nothing else is stored: after a sweep if callers
    ``stopped``, else at once."""
    listed = {run.id for run in (await backend.runs.list_runs(limit=1_000)).runs}
    for id in listed:
        loaded = await backend.runs.load_run(run_id=id)
        assert loaded.run is not None
        assert len(loaded.run.messages) == loaded.run.message_count
    if not stopped:
        assert await stored(url) == len(listed)
    await aged(url)
    await swept(backend)
    assert (await backend.admin.verify()).problems == ()
    assert await stored(url) == len(listed)
    assert not {kind for _, kind in kinds(await keys_of(url))} & {"births", "deaths"}
    for id in listed:
        await backend.runs.delete_run(run_id=id)
    await swept(backend)
    left = {kind for _, kind in kinds(await keys_of(url))}
    assert not left & {"seg", "segs", "users", "run", "keys", "trimmable", "staged", "runs"}


async def stored(url: str) -> int:
    """How many runs there are, claimed or not."""
    count = 0
    async with Redis.from_url(url.partition("?")[0]) as client:
        for key, kind in kinds(await keys_of(url)):
            if kind == "run":
                count += not await client.hexists(key, "away")
    return count


def kinds(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Keys in buckets, each with the kind it is of."""
    found = [(key, re.search(r"\.\d+}:([^:]+)", key)) for key in keys]
    return [(key, kind[1]) for key, kind in found if kind]


async def ids_of(backend: Backend) -> set[str]:
    return {run.id for run in (await backend.runs.list_runs(limit=1_000)).runs}
