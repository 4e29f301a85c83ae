"""Every byte of every reply: the connection to a server cut there, for each operation.

``python -m conformance_tests.faults.cutting (MODULE:OPENER --server HOST:PORT | --url URL)``

Whatever byte it is, a write that was applied is never called one that was not, nor the other way
round; sent again with its key or id it has happened once; and no reply reaches another caller. The
bytes are those of the replies that an operation gets on a connection that is in use (warm), and on
one that it has to make first (cold). ``--cuts N`` makes N of all the cuts that there are, others
for each seed; ``--cuts 0`` makes all.

The exit code is 0 only if nothing was found, 1 for a fault, 2 where the storage could not be
opened, 3 where no cut was met.
"""

import asyncio
import itertools
import random
import secrets
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from conformance_tests.faults.acting import OPERATIONS, Expected, Operation, prepare
from conformance_tests.faults.command import COULD_NOT_RUN, Tally, arguments, conclude
from conformance_tests.faults.proxy import Fault, Proxy, proxied
from conformance_tests.opener import Opener, UnusableOpenerError, find
from stores_core.backend import Backend
from stores_core.errors import OutcomeUnknownError, StoreUnavailableError

LANES = 4
"""So many clients are cut at once, each on a connection of its own."""

PATIENCE = 20.0
"""Seconds in which a call has to end, and the next one after it."""


Outcome = Literal["done", "not applied", "unknown"]
"""What a caller is told: by the answer, by StoreUnavailableError, by OutcomeUnknownError."""


@dataclass(frozen=True, slots=True)
class Point:
    """A cut at a byte of the ``after``-th reply that an operation gets."""

    operation: str
    fault: Fault
    warm: bool

    def __str__(self) -> str:
        state = "warm" if self.warm else "cold"
        return f"{self.operation} ({state}), reply {self.fault.after} cut at {self.fault.reply}"


class Lane:
    """A client with a connection by way of a proxy, and one that goes straight and looks."""

    def __init__(self, backend: Backend, straight: Backend, proxy: Proxy) -> None:
        self.backend, self.straight, self.proxy = backend, straight, proxy
        self._token, self._numbers = secrets.token_hex(5), itertools.count()
        self.expected: dict[str, Expected] = {}

    def new_id(self) -> str:
        return f"cut-{self._token}-{next(self._numbers)}-"

    async def expect(self) -> None:
        """Do each operation undisturbed, to know what is to be seen of it."""
        for name, operation in applicable(self.straight).items():
            self.expected[name] = await Expected.of(operation, self.straight, self.new_id())

    async def replies(self, operation: Operation, *, warm: bool) -> list[int]:
        """The sizes in bytes of the replies that an operation gets."""
        id = self.new_id()
        await prepare(self.straight, id)
        await self.make(operation, warm=warm)
        before = len(self.proxy.replies)
        await operation.act(self.backend, id)
        return self.proxy.replies[before:]

    async def make(self, operation: Operation, *, warm: bool) -> None:
        """Have a connection that is in use, or none."""
        if not warm:
            self.proxy.cut_all()
            await asyncio.sleep(0.002)  # the client hears of it
            return
        id = self.new_id()
        await prepare(self.straight, id)
        for _ in range(2):  # the first may meet a connection that was cut
            try:
                await operation.act(self.backend, id)
            except (OutcomeUnknownError, StoreUnavailableError):
                pass
            else:
                break

    async def cut(self, point: Point) -> bool:
        """Make one cut and see what comes of it; whether it was met. Raises AssertionError."""
        operation, where, id = OPERATIONS[point.operation], str(point), self.new_id()
        await prepare(self.straight, id)
        await self.make(operation, warm=point.warm)
        before = self.proxy.cuts
        self.proxy.cut(point.fault)
        await self.told(point.operation, id, where)
        return self.proxy.cuts > before

    async def told(self, name: str, id: str, where: str) -> Outcome:
        """Do an operation that something may happen to, see that what it is told is true, and
        return that; then the proxy is mended and it is sent again. Raises AssertionError."""
        operation, expected = OPERATIONS[name], self.expected[name]
        outcome: Outcome = "done"
        try:
            async with asyncio.timeout(PATIENCE):
                await operation.act(self.backend, id)
        except OutcomeUnknownError:
            outcome = "unknown"
        except StoreUnavailableError:
            outcome = "not applied"
        await self.proxy.mend()
        seen = await expected.settled(operation, self.straight, id, where)
        if outcome == "done":
            await expected.happened(operation, self.straight, id, f"{where}, it was told done")
        elif outcome == "not applied":
            assert seen == expected.before, f"{where}, it was told not applied and is there"
        if operation.repeatable or seen == expected.before:
            await self._again(operation, id)
            await expected.happened(operation, self.straight, id, f"{where} and sent again")
        if "runs" in self.backend.offered:  # whoever asks next is answered what they asked
            found = (await self.backend.runs.get_run(run_id=id)).info
            assert found is None or found.id == id, f"{where}, the next call got another's reply"
        return outcome

    async def _again(self, operation: Operation, id: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await operation.act(self.backend, id)
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)
                except OutcomeUnknownError:
                    if not operation.repeatable:
                        raise
                else:
                    return


@asynccontextmanager
async def lane_to(opener: Opener, **values: Any) -> AsyncGenerator[Lane]:
    """A lane to the server of an opener; the client that goes by way of the proxy is opened with
    ``values``. Raises UnusableOpenerError where no server is known."""
    if not opener.server or opener.by_way_of is None:
        raise UnusableOpenerError(
            f"{opener.name} names no server to cut off: give --server HOST:PORT, and the opener a "
            "keyword `server` for where to connect instead"
        )
    async with proxied(f"tcp://{opener.server}") as proxy:
        other = opener.by_way_of(f"127.0.0.1:{proxy.here}")
        # With one connection, one that is spoiled is met by the very next call.
        size = {"pool_size": 1} if other.takes("pool_size") else {}
        async with opener.open() as straight, other.open(**size, **values) as backend:
            lane = Lane(backend, straight, proxy)
            await lane.expect()
            yield lane


def applicable(backend: Backend) -> dict[str, Operation]:
    """The operations of the stores that a backend has."""
    return {
        name: operation
        for name, operation in OPERATIONS.items()
        if operation.store in backend.offered
    }


async def points(lane: Lane) -> list[Point]:
    """Every byte of every reply of every operation, and the end of each reply."""
    found: list[Point] = []
    for name, operation in applicable(lane.straight).items():
        for warm in (True, False):
            for after, size in enumerate(await lane.replies(operation, warm=warm)):
                cuts = (Fault(reply=byte, after=after, reset=byte % 2 > 0) for byte in range(size))
                found += [Point(name, cut, warm) for cut in cuts]
    return found


async def cut_everywhere(opener: Opener, cuts: int = 0, seed: int = 0) -> Tally:
    """Cut so often, 0 for every byte, or until a fault is found.

    Seeds that follow each other by ``cuts`` take points that follow each other, so that one after
    another they make every cut. Raises UnusableOpenerError for a storage without a server.
    """
    tally = Tally()
    async with lane_to(opener) as first:
        every = await points(first)
    random.Random(0).shuffle(every)
    wanted = [every[(seed + n) % len(every)] for n in range(cuts or len(every))]
    waiting = iter(wanted)

    async def work() -> None:
        async with lane_to(opener) as lane:
            for point in waiting:
                if tally.faults:
                    return
                try:
                    met = await lane.cut(point)
                except (AssertionError, StoreUnavailableError, TimeoutError) as error:
                    tally.faults.append(f"{point}: {error}")
                    return
                tally.made += met
                tally.not_run += not met
                tally.acknowledged += met

    await asyncio.gather(*(work() for _ in range(LANES)))
    return tally


def main(given: Sequence[str] | None = None) -> int:
    """Cut and print what came of it; the exit code."""
    options = arguments("conformance_tests.faults.cutting", "cuts", given)
    try:
        opener = find(options.opener, options.url, options.server)
        tally = asyncio.run(cut_everywhere(opener, options.number, options.seed))
    except UnusableOpenerError as error:
        print(f"could not run: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    return conclude(options, "cuts", tally)


if __name__ == "__main__":
    sys.exit(main())
