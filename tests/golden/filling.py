"""What is in a golden database, and how it is read back."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from stores_core import (
    Backend,
    Event,
    MemoryItem,
    Message,
    ToolCall,
    ToolResult,
    WordEmbedder,
    open_backend,
)

TENANTS = ("", "tenant ü/🌍")
TEXT = "a\0b é 🌍 \u2028 %_' end"


def embedder() -> WordEmbedder:
    return WordEmbedder(16)


def clock() -> Callable[[], datetime]:
    """A clock that goes on by a millisecond whenever it is looked at."""
    now = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)

    def look() -> datetime:
        nonlocal now
        now += timedelta(milliseconds=1)
        return now

    return look


async def fill(url: str) -> None:
    """Put some of everything into a new storage."""
    look = clock()
    for tenant in TENANTS:
        async with open_backend(url, tenant=tenant, embedder=embedder(), clock=look) as backend:
            await _fill_runs(backend)
            await _fill_notes(backend)
            await _fill_results(backend)
        async with open_backend(url, tenant=tenant, clock=look) as backend:
            await backend.memory.put_memory(item=MemoryItem(key="plain", value="has no vector"))


async def _fill_runs(backend: Backend) -> None:
    runs = backend.runs
    await runs.create_run(run_id="root", labels={"user": "ann", "kind": "chat"})
    for turn in range(3):
        asked = Message(role="user", text=f"{turn} {TEXT}")
        call = ToolCall(id="c", name="look", args={"n": 10**40, "f": -0.0, "l": [[], {}]})
        await runs.append_messages(
            run_id="root",
            messages=[asked, Message(role="assistant", tool_calls=(call,))],
            events=[Event(kind="turn-begin", step=turn), Event(kind="turn-end")],
            idempotency_key=f"turn {turn}",
        )
    await runs.create_run(run_id="ring")
    for turn in range(131):  # more keys than are kept
        message = Message(role="user", text=str(turn))
        await runs.append_messages(run_id="ring", messages=[message], idempotency_key=str(turn))
    await runs.fork_run(run_id="root", new_run_id="whole")
    await runs.fork_run(run_id="root", new_run_id="part", at_message=3, labels={"user": "bob"})
    await runs.append_messages(run_id="part", messages=[Message(role="user", text="other way")])
    await runs.fork_run(run_id="part", new_run_id="grandchild")
    await runs.append_messages(run_id="grandchild", messages=[Message(role="user", text="on")])
    await runs.create_run(run_id="gone")
    await runs.append_messages(run_id="gone", messages=[Message(role="user", text="x")] * 5)
    await runs.fork_run(run_id="gone", new_run_id="survivor", at_message=2)
    await runs.delete_run(run_id="gone")
    await runs.update_run(run_id="whole", labels={"kind": "archive"})


async def _fill_notes(backend: Backend) -> None:
    memory = backend.memory
    for number in range(12):
        item = MemoryItem(
            key=f"k{number}",
            value=f"note {number} of red apples {TEXT}",
            metadata={"n": number, "even": number % 2 == 0, "deep": {"a": [1.0, None]}},
        )
        await memory.put_memory(item=item, namespace="fruit" if number % 3 else "")
    for _ in range(3):
        await memory.put_memory(item=MemoryItem(key="k1", value="green pears"), namespace="fruit")
    await memory.delete_memory(key="k2", namespace="fruit")


async def _fill_results(backend: Backend) -> None:
    put = backend.tool_results.put_tool_result
    long = ToolResult(
        content=(
            {"type": "text", "text": "0123456789" * 14_000},
            {"type": "image", "data": "AA=="},
        ),
        structured_content={"rows": [1, 2.5, None]},
    )
    await put(ref="long", result=long, labels={"tool": "search"})
    await put(ref="error", result=ToolResult(content=(), is_error=True))


async def exported(url: str, **options: Any) -> dict[str, Any]:
    """Everything in a storage, by tenant, in words that JSON has."""
    found: dict[str, Any] = {}
    for tenant in TENANTS:
        async with open_backend(url, tenant=tenant, embedder=embedder(), **options) as backend:
            moving = backend.moving
            assert moving is not None
            runs = (await moving.export_runs(limit=1_000)).runs
            logs = {part.log for run in runs for part in (*run.messages, *run.events)}
            found[tenant] = {
                "runs": [run.model_dump() for run in runs],
                "logs": {
                    log: (await moving.export_entries(log=log, limit=1_000)).model_dump()
                    for log in sorted(logs)
                },
                "memories": (await moving.export_memories(limit=1_000)).model_dump(
                    exclude={"next_cursor"}
                ),
                "results": (await moving.export_tool_results(limit=1_000)).model_dump(
                    exclude={"next_cursor"}
                ),
            }
    return json.loads(json.dumps(found, default=_in_words, sort_keys=True))


def _in_words(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType] - a frozen mapping
