"""SIGKILL of a server, all of it, under writers.

Two clients write at once, several operations each, when the server dies; it is started again on the
same data. A keyed append whose outcome is unknown is sent again with its key, so that it must be
there once; one that was refused must not be there at all. Then another client looks.

How a server is started and killed is given as a :class:`Server`; the rest is for any backend.
"""

import asyncio
import random
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from conformance_tests.faults.command import LEAST, Tally
from conformance_tests.faults.looking import look
from conformance_tests.faults.writing import Line, Stage, Told, Writer
from stores_core.backend import Backend
from stores_core.errors import OutcomeUnknownError, StoreUnavailableError
from stores_core.runs import AppendMessagesResponse

ROUNDS_PER_STORAGE = 8
WITHIN = 20.0
"""Seconds in which a store must work again after its server came back."""

LOSSES = re.compile(r"was acknowledged|is forgotten|was deleted and is there|is not what was ack")
"""What a server may bring about whose settings let it lose what it acknowledged."""

Open = Callable[[], AbstractAsyncContextManager[Backend]]


class Server(Protocol):
    """A server that can be killed, and started again on the same data."""

    def start(self) -> None: ...
    def kill(self) -> None: ...


class _Settling(Writer):
    """Writes until the server was gone, and settles what it does not know the outcome of."""

    back = False
    """The server is back."""

    async def write(self, backend: Backend) -> None:
        failed = False
        while not failed and not self.back:
            ended = await asyncio.gather(*self.group(backend), return_exceptions=True)
            for error in filter(None, ended):
                if not isinstance(error, StoreUnavailableError | OutcomeUnknownError):
                    raise error
                failed = True

    async def send(
        self, backend: Backend, batch: str, run_id: str, texts: list[str], key: str
    ) -> AppendMessagesResponse:
        end = time.monotonic() + WITHIN
        unknown = False
        while True:
            try:
                return await super().send(backend, batch, run_id, texts, key)
            except OutcomeUnknownError:
                unknown = True
                if not key or time.monotonic() > end:
                    raise
            except StoreUnavailableError:
                if not unknown:
                    self.tell("refused", batch)
                    raise
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(0.05)


async def kill_once(
    server: Server, open: Open, stage: Stage, told: Told, rng: random.Random
) -> None:
    """Let writers write, kill the server at any moment, start it again, let the writers end."""
    wanted, enough = told.count + rng.randint(LEAST, 3 * LEAST), asyncio.Event()

    def tell(line: Line) -> None:
        told.take(line)
        if told.count >= wanted:
            enough.set()

    async with open() as one, open() as other:
        name = f"{told.count}-{rng.randrange(1 << 30)}"
        writers = [_Settling(stage, f"{name}-{n}", tell, rng.randrange(1 << 30)) for n in range(3)]
        writing = [
            asyncio.create_task(writer.write(backend))
            for writer, backend in zip(writers, (one, one, other), strict=True)
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN):
                await enough.wait()
        await asyncio.sleep(rng.uniform(0.0, 0.02))
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(rng.uniform(0.0, 0.1))
        await asyncio.to_thread(server.start)
        for writer in writers:
            writer.back = True
        async with asyncio.timeout(2 * WITHIN):
            await asyncio.gather(*writing)


async def kill_server(
    server: Server,
    storage: Callable[[], Awaitable[Open]],
    kills: int,
    seed: int,
    *,
    may_lose: bool = False,
) -> Tally:
    """Kill a server so often, or until a fault is found.

    ``storage`` gives what opens one that nobody has used, or always the same one. With ``may_lose``
    each kill has a storage of its own, what was lost is counted, and only what is there in part,
    or twice, or damaged, is a fault.
    """
    tally, rng = Tally(), random.Random(seed)
    done = 0
    while done < kills and not tally.faults:
        open, told = await storage(), Told()
        stage = Stage(f"server-{secrets.token_hex(5)}")
        async with open() as backend:
            await stage.prepare(backend)
        for _ in range(1 if may_lose else min(ROUNDS_PER_STORAGE, kills - done)):
            before = told.count
            await kill_once(server, open, stage, told, rng)
            done += 1
            async with open() as backend:
                found = await look(backend, stage, told)
            losses = [fault for fault in found if may_lose and LOSSES.search(fault)]
            tally.count(1, told.count - before)
            tally.lost += len(losses)
            tally.faults += [fault for fault in found if fault not in losses][:20]
            if tally.faults:
                break
    return tally
