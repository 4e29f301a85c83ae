"""A flood is refused before it takes the memory that it would fill."""

import resource
import sys

import pytest

from tests.conftest import Python

MIB = 1024 * 1024
ROOM = 160 * MIB
"""What a refusal may take: a third more than the largest batch, encoded, three times over... no
more than that, while the floods here would be a gibibyte and above."""

PROGRAM = """
import asyncio, resource, sys
import stores_core as s

big = "x" * 2**20
FLOODS = {
    "entries": lambda b: b.runs.append_messages(
        run_id="r", messages=[s.Message(role="user", text=big)] * 1_000),
    "events": lambda b: b.runs.append_events(
        run_id="r", events=[s.Event(kind="x", text=big)] * 1_000),
    "many": lambda b: b.runs.append_messages(
        run_id="r", messages=[s.Message(role="user", text="x")] * 1_000_000),
    "notes": lambda b: b.memory.put_memories(
        items=[s.MemoryItem(key=str(n), value=big) for n in range(1_000)]),
    "metadata": lambda b: b.memory.put_memories(
        items=[s.MemoryItem(key=str(n), value="", metadata={"x": big}) for n in range(1_000)]),
    "entry": lambda b: b.runs.append_messages(
        run_id="r", messages=[s.Message(role="user", text=big * 33)]),
    "result": lambda b: b.tool_results.put_tool_result(
        ref="t", result=s.ToolResult(content=[{"type": "text", "text": big * 33}])),
    "query": lambda b: b.memory.list_memories(query=big),
    "cursor": lambda b: b.runs.list_runs(cursor=big),
    "id": lambda b: b.runs.get_run(run_id=big),
}

async def main():
    url, room = sys.argv[1], int(sys.argv[2])
    async with s.open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        for name, flood in FLOODS.items():
            with open("/proc/self/statm") as held:
                now = int(held.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + room, resource.RLIM_INFINITY))
            try:
                await flood(backend)
            except s.InvalidRequestError as error:
                told = len(str(error)) < 300
                print(name, told, (await backend.runs.get_run(run_id="r")).info.message_count)
asyncio.run(main())
"""


FLOODS = [
    "entries",
    "events",
    "many",
    "notes",
    "metadata",
    "entry",
    "result",
    "query",
    "cursor",
    "id",
]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of addresses is Linux's")
def test_a_flood_is_refused_within_little_memory(url_alone: str, python: Python) -> None:
    ran = python("-c", PROGRAM, url_alone, str(ROOM), seconds=100)
    refused = [f"{flood} True 0" for flood in FLOODS]
    assert ran.stdout.splitlines() == refused, ran.stderr[-1000:]
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
