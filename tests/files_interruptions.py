"""Operations that are cut off, or fail, at each of their calls to a simulated disk.

Afterwards a caller tries again, as the contract tells it to, and then the power goes: what was
acknowledged in the end is there, whatever the first try left half done.
"""

import asyncio
import random
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from conformance_tests.faults.crash_states import Nodes, Platter, reachable
from stores_core.errors import OutcomeUnknownError, StoreUnavailableError
from stores_files.storage import Tenant
from tests.files_recovery import Held, faults_of
from tests.files_simulated import Kind, SimulatedDisk
from tests.files_steps import On, Step, between, on, prepared, repeatable, snapshot

STATES = 8
"""So many states are looked at after each try again."""

Ending = Literal["done", "not applied", "unknown", "killed"]


class Killed(BaseException):
    """The process ends here: no clean-up of it reaches the disk."""


@dataclass
class Interruption:
    """What happens at the ``at``-th call of a step, and whether at all later ones too.

    ``error`` is the number of the system's error; None ends the process.
    """

    at: int
    error: int | None
    for_ever: bool = False
    begun: int = 0
    is_over: bool = False
    met: str = ""

    def __call__(self, name: str, call: int) -> None:
        call -= self.begun
        if self.is_over or call < self.at or (call > self.at and not self._goes_on):
            return
        self.met = self.met or f"{name} ({call})"
        if self.error is None:
            raise Killed
        raise OSError(self.error, "simulated")

    @property
    def _goes_on(self) -> bool:
        return self.for_ever or self.error is None


@dataclass
class Outcome:
    """What came of a step that was interrupted at a call, and of the next try."""

    call: str
    ending: Ending
    states: int = 0
    faults: list[str] = field(default_factory=list[str])

    def expect(self, fault: str, *, if_not: bool) -> None:
        if not if_not:
            self.faults.append(f"{fault} (at {self.call}, which ended as {self.ending})")


async def ending_of(work: Awaitable[object]) -> Ending:
    try:
        await work
    except StoreUnavailableError:
        return "not applied"
    except OutcomeUnknownError:
        return "unknown"
    except Killed:
        return "killed"
    return "done"


def undisturbed(nodes: Nodes, step: Step, kind: Kind = SimulatedDisk) -> tuple[Held, ...]:
    """What there is before a step, between its operations if it is several, and after it."""

    async def work() -> tuple[Held, ...]:
        disk = kind(dict(nodes))
        stores = on(disk)
        await _warm(stores)
        before = snapshot(disk)
        await step(stores)
        return before, *between(step, disk), snapshot(disk)

    with repeatable():
        return asyncio.run(work())


def interruptions(
    step: Step,
    error: int | None,
    *,
    for_ever: bool = False,
    every: int = 1,
    nodes: Nodes | None = None,
    kind: Kind = SimulatedDisk,
) -> Iterator[Outcome]:
    """What comes of a step that is interrupted at each call, or at one of so many."""
    nodes = nodes or prepared(kind=kind)
    whole = undisturbed(nodes, step, kind)
    for at in count(1, every):
        outcome = interrupted(nodes, step, whole, Interruption(at, error, for_ever), kind)
        if outcome is None:
            return
        yield outcome


def interrupted(
    nodes: Nodes,
    step: Step,
    whole: tuple[Held, ...],
    cut: Interruption,
    kind: Kind = SimulatedDisk,
) -> Outcome | None:
    """Interrupt a step at a call, try again, cut the power. None where it makes fewer calls."""
    before, after = whole[0], whole[-1]

    async def work() -> Outcome | None:
        disk = kind(dict(nodes))
        stores = on(disk)
        await _warm(stores)
        disk.fail, cut.begun = cut, disk.calls
        ending = await ending_of(step(stores))
        cut.is_over = True
        if not cut.met:
            return None
        outcome = Outcome(cut.met, ending)
        allowed = {"done": (after,), "not applied": (before,)}.get(ending, whole)
        outcome.expect("it is neither as before nor done", if_not=snapshot(disk) in allowed)
        if ending == "killed":
            # Another process goes on, with what the system still has in memory.
            disk, record = kind(disk.nodes), disk.record
            disk.record = record
            stores = on(disk)
        again = await ending_of(step(stores))
        outcome.expect(f"the next try ended as {again}", if_not=again == "done")
        final = snapshot(disk)
        platter = Platter(nodes)
        for change in disk.record:
            platter.take(change)
        left = platter.states(random.Random(cut.at), STATES)
        for state in {reachable(each): each for each in left}.values():
            outcome.states += 1
            outcome.faults += faults_of(kind(state), (final,))
        _close(stores.tenant)
        outcome.expect("files stayed open", if_not=disk.open_files() == 0)
        outcome.faults += disk.faults
        return outcome

    with repeatable():
        return asyncio.run(work())


async def _warm(stores: On) -> None:
    for id in "ab":
        await stores.runs.load_run(run_id=id)


def _close(tenant: Tenant) -> None:
    storage = tenant.storage
    tenant.close()
    storage.disk.close(storage.tenants)
    storage.disk.close(storage.root)
