"""SIGKILL of processes that write to one storage, at any moment.

``python -m conformance_tests.faults.killing (MODULE:OPENER | --url URL) --kills 1000``

This process imports and never opens anything. It forks the writers, which write at once and tell
over a pipe what was acknowledged to them; they are killed one after another, at moments of their
own, while the others go on. Then another fork opens the storage and looks. So a kill costs a fork
and no start of Python. Where the URL has ``{n}``, each few rounds have a storage of their own.

The exit code is 0 only if nothing was found, 1 for a fault, 2 where the storage could not be
opened, 3 where too little was acknowledged to say anything.
"""

import asyncio
import gc
import importlib
import json
import os
import random
import secrets
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from conformance_tests.faults.command import COULD_NOT_RUN, LEAST, Tally, arguments, conclude
from conformance_tests.faults.looking import look
from conformance_tests.faults.writing import Line, Stage, Told, Writer
from conformance_tests.opener import UnusableOpenerError, find
from stores_core.backend import Backend

WRITERS = 8
ROUNDS_PER_STORAGE = 3
PATIENCE = 60
"""Seconds after which a child that hangs is ended, which is a fault."""

STUCK = 20
"""Seconds without any acknowledgement after which writers are stuck, which is one too."""

WINDOW = 0.005
"""Seconds between an acknowledgement and the kill behind it, at most."""

READY = b"\n"
"""What a writer tells once it has opened the storage."""

Open = Callable[[], AbstractAsyncContextManager[Backend]]


class ChildError(Exception):
    """A client ended otherwise than it should; it has said why on standard error."""


def in_child(work: Callable[[], Coroutine[Any, Any, object]]) -> tuple[int, int]:
    """Run a coroutine in a forked process: its id, and a pipe on which its result comes as JSON."""
    begin, end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return pid, begin
    code = 1
    try:
        signal.alarm(PATIENCE)
        result = asyncio.run(work())
        with os.fdopen(end, "w") as pipe:
            json.dump(result, pipe)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def result_of(child: tuple[int, int]) -> Any:
    """What came of a child, once it has ended. Raises ChildError."""
    pid, begin = child
    data = read_all(begin)
    _, status = os.waitpid(pid, 0)
    if status:
        raise ChildError(f"a client ended with {os.waitstatus_to_exitcode(status)}")
    return json.loads(data)


def read_all(pipe: int) -> bytes:
    data = b""
    while more := os.read(pipe, 1 << 16):
        data += more
    os.close(pipe)
    return data


class Heard:
    """What the writers tell, line by line, on a pipe each."""

    def __init__(self) -> None:
        self._pipes: dict[int, bytes] = {}
        self._open = select.poll()

    def add(self, pipe: int) -> None:
        self._pipes[pipe] = b""
        self._open.register(pipe, select.POLLIN)

    def wait_for_each(self) -> None:
        """Until each writer has opened the storage. Raises ChildError."""
        self._read_until(lambda: all(self._pipes.values()))

    def wait_for(self, count: int) -> None:
        """Until so many more lines came, or no more come. Raises ChildError."""
        wanted = self._count() + count
        self._read_until(lambda: self._count() >= wanted)

    def lines(self) -> list[Line]:
        """All lines that were told, once the writers have ended; the pipes are closed."""
        found: list[Line] = []
        for pipe, data in self._pipes.items():
            # A line without its end was never told.
            whole = (data + read_all(pipe)).removeprefix(READY).rpartition(b"\n")[0]
            found += [json.loads(line) for line in whole.split(b"\n") if line]
        return found

    def _count(self) -> int:
        return sum(data.count(b"\n") for data in self._pipes.values())

    def _read_until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + STUCK
        while not done():
            for pipe, event in self._open.poll(1_000):
                data = os.read(pipe, 1 << 16) if event & select.POLLIN else b""
                self._pipes[pipe] += data
                if not data:  # its writer was killed, or has failed
                    self._open.unregister(pipe)
            if time.monotonic() > end:
                raise ChildError(f"the writers were told nothing for {STUCK} seconds")


@dataclass
class Killing:
    """Kills of the writers of one storage, which ``open`` opens."""

    open: Open
    rng: random.Random

    def __post_init__(self) -> None:
        self.stage, self.told, self._rounds = Stage(f"kill-{secrets.token_hex(5)}"), Told(), 0

    def prepare(self) -> None:
        """Raises ChildError where the storage cannot be opened."""

        async def work() -> None:
            async with self.open() as backend:
                await self.stage.prepare(backend)

        result_of(in_child(work))

    def play(self, writers: int, tally: Tally) -> None:
        """Let so many writers write, kill each, and look."""
        before, names = self.told.count, [f"{self._rounds}-{n}" for n in range(writers)]
        self._rounds += 1
        try:
            self._kill(names)
            tally.faults += result_of(in_child(self._look))
        except ChildError as error:
            tally.faults.append(f"after a kill, {error}")
        tally.count(writers, self.told.count - before)

    def _kill(self, names: Sequence[str]) -> None:
        heard = Heard()
        pids = {name: self._start(name, heard) for name in names}
        heard.wait_for_each()
        least = -(-LEAST // len(names))
        for name in self.rng.sample(names, len(names)):
            heard.wait_for(self.rng.randint(least, 2 * least))
            time.sleep(self.rng.uniform(0.0, WINDOW))
            os.kill(pids[name], signal.SIGKILL)
        for pid in pids.values():
            _, status = os.waitpid(pid, 0)
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                raise ChildError("a writer ended before it was killed")
        for line in heard.lines():
            self.told.take(line)

    def _start(self, name: str, heard: "Heard") -> int:
        begin, end = os.pipe()
        seed = self.rng.randrange(1 << 30)

        def tell(line: Line) -> None:
            os.write(end, json.dumps(line).encode() + b"\n")

        async def work() -> None:
            async with self.open() as backend:
                os.write(end, READY)
                await Writer(self.stage, name, tell, seed).write(backend)

        pid, unused = in_child(work)
        os.close(unused)
        os.close(end)
        heard.add(begin)
        return pid

    async def _look(self) -> list[str]:
        async with self.open() as backend:
            found = await look(backend, self.stage, self.told)
        return found[:20]


def import_early(open: Open) -> None:
    """Import here whatever a client imports on its first use, so that no child has to.

    Raises ChildError where the storage cannot be opened.
    """

    async def work() -> list[str]:
        stage, told = Stage(f"first-{secrets.token_hex(5)}"), Told()
        async with open() as backend:
            await stage.prepare(backend)
            writer = Writer(stage, "w", told.take, 0)
            for _ in range(10):
                await asyncio.gather(*writer.group(backend))
            await look(backend, stage, told)
        return sorted(sys.modules)

    for name in result_of(in_child(work)):
        if name not in sys.modules:
            with suppress(ImportError):  # some are made, not imported
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each child would copy all that its collector looks at


def kill_writers(storage: Callable[[int], Open], kills: int, seed: int) -> Tally:
    """Kill so many writers, or until a fault is found.

    ``storage`` gives what opens the n-th storage; they may all be one. This process must not have
    opened any. Raises ChildError where one cannot be opened.
    """
    tally, rng, number = Tally(), random.Random(seed), 0
    import_early(storage(number))
    while tally.made + tally.not_run < kills and not tally.faults:
        number += 1
        killing = Killing(storage(number), rng)
        killing.prepare()
        for _ in range(ROUNDS_PER_STORAGE):
            left = kills - tally.made - tally.not_run
            if left <= 0 or tally.faults:
                break
            killing.play(min(WRITERS, left), tally)
    return tally


def main(given: Sequence[str] | None = None) -> int:
    """Kill writers and print what came of it; the exit code."""
    options = arguments("conformance_tests.faults.killing", "kills", given)

    token = secrets.token_hex(5)

    def storage(number: int) -> Open:
        url = options.url and options.url.replace("{n}", str(number))
        opener = find(options.opener, url, options.server)
        # A tenant of its own has little to be verified, whatever else is stored.
        tenant = {"tenant": f"kills-{token}-{number}"} if opener.takes("tenant") else {}
        return partial(opener.open, **tenant)

    try:
        tally = kill_writers(storage, options.number, options.seed)
    except (UnusableOpenerError, ChildError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    return conclude(options, "kills", tally)


if __name__ == "__main__":
    sys.exit(main())
