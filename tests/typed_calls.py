"""Calls as a user writes them, for the type checker alone: each ignored line must be an error.

``reportUnnecessaryTypeIgnoreComment`` turns an ignore that ignores nothing into a failure.
"""

from typing import assert_type

from stores_core import (
    AppendMessagesResponse,
    Backend,
    GetRunRequest,
    GetRunResponse,
    ListMemoriesResponse,
    MemoryItem,
    MemoryStore,
    Message,
    RunStore,
    ToolResultStore,
)


async def keywords_are_typed(backend: Backend) -> None:
    answer = await backend.runs.append_messages(run_id="t", messages=[Message(role="user")])
    assert_type(answer, AppendMessagesResponse)
    assert_type(await backend.runs.get_run(GetRunRequest(run_id="t")), GetRunResponse)
    assert_type(await backend.memory.list_memories(where={"a": 1}), ListMemoriesResponse)
    await backend.memory.put_memory(item=MemoryItem(key="k", value="v"), timeout=1.5)


async def mistakes_are_seen(backend: Backend) -> None:
    await backend.runs.get_run(run="t")  # pyright: ignore[reportCallIssue]
    await backend.runs.get_run()  # pyright: ignore[reportCallIssue]
    await backend.runs.get_run(run_id=5)  # pyright: ignore[reportCallIssue, reportArgumentType]
    await backend.runs.create_run(at=None)  # pyright: ignore[reportCallIssue]
    await backend.runs.list_runs(limit="3")  # pyright: ignore[reportCallIssue, reportArgumentType]


def a_front_is_a_store(backend: Backend) -> tuple[RunStore, MemoryStore, ToolResultStore]:
    return backend.runs, backend.memory, backend.tool_results
