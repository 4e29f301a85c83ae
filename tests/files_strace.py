"""``python -m tests.files_strace --every 1``: SIGKILL at each system call that changes the disk.

A process that works in a folder is run under strace, which kills it at the n-th call of a kind, for
each n. What it was told is there afterwards, and what it was doing wholly or not at all. The exit
code is 0 only if nothing else was found.

``python -m tests.files_strace FOLDER`` is that process: it writes a line for each operation that
was acknowledged.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from stores_core import Backend, Event, MemoryItem, Message, ToolResult, open_backend
from tests.files_recovery import TORN

CALLS = (
    *("pwrite64", "fdatasync", "fsync", "ftruncate"),
    *("mkdirat", "rename", "renameat", "renameat2", "linkat", "unlink", "unlinkat"),
)
"""Calls that change the disk, or that make changes last; machines have some of them."""

Held = dict[str, Any]


def _messages(*texts: str) -> list[Message]:
    return [Message(role="user", text=text) for text in texts]


def _put(text: str) -> Callable[[Backend], Awaitable[object]]:
    result = ToolResult(content=[{"type": "text", "text": text}])
    return lambda on: on.tool_results.put_tool_result(ref="t", result=result)


OPERATIONS: Sequence[Callable[[Backend], Awaitable[object]]] = (
    lambda on: on.runs.create_run(run_id="r", labels={"v": "1"}),
    lambda on: on.runs.append_messages(
        run_id="r", messages=_messages("1", "2"), events=[Event(kind="e")], idempotency_key="k"
    ),
    lambda on: on.runs.append_messages(run_id="r", messages=_messages("3")),
    lambda on: on.runs.fork_run(run_id="r", new_run_id="f"),
    lambda on: on.runs.append_messages(run_id="f", messages=_messages("4" * 5_000)),
    lambda on: on.runs.update_run(run_id="r", labels={"v": "2"}),
    _put("one"),
    _put("two"),
    lambda on: on.memory.put_memory(item=MemoryItem(key="n", value="1")),
    lambda on: on.memory.put_memory(item=MemoryItem(key="n", value="2")),
    lambda on: on.memory.put_memory(item=MemoryItem(key="o", value="1")),
    lambda on: on.memory.delete_memory(key="n"),
    lambda on: on.runs.delete_run(run_id="f"),
    lambda on: on.tool_results.delete_tool_result(ref="t"),
)


async def held(backend: Backend) -> Held:
    """What a folder holds, without the times."""
    found: Held = {}
    for info in (await backend.runs.list_runs()).runs:
        run = (await backend.runs.load_run(run_id=info.id)).run
        texts = [message.text for message in run.messages] if run else None
        found[f"run {info.id}"] = [texts, info.event_count, dict(info.labels), info.parent_id]
    for note in (await backend.memory.list_memories()).items:
        found[f"note {note.item.key}"] = [note.item.value, note.item.version]
    result = (await backend.tool_results.get_tool_result(ref="t")).result
    return found | {"result": result and [dict(item) for item in result.content or ()]}


async def work(folder: Path) -> None:
    async with open_backend(f"file:{folder}") as backend:
        for number, operation in enumerate(OPERATIONS, 1):
            await operation(backend)
            os.write(1, b"%d\n" % number)


async def stages(folder: Path) -> list[Held]:
    """What a folder holds before and after each operation."""
    async with open_backend(f"file:{folder}") as backend:
        found = [await held(backend)]
        for operation in OPERATIONS:
            await operation(backend)
            found.append(await held(backend))
        return found


async def faults_of(folder: Path, told: int, whole: Sequence[Held]) -> list[str]:
    """What is wrong after so many operations were acknowledged."""
    async with open_backend(f"file:{folder}") as backend:
        found = await held(backend)
        faults = [] if found in whole[told : told + 2] else [f"it holds {found}"]
        problems = (await backend.admin.verify()).problems
        faults += [problem.what for problem in problems if TORN not in problem.what]
        await backend.admin.sweep()
        if await held(backend) != found:
            faults.append("after a sweep it holds something else")
        await backend.runs.create_run(run_id="probe")
        await backend.runs.append_messages(run_id="probe", messages=_messages("p"))
    return faults


def traced(folder: Path, *options: str) -> int:
    """Run the process under strace; how many operations were acknowledged."""
    ran = subprocess.run(
        ["strace", "-f", "-qq", *options, sys.executable, "-m", __spec__.name, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return len(ran.stdout.split())


def points(folder: Path) -> list[tuple[str, int]]:
    """Each call that the process makes in the thread that makes most of its kind."""
    log = folder / "log"
    if traced(folder / "traced", "-o", str(log), "-e", f"trace={_named(CALLS)}") < len(OPERATIONS):
        raise RuntimeError("the process does not come to its end under strace")
    by_thread = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text("utf-8"), re.MULTILINE))
    most: dict[str, int] = {}
    for (_, call), number in by_thread.items():
        most[call] = max(most.get(call, 0), number)
    return [(call, n) for call, number in sorted(most.items()) for n in range(1, number + 1)]


def _named(calls: Sequence[str]) -> str:
    return ",".join(f"?{call}" for call in calls)  # no fault where a machine has no such call


def examine(every: int) -> tuple[int, list[str]]:
    """Kills at one of so many calls: how many there were, and what was found."""
    kills, faults = 0, list[str]()
    with tempfile.TemporaryDirectory() as name:
        within = Path(name)
        whole = asyncio.run(stages(within / "whole"))
        for call, n in points(within)[::every]:
            folder = within / f"{call}-{n}"
            inject = f"inject={call}:signal=KILL:when={n}"
            told = traced(folder, "-o", os.devnull, "-e", f"trace={call}", "-e", inject)
            kills += told < len(OPERATIONS)
            found = asyncio.run(faults_of(folder, told, whole))
            faults += [f"{call} {n}, {told} acknowledged: {fault}" for fault in found]
    return kills, faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.files_strace")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    if options.folder is not None:
        asyncio.run(work(options.folder))
        return 0
    kills, faults = examine(options.every)
    print(json.dumps({"kills": kills, "faults": faults}))
    return 1 if faults or not kills else 0


if __name__ == "__main__":
    sys.exit(main())
