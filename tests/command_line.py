"""The command as tests run it, in this process or another, and a storage to run it on."""

import asyncio
import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stores_cli.app import main
from stores_core import Event, MemoryItem, Message, ToolResult, WordEmbedder, open_backend
from tests.storages import BACKENDS, new_url

FORKS = 160
"""So many that a slow copy, which writes them in some windows, is caught in the middle."""

HOSTILE = "odd \x1b[31m\u202e[bold]:id/.."
"""An id with an escape sequence, a mark that turns the direction, markup and a path in it."""


class Ran(NamedTuple):
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines that it printed."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: str | Path) -> Ran:
    """The command in this process, so on `memory:NAME` too."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Ran(int(code), out.getvalue(), err.getvalue())


def start(*arguments: str | Path, program: str = "stores_cli") -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", program, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who runs the tests in the background may have them, and what they start, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def start_slowly(*arguments: str | Path) -> "subprocess.Popen[str]":
    """The command in a process of its own, which takes its time: see `tests.slow_command`."""
    return start(*arguments, program="tests.slow_command")


@pytest.fixture(params=[*BACKENDS, pytest.param("redis-cluster", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest) -> str:
    """An empty storage of each kind."""
    return new_url(request.param, request)


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> str:
    """An empty SQLite file, for what is the same on every backend."""
    return new_url("sqlite", request)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> str:
    """Another empty SQLite file."""
    return new_url("sqlite", request)


def fill(url: str, *, forks: int = 3, messages: int = 6) -> None:
    """Put a family of runs, notes with vectors in two namespaces, and tool results."""

    async def work() -> None:
        async with open_backend(url, embedder=WordEmbedder(16)) as backend:
            runs = backend.runs
            await runs.create_run(run_id="root", labels={"kind": "test"})
            for start in range(0, messages, 1_000):
                count = min(1_000, messages - start)
                said = [Message(role="user", text=f"word {start + n}") for n in range(count)]
                await runs.append_messages(
                    run_id="root", messages=said, idempotency_key=f"k{start}"
                )
            await runs.append_events(run_id="root", events=[Event(kind="turn-end", step=1)])
            for number in range(forks):
                await runs.fork_run(run_id="root", new_run_id=f"fork-{number}", at_message=2)
                await runs.append_messages(
                    run_id=f"fork-{number}", messages=[Message(role="assistant", text="other way")]
                )
            await runs.create_run(run_id=HOSTILE, labels={HOSTILE: HOSTILE})
            await runs.append_messages(
                run_id=HOSTILE, messages=[Message(role=HOSTILE, text=HOSTILE)]
            )
            for namespace in ("", "user/ada"):
                notes = [MemoryItem(key=f"n{n}", value=f"tea {n}") for n in range(3)]
                await backend.memory.put_memories(items=notes, namespace=namespace)
            await backend.memory.put_memory(item=MemoryItem(key="n1", value="milk"))
            plain = ToolResult(content=[_text("one\ntwo\nthree")])
            structured = ToolResult(content=[_text(HOSTILE)], structured_content={"a": [1.0]})
            results = backend.tool_results
            await results.put_tool_result(ref="r1", result=plain, labels={"tool": "find"})
            await results.put_tool_result(ref=HOSTILE, result=structured)

    asyncio.run(work())


def copied(ran: Ran) -> dict[str, int]:
    """What a copy into one tenant counted."""
    assert ran.code == 0, ran.err
    (report,) = ran.document["tenants"]
    return report


def write(url: str, run_id: str, *texts: str) -> None:
    """Append messages."""

    async def work() -> None:
        async with open_backend(url) as backend:
            said = [Message(role="user", text=text) for text in texts]
            assert (await backend.runs.append_messages(run_id=run_id, messages=said)).applied

    asyncio.run(work())


def wait_for_runs(url: str, count: int) -> None:
    """Wait until so many are there; nothing is made where there is none."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        listed = run("runs", "list", url, "--limit", str(count), "--json")
        if listed.code == 0 and len(listed.document["runs"]) >= count:
            return
        time.sleep(0.1)
    raise AssertionError("the copy does not get on")


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
