"""What is sent to Redis: scripts of ours, as many as there are files; keys under our prefix."""

import asyncio
from importlib.resources import files
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import MemoryItem, Message, ToolResult, open_backend
from tests.conftest import ROOT, run_python
from tests.redis_server import with_prefix

pytestmark = pytest.mark.timeout(400)
Redis: Any = TypedRedis  # its types are partly unknown

ODD = ['x"); redis.call("FLUSHALL") --', "}{", "a\r\nFLUSHALL\r\n", "]] return 1 --", "%s", "${1}"]
SCRIPTS = list(files("stores_redis").joinpath("lua").iterdir())
ROUNDS = 150


async def _cached(client: Any) -> int:
    return (await client.info("memory"))["number_of_cached_scripts"]


async def test_the_scripts_are_ours_however_much_is_asked(own_redis: str) -> None:
    """Text that a caller sends is an argument, never a part of a script: one digest a script."""
    async with Redis.from_url(own_redis) as client, open_backend(own_redis) as backend:
        counts = list[int]()
        for n in range(ROUNDS):
            id = f"{ODD[n % len(ODD)]}{n}"
            await backend.runs.create_run(run_id=id, labels={id: id})
            said = [Message(role=id, text=id)]
            await backend.runs.append_messages(run_id=id, messages=said, idempotency_key=id)
            await backend.runs.fork_run(run_id=id, new_run_id=f"{id} fork")
            await backend.runs.load_run(run_id=id)
            await backend.runs.list_runs(labels={id: id}, limit=3)
            await backend.runs.update_run(run_id=id, labels={id: None})
            await backend.memory.put_memory(item=MemoryItem(key=id, value=id), namespace=id)
            await backend.memory.list_memories(query=id, namespace=id, where={id: id})
            await backend.tool_results.put_tool_result(ref=id, result=ToolResult(content=[id]))
            await backend.tool_results.get_tool_result(ref=id)
            await backend.runs.delete_run(run_id=id)
            counts.append(await _cached(client))
        assert counts[-1] == counts[len(ODD)], "each kind of operation had its scripts by then"
        assert 0 < counts[-1] <= len(SCRIPTS)
        assert len((await backend.runs.list_runs(limit=1_000)).runs) == ROUNDS


@pytest.mark.long
def test_after_the_suite_every_key_is_below_the_prefix(own_redis: str) -> None:
    url = with_prefix(own_redis)
    command = (
        "-m",
        "conformance_tests",
        "--url",
        url,
        "--quick",
        "-k",
        "test_ids or test_isolation.py",
    )
    ran = run_python(ROOT, *command, seconds=300)
    assert "passed" in ran.stdout, ran.stdout[-2000:]
    assert "failed" not in ran.stdout, ran.stdout[-2000:]
    keys, asked = asyncio.run(_left_in(own_redis))
    assert len(keys) > 100
    prefix = url.rpartition("=")[2]
    assert [key for key in keys if not key.startswith(f"{prefix}:".encode())] == []
    assert not {"cmdstat_keys", "cmdstat_flushall", "cmdstat_flushdb"} & asked


async def _left_in(url: str) -> tuple[list[bytes], set[str]]:
    """All keys of a server, and the commands that it was ever given."""
    async with Redis.from_url(url) as client:
        keys = [key async for key in client.scan_iter(count=1_000)]
        return keys, set(await client.info("commandstats"))
