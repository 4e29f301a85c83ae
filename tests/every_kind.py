"""Something of every kind that a storage keeps."""

from stores_core import Backend, Event, MemoryItem, Message, ToolResult


async def fill(backend: Backend) -> None:
    """A run with a label and a key, a note with metadata, a tool result with a label."""
    await backend.runs.create_run(run_id="r", labels={"a": "b"})
    batch = [Message(role="user", text="t")]
    await backend.runs.append_messages(run_id="r", messages=batch, idempotency_key="k")
    await backend.memory.put_memory(item=MemoryItem(key="k", value="v", metadata={"a": 1}))
    result = ToolResult(content=({"type": "text", "text": "x"},))
    await backend.tool_results.put_tool_result(ref="t", result=result, labels={"a": "b"})


async def fill_and_fork(backend: Backend) -> None:
    """The same, and a fork of the run with an event and a key of its own."""
    await fill(backend)
    await backend.runs.fork_run(run_id="r", new_run_id="f")
    await backend.runs.append_events(run_id="f", events=[Event(kind="e")], idempotency_key="k")
