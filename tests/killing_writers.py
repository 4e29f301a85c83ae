"""SIGKILL of processes that write to one storage, at any moment.

Several processes write at once and tell over a pipe what was acknowledged to them. When all were
killed, one after another, another process opens the storage and looks (tests/killing.py).

The exit code is 0 only if nothing was found. A run whose writers were told too little is no proof
and fails too.
"""

import asyncio
import json
import os
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from stores_core import open_backend
from tests.killing import HOT, Line, Told, Writer, arguments, conclude, look

WRITERS = 8
ROUNDS_PER_STORAGE = 5


def in_child(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a coroutine in a forked process; its id. Forked, so that imports are paid once."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(work())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def play_round(url: str, told: Told, names: list[str], rng: random.Random) -> None:
    """Let writers write, kill each at a moment of its own, and take in what they were told."""
    pipes = {name: os.pipe() for name in names}
    pids: dict[str, int] = {}
    for name, (_, end) in pipes.items():
        seed = rng.randrange(1 << 30)

        async def work(name: str = name, end: int = end, seed: int = seed) -> None:
            def tell(line: Line) -> None:
                os.write(end, json.dumps(line).encode() + b"\n")

            async with open_backend(url) as backend:
                os.write(end, b"\n")
                await Writer(name, tell, seed).write(backend)

        pids[name] = in_child(work)
        os.close(end)
    heard = {name: os.read(begin, 1) for name, (begin, _) in pipes.items()}
    for name in rng.sample(names, len(names)):
        time.sleep(rng.uniform(0.0, 0.12))
        os.kill(pids[name], signal.SIGKILL)
    for name, pid in pids.items():
        os.waitpid(pid, 0)
        begin = pipes[name][0]
        data = heard[name]
        while more := os.read(begin, 1 << 16):
            data += more
        os.close(begin)
        whole = data.decode().rpartition("\n")[0]
        for line in filter(None, whole.split("\n")):
            told.take(json.loads(line))


def faults_of(url: str, told: Told) -> list[str]:
    """Look at the storage in a process of its own."""
    begin, end = os.pipe()

    async def work() -> None:
        async with open_backend(url) as backend:
            faults = await look(backend, told)
        os.write(end, json.dumps(faults[:20]).encode())

    pid = in_child(work)
    os.close(end)
    data = b""
    while more := os.read(begin, 1 << 16):
        data += more
    os.close(begin)
    _, status = os.waitpid(pid, 0)
    return json.loads(data) if status == 0 else ["it could not be looked at"]


def prepare(url: str) -> None:
    async def work() -> None:
        async with open_backend(url) as backend:
            for id in HOT:
                await backend.runs.create_run(run_id=id)

    os.waitpid(in_child(work), 0)


def kill_writers(module: str, scheme: str) -> int:
    """What the modules for one kind of storage each do; the exit code."""
    options = arguments(module)
    rng = random.Random(options.seed)
    kills = acknowledged = 0
    faults: list[str] = []
    while kills < options.kills and not faults:
        with tempfile.TemporaryDirectory() as folder:
            url, told = f"{scheme}:{Path(folder, 'killed')}", Told()
            prepare(url)
            for n in range(ROUNDS_PER_STORAGE):
                names = [f"{n}-{writer}" for writer in range(min(WRITERS, options.kills - kills))]
                play_round(url, told, names, rng)
                kills += len(names)
                faults += faults_of(url, told)
                if faults or kills >= options.kills:
                    break
            acknowledged += told.count
    return conclude(options, kills, acknowledged, faults)
