"""What must be found once something broke, compared with what was acknowledged before.

Nothing that was acknowledged is lost, nothing is there in part or twice, nothing is there that was
refused, the store finds itself whole and can be written at once.
"""

import asyncio
import secrets
from collections.abc import Sequence

from conformance_tests.faults.writing import Stage, Told, result_text
from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.memory import MemoryItem
from stores_core.runs import ListRunsResponse
from stores_core.tool_results import ToolResult

PATIENCE = 10.0
"""Seconds within which a storage has to be writable again: nobody holds a lock any more."""


async def look(backend: Backend, stage: Stage, told: Told) -> list[str]:
    """What is wrong with the store, a sentence each.

    It is written to before it has to find itself whole: what was cut off may lie there till then.
    """
    faults: list[str] = []
    if "runs" in backend.offered:
        faults += await _of_runs(backend, stage, told)
    if "memory" in backend.offered:
        faults += await _of_notes(backend, told)
    if "tool_results" in backend.offered:
        faults += await _of_results(backend, told)
    faults += await _still_writable(backend, stage, told)
    if "admin" in backend.offered:
        checked = await backend.admin.verify(timeout=300)
        faults += [f"{one.store} {one.id}: {one.what}" for one in checked.problems]
    return faults


async def _of_runs(backend: Backend, stage: Stage, told: Told) -> list[str]:
    faults: list[str] = []
    held: dict[str, list[str]] = {}
    parents: dict[str, tuple[str, int]] = {}
    cursor: str | None = ""
    while cursor is not None:
        page: ListRunsResponse = await backend.runs.list_runs(
            limit=1_000, labels=stage.labels, cursor=cursor
        )
        cursor = page.next_cursor or None
        for info in page.runs:
            loaded = (await backend.runs.load_run(run_id=info.id)).run
            if loaded is None:
                faults.append(f"{info.id} is listed and cannot be loaded")
                continue
            held[info.id] = [message.text or "" for message in loaded.messages]
            parents[info.id] = info.parent_id, info.fork_point
            if len(loaded.messages) != info.message_count or len(loaded.events) != info.event_count:
                faults.append(f"{info.id} has other counts than entries")
            for kind, texts in (
                ("messages", held[info.id]),
                ("events", [event.text or "" for event in loaded.events]),
            ):
                faults += [f"{info.id} {kind}: {what}" for what in broken_batches(texts)]
    for id, (parent_id, fork_point) in parents.items():
        parent = held.get(parent_id)
        if parent and parent[:fork_point] != held[id][:fork_point]:
            faults.append(f"{id} is no prefix of {parent_id}")
    places = {
        run_id: {text.rpartition("|")[0]: place for place, text in enumerate(texts)}
        for run_id, texts in held.items()
    }
    for batch, (run_id, size, _, count) in told.batches.items():
        there = places.get(run_id, {})
        wanted = {f"{batch}|{n}|{size}": count - size + n for n in range(size)}
        if any(there.get(text) != place for text, place in wanted.items()):
            faults.append(f"the batch {batch} was acknowledged and is not at its place")
    held_batches = {text.partition("|")[0] for texts in held.values() for text in texts}
    faults += [
        f"the batch {batch} was refused and is there" for batch in told.refused & held_batches
    ]
    for id, (_, fork_point) in told.forks.items():
        if len(held.get(id, ())) != fork_point or id not in held:
            faults.append(f"the fork {id} was acknowledged and is not whole")
    return faults + [f"{id} was deleted and is there" for id in told.deleted if id in held]


async def _of_notes(backend: Backend, told: Told) -> list[str]:
    faults: list[str] = []
    for key, n in told.notes.items():
        note = (await backend.memory.get_memory(key=key)).item
        if note is None or int(note.value) < n or note.metadata != {"n": int(note.value)}:
            faults.append(f"{key} is not what was acknowledged, or of two versions")
    return faults


async def _of_results(backend: Backend, told: Told) -> list[str]:
    faults: list[str] = []
    for ref, n in told.results.items():
        result = (await backend.tool_results.get_tool_result(ref=ref)).result
        content = list(result.content or ()) if result else []
        found_n = int(content[1]["data"]) if len(content) == 2 else -1
        if found_n < n or content[0]["text"] != result_text(found_n):
            faults.append(f"{ref} is not what was acknowledged, or of two versions")
    return faults


def broken_batches(texts: Sequence[str]) -> list[str]:
    """Batches that are not there whole, in one piece and once."""
    faults: list[str] = []
    seen: set[str] = set()
    position = 0
    while position < len(texts):
        batch, index, size, _ = texts[position].split("|", 3)
        wanted = [f"{batch}|{n}|{size}|" for n in range(int(size))]
        there = texts[position : position + int(size)]
        whole = len(there) == len(wanted) and all(map(str.startswith, there, wanted))
        if index != "0" or not whole or batch in seen:
            faults.append(f"the batch {batch} is there in part or twice")
        seen.add(batch)
        position += max(1, int(size) if whole else 1)
    return faults


async def _still_writable(backend: Backend, stage: Stage, told: Told) -> list[str]:
    """Keys that were acknowledged lately and are not known any more; and whether one can write."""
    faults: list[str] = []
    keyed = [(batch, line) for batch, line in told.batches.items() if line[2]][-5:]
    for batch, (run_id, _, key, count) in keyed:
        try:
            answer = await backend.runs.append_messages(
                run_id=run_id, messages=[Message(role="user", text="again")], idempotency_key=key
            )
            faults.append(f"the key of {batch} is forgotten ({answer.message_count} for {count})")
        except ValueError:
            pass  # the key is known, with another batch
    probe, batch = f"{stage.name}-probe", f"probe-{secrets.token_hex(4)}|0|1|"
    messages, events = [Message(role="user", text=batch)], [Event(kind="e", text=batch)]
    try:
        async with asyncio.timeout(PATIENCE):
            if "runs" in backend.offered:
                await backend.runs.create_run(run_id=probe)
                await backend.runs.delete_run(run_id=probe)
                for run_id in stage.hot:
                    await backend.runs.append_messages(
                        run_id=run_id, messages=messages, events=events
                    )
            if "memory" in backend.offered:
                await backend.memory.put_memory(item=MemoryItem(key=probe, value=""))
                await backend.memory.delete_memory(key=probe)
            if "tool_results" in backend.offered:
                await backend.tool_results.put_tool_result(ref=probe, result=ToolResult())
                await backend.tool_results.delete_tool_result(ref=probe)
    except TimeoutError:
        faults.append(f"the store could not be written within {PATIENCE:g} seconds")
    return faults
