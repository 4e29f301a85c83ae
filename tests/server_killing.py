"""SIGKILL a server, all of it, under writers: what every server of ours is put through.

Two clients write at once, several operations each, when the server dies; it is started again on the
same data. A keyed append whose outcome is unknown is sent again with its key, so that it must be
there once; one that was refused must not be there at all. Then another client looks
(tests/killing.py).
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from stores_core import (
    AppendMessagesResponse,
    Backend,
    OutcomeUnknownError,
    StoreUnavailableError,
    open_backend,
)
from tests.killing import HOT, Told, Writer, look

ROUNDS_PER_STORAGE = 8
WITHIN = 20.0
"""Seconds in which a store must work again after its server came back."""


class Server(Protocol):
    """A server that can be killed, and started again on the same data."""

    def start(self) -> None: ...
    def kill(self) -> None: ...


class ServerWriter(Writer):
    """Writes until the server was gone, and settles what it does not know the outcome of."""

    back = False
    """The server is back."""

    async def write(self, backend: Backend) -> None:
        steps = (self.append, self.append, self.append, self.fork, self.delete, self.note)
        failed = False
        while not failed and not self.back:
            group = [
                self._rng.choice((*steps, self.result)) for _ in range(self._rng.randint(1, 4))
            ]
            ended = await asyncio.gather(*(step(backend) for step in group), return_exceptions=True)
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


async def play_round(server: Server, url: str, told: Told, rng: random.Random) -> None:
    """Let writers write, kill the server at any moment, start it again, let the writers end."""
    async with open_backend(url) as one, open_backend(url) as other:
        name = f"{told.count}-{rng.randrange(1 << 30)}"
        writers = [ServerWriter(f"{name}-{n}", told.take, rng.randrange(1 << 30)) for n in range(3)]
        writing = [
            asyncio.create_task(writer.write(backend))
            for writer, backend in zip(writers, (one, one, other), strict=True)
        ]
        await asyncio.sleep(rng.uniform(0.0, 0.5))
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(rng.uniform(0.0, 0.1))
        await asyncio.to_thread(server.start)
        for writer in writers:
            writer.back = True
        async with asyncio.timeout(2 * WITHIN):
            await asyncio.gather(*writing)


async def play(
    server: Server, new_storage: Callable[[], Awaitable[str]], kills: int, seed: int
) -> tuple[int, int, list[str]]:
    """Kills that were made, operations that were acknowledged, faults.

    ``new_storage`` gives the URL of one that nobody has used.
    """
    rng = random.Random(seed)
    done = acknowledged = 0
    faults: list[str] = []
    while done < kills and not faults:
        url, told = await new_storage(), Told()
        async with open_backend(url) as backend:
            for id in HOT:
                await backend.runs.create_run(run_id=id)
        for _ in range(min(ROUNDS_PER_STORAGE, kills - done)):
            await play_round(server, url, told, rng)
            done += 1
            async with open_backend(url) as backend:
                faults += (await look(backend, told))[:20]
            if faults:
                break
        acknowledged += told.count
    return done, acknowledged, faults
