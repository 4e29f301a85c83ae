"""How tool results lie in Redis: parts, what is sent before, slices, replacing, retention."""

import asyncio
import re
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import Backend, CorruptRecordError, ToolResult, open_backend
from stores_redis.storage import Tenant

Redis: Any = TypedRedis  # its types are partly unknown

MIB = 1024 * 1024


async def do(url: str, *command: object) -> Any:
    async with Redis.from_url(url.partition("?")[0], decode_responses=True) as client:
        return await client.execute_command(*command)


async def keys(url: str) -> list[str]:
    """The keys of tool results, behind the tag."""
    prefix = re.findall("prefix=([^&]+)", url)[0]
    found = await do(url, "KEYS", f"{prefix}:{{.0}}:*")
    return sorted(key.split("}:")[1] for key in found)


def key_of(url: str, kind: str) -> str:
    prefix = re.findall("prefix=([^&]+)", url)[0]
    return f"{prefix}:{{.0}}:{kind}"


def result(text: str, **more: Any) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}], **more)


async def put(backend: Backend, ref: str, text: str, **more: Any) -> None:
    await backend.tool_results.put_tool_result(ref=ref, result=result(text), **more)


async def test_a_removed_result_leaves_nothing(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        await put(backend, "r", "x" * 2 * MIB, labels={"a": "1", "b": "2"})
        await put(backend, "r", "y", labels={"a": "2"})
        assert await keys(redis_url) == [
            "result-bytes", "result-labels", "result-order", "result:r", "results",
        ]  # fmt: skip
        assert await do(redis_url, "ZCARD", key_of(redis_url, "result-labels")) == 1
        assert await do(redis_url, "TTL", key_of(redis_url, "result:r")) == -1
        assert (await backend.tool_results.delete_tool_result(ref="r")).deleted
        assert await keys(redis_url) == []


async def test_what_a_cut_put_sent_ends_by_itself(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backend(redis_url) as backend:
        await put(backend, "r", "old")

        async def cut(self: Tenant, *args: object, **more: object) -> list[Any]:
            raise ConnectionError

        with monkeypatch.context() as patch:
            patch.setattr(Tenant, "run", cut)
            with pytest.raises(Exception, match="put_tool_result"):
                await put(backend, "r", "x" * 2 * MIB)
        (staged,) = [key for key in await keys(redis_url) if key.startswith("result-staged:")]
        assert 0 < await do(redis_url, "TTL", key_of(redis_url, staged)) <= 3_600
        assert (await backend.tool_results.read_tool_result(ref="r")).text == "old"
        await put(backend, "r", "x" * 2 * MIB)
        assert await do(redis_url, "TTL", key_of(redis_url, "result:r")) == -1


async def test_a_slice_costs_the_slice(own_redis: str) -> None:
    text = "".join(f"{n:07}é" for n in range(1_000_000))
    async with open_backend(own_redis) as backend:
        await put(backend, "r", text)
        before = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"])
        for offset in (0, 65_535, 4_000_000, 7_999_990, 8_000_000, 9_000_000):
            read = await backend.tool_results.read_tool_result(ref="r", offset=offset, limit=100)
            assert read.text == text[offset : offset + 100]
            assert read.characters == 8_000_000
        sent = int((await do(own_redis, "INFO", "stats"))["total_net_output_bytes"]) - before
        assert sent < 7 * 2 * 75_000
        read = await backend.tool_results.read_tool_result(ref="r", offset=1, limit=1_000_000)
        assert read.text == text[1:1_000_001]


async def test_a_reader_sees_one_of_the_results_that_replace_each_other(redis_url: str) -> None:
    sizes = {"a": 100, "b": 6 * MIB, "c": 700_000}
    async with open_backend(redis_url) as backend, open_backend(redis_url) as other:
        await put(backend, "r", "a" * 100)
        done = asyncio.Event()

        async def write() -> None:
            for sign in "bcabcbacbabc":
                await put(backend, "r", sign * sizes[sign])
            done.set()

        async def read() -> int:
            reads = 0
            while not done.is_set():
                got = (await other.tool_results.get_tool_result(ref="r")).result
                assert got
                assert got.content
                text = got.content[0]["text"]
                assert text == text[0] * sizes[text[0]]
                reads += 1
            return reads

        _, *reads = await asyncio.gather(write(), read(), read())
    assert min(reads) > 3


@pytest.mark.parametrize("size", [10, 6 * MIB])
async def test_a_result_that_lost_a_part_is_corrupt_and_not_shorter(
    redis_url: str, size: int
) -> None:
    async with open_backend(redis_url) as backend:
        await put(backend, "r", "x" * size)
        await do(redis_url, "RPOP", key_of(redis_url, "result:r"))
        with pytest.raises(CorruptRecordError, match="'r'"):
            await backend.tool_results.get_tool_result(ref="r")
        await do(redis_url, "DEL", key_of(redis_url, "result:r"))
        results = backend.tool_results
        for operation in (
            results.get_tool_result(ref="r"),
            results.read_tool_result(ref="r"),
            results.search_tool_result(ref="r", pattern="x"),
        ):
            with pytest.raises(CorruptRecordError, match="'r'"):
                await operation
        problems = (await backend.admin.verify()).problems
        assert [(problem.store, problem.id) for problem in problems] == [("tool_results", "r")]
        await put(backend, "r", "new")
        assert (await backend.tool_results.read_tool_result(ref="r")).text == "new"


@pytest.mark.long
async def test_two_clients_give_up_what_is_too_much_and_no_more(redis_url: str) -> None:
    async with (
        open_backend(redis_url, result_max_count=50) as one,
        open_backend(redis_url, result_max_count=50) as other,
    ):
        await asyncio.gather(
            *(put(client, f"{n}", "x" * 100) for n, client in enumerate([one, other] * 150))
        )
        await one.admin.sweep()
        listed = (await other.tool_results.list_tool_results(limit=1_000)).infos
        assert len(listed) == 50
        held = int(await do(redis_url, "GET", key_of(redis_url, "result-bytes")))
        assert held == sum(info.bytes for info in listed)
    async with open_backend(redis_url, result_max_bytes=1_000) as client:
        while (await client.admin.sweep(budget=10)).more:
            pass
        listed = (await client.tool_results.list_tool_results(limit=1_000)).infos
        assert 0 < sum(info.bytes for info in listed) <= 1_000
