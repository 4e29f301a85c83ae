"""The same work done by several processes, or by several threads where a client works from any.

A child is ``python -m conformance_tests.histories.processes``. What it has to do comes as a line of
JSON on its standard input, so that no URL shows among the arguments of a process; it says that it
is ready, and begins when it is told to.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Barrier

from conformance_tests.histories.driving import drive
from conformance_tests.histories.recording import Record, read, write
from conformance_tests.opener import find
from stores_core import Backend

PATIENCE = 120.0
"""Seconds that a child may take to open the storage, and to end once its time is over."""

READY, GO, DONE = "ready", "go", "done"


class ChildError(Exception):
    """A child could not do its work; the message has what it wrote to standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be sent: ``steps`` by each of the ``workers``, out of ``of`` in all processes."""

    prefix: str
    workers: Sequence[int]
    of: int
    steps: int
    seed: int = 0
    mix: str = "everything"
    seconds: float = 600.0

    def parts(self, count: int) -> list["Work"]:
        """The same work, its workers dealt out to so many."""
        return [replace(self, workers=list(self.workers[n::count])) for n in range(count)]

    async def done(self, clients: Sequence[Backend]) -> list[Record]:
        """The records of doing it here."""
        return await drive(clients, **asdict(self))


async def in_processes(
    work: Work, count: int, *, opener: str | None, url: str | None
) -> list[Record]:
    """The records of so many processes, each with a client of its own. Raises ChildError."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.jsonl" for n in range(count)]
        async with AsyncExitStack() as stack:
            children = [await _started(stack) for _ in paths]
            for child, part, path in zip(children, work.parts(count), paths, strict=True):
                told = {"opener": opener, "url": url, "path": str(path), "work": asdict(part)}
                _tell(child, json.dumps(told))
            await _all(children, READY, PATIENCE)
            for child in children:
                _tell(child, GO)
            await _all(children, DONE, PATIENCE + work.seconds)
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(child.wait() for child in children))
        return [record for path in paths for record in read(path)]


async def in_threads(work: Work, count: int, clients: Sequence[Backend]) -> list[Record]:
    """The records of so many threads, each with an event loop of its own, over the same clients."""
    start = Barrier(count)

    async def begun(part: Work) -> list[Record]:
        start.wait(PATIENCE)  # or one would be done before the next is there
        return await part.done(clients)

    # Of its own: a default one may have fewer threads than have to be here at once.
    with ThreadPoolExecutor(count) as pool:
        loop = asyncio.get_running_loop()
        parts = await asyncio.gather(
            *(loop.run_in_executor(pool, asyncio.run, begun(part)) for part in work.parts(count))
        )
    return [record for part in parts for record in part]


async def _started(stack: AsyncExitStack) -> asyncio.subprocess.Process:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    stack.push_async_callback(_ended, child)
    return child


async def _ended(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()
    await child.communicate()


def _tell(child: asyncio.subprocess.Process, line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line.encode() + b"\n")


async def _all(children: Sequence[asyncio.subprocess.Process], said: str, patience: float) -> None:
    """Wait until all children have said so."""
    try:
        async with asyncio.timeout(patience):
            await asyncio.gather(*(_one(child, said) for child in children))
    except TimeoutError:
        raise ChildError(f"a child was not {said} within {patience:g} seconds") from None


async def _one(child: asyncio.subprocess.Process, said: str) -> None:
    assert child.stdout is not None
    assert child.stderr is not None
    line = await child.stdout.readline()
    if line.decode().strip() != said:
        errors = await child.stderr.read()
        raise ChildError(f"a child was not {said}: {errors.decode(errors='replace')[-2000:]}")


async def _child() -> None:
    told = json.loads(sys.stdin.readline())
    work = Work(**told["work"])
    async with find(told["opener"], told["url"]).open() as backend:
        print(READY, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        records = await work.done([backend])
    write(records, Path(told["path"]))
    print(DONE, flush=True)


if __name__ == "__main__":
    asyncio.run(_child())
