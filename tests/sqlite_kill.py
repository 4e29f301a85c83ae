"""``python -m tests.sqlite_kill --kills 1000``: SIGKILL writers of a SQLite file at any moment.

Two processes write at once and tell over a pipe what was acknowledged to them. After each pair of
kills another process opens the file and looks (tests/killing.py); SQLite finds its file whole.

The exit code is 0 only if nothing was found. A run whose writers were told too little is no proof
and fails too.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from stores_sql.sqlite.backend import open_sqlite
from tests.killing import HOT, Line, Told, Writer, arguments, conclude, look

ROUNDS_PER_FILE = 15


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


def play_round(path: Path, told: Told, names: list[str], rng: random.Random) -> None:
    """Let writers write, kill each at a moment of its own, and take in what they were told."""
    pipes = {name: os.pipe() for name in names}
    pids: dict[str, int] = {}
    for name, (_, end) in pipes.items():
        seed = rng.randrange(1 << 30)

        async def work(name: str = name, end: int = end, seed: int = seed) -> None:
            def tell(line: Line) -> None:
                os.write(end, json.dumps(line).encode() + b"\n")

            async with open_sqlite(f"sqlite:{path}") as backend:
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


def faults_of(path: Path, told: Told) -> list[str]:
    """Look at the file in a process of its own."""
    begin, end = os.pipe()

    async def work() -> None:
        async with open_sqlite(f"sqlite:{path}") as backend:
            faults = await look(backend, told)
        os.write(end, json.dumps(faults[:20]).encode())

    pid = in_child(work)
    os.close(end)
    data = b""
    while more := os.read(begin, 1 << 16):
        data += more
    os.close(begin)
    _, status = os.waitpid(pid, 0)
    return json.loads(data) if status == 0 else ["the file could not be looked at"]


def prepare(path: Path) -> None:
    async def work() -> None:
        async with open_sqlite(f"sqlite:{path}") as backend:
            for id in HOT:
                await backend.runs.create_run(run_id=id)

    os.waitpid(in_child(work), 0)


def main() -> int:
    options = arguments("tests.sqlite_kill")
    rng = random.Random(options.seed)
    kills = acknowledged = 0
    faults: list[str] = []
    while kills < options.kills and not faults:
        with tempfile.TemporaryDirectory() as folder:
            path, told = Path(folder, "killed.db"), Told()
            prepare(path)
            for n in range(ROUNDS_PER_FILE):
                names = [f"{writer}{n}" for writer in "ab"]
                play_round(path, told, names, rng)
                kills += len(names)
                faults += faults_of(path, told)
                if faults or kills >= options.kills:
                    break
            acknowledged += told.count
    return conclude(options, kills, acknowledged, faults)


if __name__ == "__main__":
    sys.exit(main())
