"""Callers that do a bit of everything and look at what comes back; who is connected meanwhile."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from stores_core import Backend, Event, MemoryItem, Message, ToolResult
from tests.postgres_server import asyncpg

TURN = [Message(role="user", text=f"message {n}") for n in range(3)]
RESULT = ToolResult(content=[{"type": "text", "text": "x" * 100_000}])


async def work(backend: Backend, name: str, turns: int) -> None:
    """A bit of everything by one caller, who looks at what comes back."""
    runs = backend.runs
    await runs.create_run(run_id=name, labels={"of": name})
    for n in range(turns):
        answer = await runs.append_messages(
            run_id=name, messages=TURN, events=[Event(kind="e")], idempotency_key=f"{n}"
        )
        assert answer.message_count == 3 * (n + 1)
        fork = (await runs.fork_run(run_id=name, new_run_id=f"{name} {n}")).fork_point
        assert fork == 3 * (n + 1)
        await backend.memory.put_memory(namespace=name, item=MemoryItem(key="k", value=f"{n}"))
        listed = (await backend.memory.list_memories(namespace=name, query=f"{n}")).items
        assert [each.item.value for each in listed] == [f"{n}"]
        await backend.tool_results.put_tool_result(ref=name, result=RESULT, labels={"n": f"{n}"})
        read = await backend.tool_results.read_tool_result(ref=name, offset=99_998)
        assert read.text == "xx"
        run = (await runs.load_run(run_id=name)).run
        assert run
        assert (run.id, len(run.messages), len(run.events)) == (name, 3 * (n + 1), n + 1)
        await runs.update_run(run_id=name, labels={"n": f"{n}"})
    assert len((await runs.list_runs(labels={"of": name})).runs) == turns + 1
    assert (await runs.delete_run(run_id=f"{name} 0")).deleted


@asynccontextmanager
async def watching(url: str) -> AsyncGenerator[Any]:
    """A connection of the driver's own."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def sessions(eye: Any, state: str = "%") -> int:
    """How many connections others have to the database, in such a state."""
    return await eye.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND state LIKE $1",
        state,
    )


async def settled(eye: Any, state: str = "idle in transaction%", *, most: int = 0) -> int:
    """How many such connections are left, once they are at most ``most`` or ten seconds are over.

    What a cancelled call leaves behind is rolled back beside its caller, who does not wait for it.
    """
    count = await sessions(eye, state)
    for _ in range(500):
        if count <= most:
            break
        await asyncio.sleep(0.02)
        count = await sessions(eye, state)
    return count
