"""``python -m tests.files_power_cuts --states 100000``: power cuts at any moment, simulated.

All pairs of operations, each operation before a step of the stored format, and all sequences of
three of the usual ones are played, and the last one is cut before and after each call that changes
the disk. Of what the disk may hold then (conformance_tests/faults/crash_states.py), up to so many
different states are opened and looked at: they hold what was acknowledged, and the last operation
wholly or not at all. A folder whose step was cut off is migrated first, as an operator does. The
exit code is 0 only if nothing was found.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from conformance_tests.faults.crash_states import Change, Nodes, Platter, left_at, reachable
from tests.files_commands import arguments, conclude
from tests.files_migrations import MIGRATIONS, OLDER, finish, migrate_to, there_and_back
from tests.files_recovery import Held, faults_of
from tests.files_simulated import Kind, SimulatedDisk
from tests.files_steps import ALL, STEPS, between, on, prepared, repeatable, snapshot

THOROUGH = 4
"""All states are opened and read; one of so many is also written to, swept and verified."""

PARTS = 4
"""For each process, so that none has much more to do than another."""

AT_EACH = 4
"""So many times more states are made at each moment than are wanted: many are alike."""

State = tuple[Nodes, tuple[Held, ...]]
"""A disk, and what it may hold."""


def sequences() -> list[tuple[str, ...]]:
    """The sequences of operations that are played, short ones first."""
    return [
        *product(ALL),
        *product(ALL, repeat=2),
        *product(ALL, MIGRATIONS),
        *product(STEPS, repeat=3),
    ]


def states(
    platter: Platter,
    changes: Sequence[Change],
    whole: Sequence[Held],
    rng: random.Random,
    most: int,
) -> list[State]:
    """Up to ``most`` of what a cut before each of these changes, or behind them all, may leave.

    Behind them all it is the last of what is there ``whole`` at some moment.
    """
    found: dict[object, State] = {}
    share = AT_EACH * max(1, most // (1 + len(changes)))
    moments = dict.fromkeys(range(len(changes) + 1), share)
    for n, nodes in left_at(platter, changes, moments, rng):
        allowed = tuple(whole if n < len(changes) else whole[-1:])
        found.setdefault((reachable(nodes), len(allowed)), (nodes, allowed))
    return rng.sample([*found.values()], min(most, len(found)))


async def played(
    nodes: Nodes, names: Sequence[str], rng: random.Random, most: int, disk: SimulatedDisk
) -> list[State]:
    """States that a cut of the last of these operations may leave."""
    stores, last = on(disk), names[-1]
    for name in names[:-1]:
        await ALL[name](stores)
    whole = [snapshot(disk)]
    if last in MIGRATIONS:
        # Cut off before its first step, the way back has changed no time yet.
        whole.append(snapshot(there_and_back(disk)))
    if last == "migrate forward":
        del whole[0]
        migrate_to(disk, OLDER)
    begun = len(disk.record)
    if last in MIGRATIONS:
        migrate_to(disk, MIGRATIONS[last])
    else:
        await ALL[last](stores)
        whole += [*between(ALL[last], disk), snapshot(disk)]
    platter = Platter(nodes)
    for change in disk.record[:begun]:
        platter.take(change)
    return states(platter, disk.record[begun:], whole, rng, most)


def examine(
    nodes: Nodes,
    names: Sequence[str],
    seed: int = 0,
    most: int = 1_000,
    disk: Kind = SimulatedDisk,
    kind: Kind = SimulatedDisk,
) -> tuple[int, list[str]]:
    """How many states were looked at after a sequence, and what is wrong with the first bad one.

    The sequence is played on ``disk``, which may be a wrong one, and what it left is looked at on
    one of its true ``kind``.
    """

    async def work() -> tuple[int, list[str]]:
        looked, rng = 0, random.Random(f"{seed} {names}")
        with repeatable():
            for state, allowed in await played(nodes, names, rng, most, disk(dict(nodes))):
                looked += 1
                is_thorough = looked % THOROUGH == 1
                left = kind(state)
                if names[-1] in MIGRATIONS:
                    finish(left)
                if faults := faults_of(left, allowed, is_thorough=is_thorough):
                    return looked, [f"{' > '.join(names)}, state {looked}: {it}" for it in faults]
        return looked, []

    return asyncio.run(work())


def examine_part(part: int, parts: int, most: int, seed: int = 0) -> tuple[int, list[str]]:
    """One of so many parts of all sequences: states that were looked at, the first faults."""
    nodes, mine, total = prepared(), sequences()[part::parts], 0
    for n, names in enumerate(mine):
        looked, faults = examine(nodes, names, seed, (most - total) // (len(mine) - n))
        total += looked
        if faults:
            return total, faults
    return total, []


def main() -> int:
    options = arguments("tests.files_power_cuts", "states", 100_000)
    started, parts = time.monotonic(), PARTS * options.processes
    with ProcessPoolExecutor(options.processes) as pool:
        work = [
            pool.submit(examine_part, n, parts, options.number // parts, options.seed)
            for n in range(parts)
        ]
        ended = [each.result() for each in work]
    looked, faults = sum(count for count, _ in ended), [each for _, told in ended for each in told]
    return conclude(options, "states", looked, time.monotonic() - started, faults)


if __name__ == "__main__":
    sys.exit(main())
