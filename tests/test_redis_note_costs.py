"""How long scripts of notes and tool results hold the server up at the largest requests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import Backend, MemoryItem, ToolResult, open_backend
from stores_core.embedding import Purpose
from stores_core.limits import CEILINGS
from tests.redis_costs import BLOCKS, costs_of_scripts
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown

TRIES = 3
"""So often it is tried: on a busy machine caches are cold."""

MIB = 1024 * 1024


class Wide:
    """Vectors of as many dimensions as the largest models give."""

    name, dimensions = "wide", 3_072

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Any:
        return np.random.default_rng(len(texts)).standard_normal((len(texts), self.dimensions))


def notes(size: int, count: int = 1_000) -> list[MemoryItem]:
    return [MemoryItem(key=f"{n}", value="v" * size, metadata={"n": n}) for n in range(count)]


async def _short(backend: Backend) -> None:
    for _ in range(2):
        await backend.memory.put_memories(items=notes(100))


async def _middling(backend: Backend) -> None:
    for _ in range(2):
        await backend.memory.put_memories(items=notes(4_000))
    assert len((await backend.memory.list_memories(limit=1_000)).items) == 1_000
    assert len((await backend.memory.list_memories()).items) == 1_000


async def _long(backend: Backend) -> None:
    await backend.memory.put_memories(items=notes(33_000))
    await backend.memory.put_memory(item=MemoryItem(key="k", value="v" * 31 * MIB))
    assert (await backend.memory.get_memory(key="k")).found
    assert (await backend.memory.clear_namespace(namespace="")).deleted == 1_001


async def _many(backend: Backend) -> None:
    """The largest batches of notes that options allow: small ones, and as many bytes as may be."""
    for size in (10, 10, 12_000):
        put = await backend.memory.put_memories(items=notes(size, 10_000), namespace="many")
        assert len(put.versions) == 10_000
    assert len((await backend.memory.list_memories(namespace="many", limit=1_000)).items) == 1_000
    assert (await backend.memory.delete_memory(key="5", namespace="many")).deleted
    assert (await backend.memory.clear_namespace(namespace="many")).deleted == 9_999


async def _capped(backend: Backend) -> None:
    """Each batch drives all the notes of the one before it out."""
    for prefix in "abc":
        batch = [MemoryItem(key=f"{prefix}{n}", value="v") for n in range(10_000)]
        await backend.memory.put_memories(items=batch)
    assert len((await backend.memory.list_memories()).items) == 10_000


async def _recalled(backend: Backend) -> None:
    for _ in range(2):
        await backend.memory.put_memories(items=notes(100))
    assert len((await backend.memory.list_memories(query="q", limit=10)).items) == 10


async def _results(backend: Backend) -> None:
    results = backend.tool_results
    for sign in "ab":
        large = ToolResult(content=[{"type": "text", "text": sign * 31 * MIB}])
        await results.put_tool_result(ref="r", result=large)
    await results.get_tool_result(ref="r")
    await results.read_tool_result(ref="r", offset=20 * MIB, limit=1_000_000)
    labels = {f"{n:02}" + "k" * 500: "v" * 500 for n in range(64)}
    for n in range(100):
        await results.put_tool_result(ref=f"{n}", result=ToolResult(), labels=labels)
    assert len((await results.list_tool_results(limit=1_000)).infos) == 101
    assert (await results.list_tool_results(limit=1_000, labels=labels)).infos


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", [_short, _middling, _long, _many, _capped, _recalled, _results])
async def test_no_script_holds_the_server_up(
    own_redis: str, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = "&".join(f"{name}={most}" for name, most in CEILINGS.items())
    if work is _capped:
        options += "&notes_per_namespace=10000"
    embedder = Wide() if work is _recalled else None
    found = list[tuple[int, str]]()
    async with Redis.from_url(own_redis) as client:
        for _ in range(TRIES):
            url = f"{with_prefix(own_redis)}&{options}"
            async with (
                open_backend(url, embedder=embedder) as backend,
                costs_of_scripts(client, monkeypatch) as costs,
            ):
                await work(backend)
            assert costs
            found.append(max(costs))
            if found[-1][0] < BLOCKS:
                return
    raise AssertionError(f"microseconds that the longest script took: {found}")
