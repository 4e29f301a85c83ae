"""Puts of notes and tool results that are cut, and how many round trips each operation is."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from conformance_tests.faults.proxy import Fault, Proxy, proxied
from conformance_tests.suite.spelled import Spelled, spell
from stores_core import (
    Backend,
    MemoryItem,
    OutcomeUnknownError,
    StoreUnavailableError,
    ToolResult,
    open_backend,
)

COUNT, MIB = 30, 1024 * 1024


@dataclass
class Embedding:
    """A client with one connection by way of a proxy, and one that goes straight."""

    backend: Backend
    proxy: Proxy
    straight: Backend


@asynccontextmanager
async def embedding(url: str) -> AsyncGenerator[Embedding]:
    async with (
        proxied(url) as proxy,
        open_backend(url, embedder=Spelled()) as straight,
        open_backend(proxy.url(url), embedder=Spelled(), pool_size=1) as backend,
    ):
        await backend.memory.put_memory(item=MemoryItem(key="first", value=spell(1, 0)))
        await backend.memory.list_memories(query=spell(1, 0))
        yield Embedding(backend, proxy, straight)


def fault(end: str, at: int, after: int) -> Fault:
    """What is sent before goes in plain commands, of which the server answers the first while the
    last are on their way; ``after`` them comes the script."""
    having = b"EVALSHA" if after else b""
    return Fault(request=at, having=having) if end == "request" else Fault(reply=at, having=having)


def batch(sign: str) -> list[MemoryItem]:
    return [MemoryItem(key=f"{n}", value=sign * 20_000) for n in range(COUNT)]


def result(sign: str) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": sign * MIB}])


def operations(backend: Backend) -> list[tuple[str, Callable[[], Any], int]]:
    """Operations, each with its name and how many round trips it is."""
    memory, results = backend.memory, backend.tool_results
    item, query = MemoryItem(key="k", value=spell(1, 0)), spell(1, 0)
    small = ToolResult(content=[{"type": "text", "text": "small"}])
    return [
        ("put", lambda: memory.put_memory(item=item), 1),
        ("get", lambda: memory.get_memory(key="k"), 1),
        ("page", lambda: memory.list_memories(limit=10), 1),
        ("recall", lambda: memory.list_memories(query=query, limit=1), 2),
        ("delete", lambda: memory.delete_memory(key="k"), 1),
        ("namespaces", lambda: memory.list_namespaces(), 1),
        ("clear", lambda: memory.clear_namespace(namespace=""), 1),
        ("put result", lambda: results.put_tool_result(ref="s", result=small), 1),
        ("get result", lambda: results.get_tool_result(ref="s"), 1),
        ("read result", lambda: results.read_tool_result(ref="s"), 1),
        ("list results", lambda: results.list_tool_results(), 1),
        ("delete result", lambda: results.delete_tool_result(ref="s"), 1),
        ("get large", lambda: results.get_tool_result(ref="l"), 1),
        ("read large", lambda: results.read_tool_result(ref="l", offset=900_000), 1),
    ]


async def test_operations_are_as_few_round_trips_as_they_can_be(redis_url: str) -> None:
    async with embedding(redis_url) as both:
        await both.straight.tool_results.put_tool_result(ref="l", result=result("a"))
        for _, operation, _ in operations(both.straight):
            await operation()  # and the server knows its script
        for name, operation, trips in operations(both.backend):
            before = both.proxy.round_trips
            await operation()
            assert both.proxy.round_trips - before == trips, name


@pytest.mark.parametrize("after", [0, 1], ids=["sent before", "put"])
@pytest.mark.parametrize("end", ["request", "reply"])
async def test_a_batch_that_is_cut_at_any_byte_is_whole_or_not_there(
    redis_url: str, after: int, end: str
) -> None:
    async with embedding(redis_url) as both:
        put = both.backend.memory.put_memories
        await put(items=batch("."), namespace="s")
        expected, unknown, refused = ".", 0, 0
        for turn in range(12):
            sign, at = (
                "abcdefghijkl"[turn],
                turn * (7 if end == "reply" else 300 if after else 40_000),
            )
            await both.backend.memory.get_memory(key="0", namespace="s")  # connected again
            both.proxy.cut(fault(end, at, after))
            try:
                await put(items=batch(sign), namespace="s")
                expected = sign
            except StoreUnavailableError:
                refused += 1  # so the old batch is there
            except OutcomeUnknownError:
                unknown += 1
                expected += sign
            both.proxy.cut(None)
            listed = (await both.straight.memory.list_memories(namespace="s")).items
            found = {scored.item.value[0] for scored in listed}
            assert len(listed) == COUNT
            assert len(found) == 1, "a part of a batch"
            assert found <= set(expected)
            (expected,) = found
            with suppress(StoreUnavailableError, OutcomeUnknownError):  # the cut came after it all
                await both.backend.memory.get_memory(key="0", namespace="s")
            await put(items=batch(sign), namespace="s")
            expected = sign
        assert both.proxy.cuts > 3
        assert unknown if after else refused
        assert (await both.straight.admin.verify()).problems == ()


@pytest.mark.parametrize("after", [0, 1], ids=["sent before", "put"])
async def test_a_result_that_is_cut_at_any_byte_is_the_old_or_the_new(
    redis_url: str, after: int
) -> None:
    async with embedding(redis_url) as both:
        put = both.backend.tool_results.put_tool_result
        await put(ref="r", result=result("."))
        expected = "."
        for turn in range(12):
            sign, end = "abcdefghijkl"[turn], "request" if turn % 2 else "reply"
            at = turn * (2 if end == "reply" else 20 if after else 80_000)
            await both.backend.tool_results.list_tool_results()  # connected again
            both.proxy.cut(fault(end, at, after))
            try:
                await put(ref="r", result=result(sign))
                expected = sign
            except StoreUnavailableError:
                pass  # so the old one is there
            except OutcomeUnknownError:
                expected += sign
            both.proxy.cut(None)
            got = (await both.straight.tool_results.get_tool_result(ref="r")).result
            assert got
            assert got.content
            text = got.content[0]["text"]
            assert text == text[0] * MIB
            assert text[0] in expected
            expected = text[0]
        assert both.proxy.cuts > 3
