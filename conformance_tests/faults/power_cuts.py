"""The power fails at any moment: whatever the disk holds then is opened and looked at.

``python -m conformance_tests.faults.power_cuts (MODULE:OPENER | --url URL) --states 1000``

A process makes a storage of its own, in a folder that is empty, prepares and does one operation;
strace records all that it asks of the system, and from the record follows what the disk may hold
if the power fails between two calls (``crash_states`` says what that is). Up to so many different
states are laid out, and another process opens each: before the operation was told to be done it is
there wholly or not at all, afterwards it is there. The storage can be written to and finds itself
whole then; opened twice it holds the same, and what is sent again has happened once. A backend
whose data need not survive a crash may have lost anything, or say that it is damaged (``lost``),
but shows nothing in part.

For a backend that keeps files, where the path in its URL says where they lie: the last part of it
stays, in a folder of this run. An opener has to have a keyword ``folder``, in which it puts them.
Files that are written through a mapping are not seen by strace, so they hold anything; where they
hold what was stored, or calls were made of which nobody knows here what they do, nothing is proved.

Needs Linux and strace. The exit code is 0 only if nothing was found, 1 for a fault, 2 where the
storage could not be opened or strace may not trace, 3 where too few states were looked at, or
nothing could be proved.
"""

import random
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance_tests.faults.acting import OPERATIONS
from conformance_tests.faults.calls import NotUnderstoodError
from conformance_tests.faults.command import COULD_NOT_RUN, LEAST, Tally, arguments, conclude
from conformance_tests.faults.crash_states import (
    ROOT,
    Nodes,
    Platter,
    Synced,
    left_at,
    reachable,
)
from conformance_tests.faults.folder import (
    differences,
    lay_out,
)
from conformance_tests.faults.killing import ChildError, Open, import_early
from conformance_tests.faults.recording import ACTING, PREPARING, TOLD, Recording, record
from conformance_tests.faults.recovering import Recovery, Stages, stages
from conformance_tests.faults.system_calls import (
    UnusableToolError,
    missing,
    turned,
)
from conformance_tests.opener import Opener, UnusableOpenerError, find

EACH = 12
"""States for which it is worth to record an operation."""

THOROUGH = 3
"""One of so many states is opened twice, and the operation is sent again there."""

AT_EACH = 4
"""So many states are made at a moment, of which many are alike."""

SHARES = {TOLD: 0.35, ACTING: 0.5, PREPARING: 0.15}
"""How much of the states each is given."""


NO_PLACE = (
    "nobody can say where it keeps files: its URL has no path, and an opener has to have a keyword "
    "`folder`, in which it puts them"
)


def states(recording: Recording, rng: random.Random, most: int) -> list[tuple[str, int, Nodes]]:
    """Up to ``most`` different disks that may be left, with the phase and the changes till then."""
    phase_of = {n: phase for phase, behind in recording.phases.items() for n in behind}
    moments = {recording.told: AT_EACH * AT_EACH}
    for phase, behind in recording.phases.items():
        # Until the next sync ever more may be lost, so most is behind all that it is for.
        syncs = [n for n in behind if isinstance(recording.at_hand(n), Synced)]
        for among in (syncs, behind):
            count = min(len(among), round(most * SHARES[phase]))
            moments = dict.fromkeys(rng.sample(among, count), AT_EACH) | moments
    found: dict[tuple[str, object], tuple[str, int, Nodes]] = {}
    for n, nodes in left_at(Platter({ROOT: {}}), recording.changes, moments, rng):
        found.setdefault((phase_of[n], reachable(nodes)), (phase_of[n], n, nodes))
    drawn = rng.sample([*found.values()], len(found))
    chosen: list[tuple[str, int, Nodes]] = []
    for phase, share in SHARES.items():
        chosen += [each for each in drawn if each[0] == phase][: round(most * share)]
    taken = {id(each) for each in chosen}
    return [*chosen, *(each for each in drawn if id(each) not in taken)][:most]


class Cutting:
    """Power cuts of storages that ``opener`` makes, one after another, in folders of this run."""

    def __init__(self, opener: Opener, folder: Path, seed: int) -> None:
        """Raises UnusableOpenerError where nobody can say where it keeps files."""
        if opener.placed_in is None:
            raise UnusableOpenerError(NO_PLACE)
        self.tally, self._folder, self._rng = Tally(), folder, random.Random(seed)
        self._live, self._left = folder / "live", folder / "left"
        self._open: Open = opener.placed_in(self._live).open
        self._open_left: Open = opener.placed_in(self._left).open
        self._prefix, self._stages = f"cut-{secrets.token_hex(5)}", dict[str, Stages]()

    def operations(self) -> list[str]:
        """The operations that change something. Raises ChildError if it cannot be opened."""
        self._left.mkdir()
        import_early(self._open_left)
        self._stages = stages(self._open_left, self._prefix)
        return list(self._stages)

    def cut(self, name: str, most: int, *, cold: bool) -> None:
        """Record an operation, and look at so many states that a cut may leave, or to a fault.

        Raises ChildError, UnusableToolError, NotUnderstoodError.
        """
        _empty(self._live)
        state = "cold" if cold else "warm"
        id = f"{self._prefix} {state} {name} "
        recording = record(self._open, name, id, cold=cold, folder=self._folder)
        if not recording.changes:
            raise NotUnderstoodError("it keeps no files in the folder that it was given")
        self._note_unseen(recording)
        recovery = Recovery(self._open_left, OPERATIONS[name], self._stages[name], id)
        self._see_a_copy(recording, recovery)
        for number, (phase, n, nodes) in enumerate(states(recording, self._rng, most)):
            self._lay_out(self._with_unseen(nodes, recording))
            acting, told = phase != PREPARING, phase == TOLD
            if not recording.lasting:
                acting = told = False
            whole = recovery.stages.whole(acting=acting, told=told)
            faults, says_so = recovery.look(whole, thoroughly=number % THOROUGH == 0)
            self.tally.made += 1
            self.tally.acknowledged += not faults
            if says_so and not recording.lasting:
                self.tally.lost += 1
            elif faults:
                where = f"{name} ({state}), when {phase}, {_described(recording, n, nodes)}"
                self.tally.faults += [f"{where}: {fault}" for fault in faults]
                break

    def _see_a_copy(self, recording: Recording, recovery: Recovery) -> None:
        """Raises NotUnderstoodError where a copy of all that was seen is no copy of the storage."""
        self._lay_out(recording.at(recording.told))
        after = recovery.stages.whole(acting=True, told=True)
        if copied := recovery.look(after, thoroughly=False).faults:
            itself = replace(recovery, open=self._open).look(after, thoroughly=False).faults
            if not itself:
                raise NotUnderstoodError(f"a copy of all that was seen is not whole: {copied[0]}")
            self.tally.faults += [f"{recovery.id}, with nothing lost: {each}" for each in itself]

    def _lay_out(self, nodes: Nodes) -> None:
        shutil.rmtree(self._left)
        lay_out(nodes, self._left)

    def _with_unseen(self, nodes: Nodes, recording: Recording) -> Nodes:
        """The same disk with anything in what was not seen."""
        other = dict(nodes)
        for inode in recording.unseen.keys() & nodes.keys():
            data = other[inode]
            assert isinstance(data, bytes)
            held, noise = recording.unseen[inode][1], self._rng.randbytes(len(data))
            other[inode] = self._rng.choice((data, held, noise))
        return other

    def _note_unseen(self, recording: Recording) -> None:
        paths = {path for path, _ in recording.unseen.values()}
        self.tally.unseen = sorted({*self.tally.unseen, *paths})


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def _described(recording: Recording, n: int, nodes: Nodes) -> str:
    """Which moment it was, and what of the disk is not there."""
    lost = differences(recording.at(n), nodes, recording.unseen)
    what = ", ".join(each or "the folder" for each in lost[:3]) or "nothing"
    return f"a power cut behind {n} of {len(recording.changes)} changes, which took of: {what}"


def cut_power(opener: Opener, number: int, seed: int) -> Tally:
    """Look at so many states, or until a fault is found, fewer where there are not as many.

    This process must not have opened the storage. Raises UnusableOpenerError where nobody can say
    where it lies, ChildError where it cannot be opened or an operation fails by itself,
    UnusableToolError where strace is of no use.
    """
    if why := missing():
        raise UnusableToolError(why)
    with tempfile.TemporaryDirectory(prefix="cuts-") as folder:
        cutting = Cutting(opener, Path(folder).resolve(), seed)
        tally, pairs = cutting.tally, in_turn(cutting.operations(), seed)
        count = min(len(pairs), -(-number // EACH))
        try:
            for n, (name, cold) in enumerate(pairs[:count]):
                cutting.cut(name, (number - tally.made) // (count - n), cold=cold)
                if tally.faults:
                    break
        except NotUnderstoodError as error:
            tally.unproved = str(error)
    if tally.made < LEAST and not tally.faults:
        tally.made, tally.not_run, tally.acknowledged = 0, tally.made, 0
    return tally


def in_turn(names: Sequence[str], seed: int) -> list[tuple[str, bool]]:
    """All operations, one warm and the next one cold, and then the other way round."""
    first = [(name, (seed + n) % 2 == 1) for n, name in enumerate(names)]
    return turned([*first, *((name, not cold) for name, cold in first)], seed)


def main(given: Sequence[str] | None = None) -> int:
    """Cut the power and print what came of it; the exit code."""
    options = arguments("conformance_tests.faults.power_cuts", "states", given)
    try:
        opener = find(options.opener, options.url, options.server)
        tally = cut_power(opener, options.number, options.seed)
    except (UnusableOpenerError, UnusableToolError, ChildError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    return conclude(options, "states", tally)


if __name__ == "__main__":
    sys.exit(main())
