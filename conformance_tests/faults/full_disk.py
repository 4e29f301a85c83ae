"""A disk that is full at any byte: no file of a process may grow beyond a limit (RLIMIT_FSIZE).

``python -m conformance_tests.faults.full_disk (MODULE:OPENER | --url URL) --limits 100``

A process opens the storage and prepares; then it does one operation under a limit, so that a write
is cut short or refused, at another byte each time. What was told not applied is not there, what is
unknown is there wholly or not at all; and as soon as the limit is gone the same client works, and
what is sent again has happened once. Limits below what any file has already let nothing be written
at all; those that lie within what the operation adds are found by doing it undisturbed.

Needs a system with RLIMIT_FSIZE. Where a server writes, nothing happens to it.

The exit code is 0 only if nothing was found, 1 for a fault, 2 where the storage could not be
opened, 3 where no operation met its limit.
"""

import random
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance_tests.faults.acting import ALONE
from conformance_tests.faults.alone import Actor, Looker, opened_apart
from conformance_tests.faults.command import COULD_NOT_RUN, Tally, arguments, conclude
from conformance_tests.faults.killing import ChildError, Open, import_early
from conformance_tests.opener import UnusableOpenerError, find

NEW_FILE = 250_000
"""Bytes: more than any file has that an operation here makes anew."""


Sizes = Mapping[tuple[int, int], int]


def limit_for(before: Sizes, after: Sizes, rng: random.Random) -> int:
    """A limit that an operation may meet, by the sizes of the open files before and after it."""
    grown = [(before[at], after[at]) for at in before if before[at] < after.get(at, 0)]
    if grown and rng.random() < 0.5:
        low, high = rng.choice(grown)
        return rng.randrange(low, high)
    return int(NEW_FILE ** rng.random()) - 1


class Filling:
    """Operations under limits on the storage that ``open`` opens."""

    def __init__(self, open: Open, seed: int) -> None:
        self.tally, self._open, self._rng = Tally(), open, random.Random(seed)
        self._looker = Looker(open, f"full-{secrets.token_hex(5)}")
        self._grows: dict[str, tuple[Sizes, Sizes]] = {}

    def operations(self) -> list[str]:
        """The operations that write. Raises ChildError where the storage cannot be opened."""
        return [name for name in self._looker.expect() if not ALONE[name].reads]

    def meet(self, name: str, limit: int | None = None) -> None:
        """Let an operation meet a limit, this one or any, and see what comes of it."""
        if name not in self._grows:
            actor = Actor(self._open, name, self._looker.new_id())
            before = actor.file_sizes
            actor.act()
            self._grows[name] = before, actor.file_sizes
            actor.end()
        limit = limit_for(*self._grows[name], self._rng) if limit is None else limit
        id = self._looker.new_id()
        where = f"{name}, no file above {limit} bytes"
        try:
            actor = Actor(self._open, name, id)
            actor.limit(limit)
            told = actor.act()
            actor.limit(None)
            met = told.outcome != "done"
            self.tally.made += met
            self.tally.not_run += not met
            self.tally.acknowledged += met
            seen = self._looker.look(name, id, told, where)
            faults = list(seen.faults)
            if ALONE[name].repeatable and (again := actor.act()).outcome != "done":
                faults.append(f"{where}, the limit is gone, and it was told {again.outcome}")
            actor.end()
            self.tally.faults += faults or self._looker.settle(name, id, seen, where)
        except ChildError as error:
            self.tally.faults.append(f"{where}, {error}")

    def verify(self) -> None:
        """Have the storage look at itself. Raises ChildError."""
        self.tally.faults += self._looker.verify("after the disk was full")


def possible() -> bool:
    """Whether this system limits files and tells which a process has open."""
    return Path("/proc/self/fd").exists()


def fill_disk(open: Open, limits: int, seed: int) -> Tally:
    """Let operations, in turn, meet so many limits, or until a fault is found.

    Nothing is counted where none of them needs any room: such a process writes no files. This one
    must not have opened the storage. Raises ChildError where it cannot be opened.
    """
    if not possible():
        raise UnusableOpenerError("this system does not tell which files a process has open")
    import_early(open)
    filling = Filling(open, seed)
    names = filling.operations()
    for name in names:
        filling.meet(name, 0)
        if filling.tally.made or filling.tally.faults:
            break
    else:
        return Tally()
    for number in range(limits - 1):
        if filling.tally.faults:
            break
        filling.meet(names[(seed + number) % len(names)])
    if not filling.tally.faults:
        filling.verify()
    return filling.tally


def main(given: Sequence[str] | None = None) -> int:
    """Fill the disk and print what came of it; the exit code."""
    options = arguments("conformance_tests.faults.full_disk", "limits", given)
    try:
        opener = find(options.opener, options.url, options.server)
        tally = fill_disk(opened_apart(opener), options.number, options.seed)
    except (UnusableOpenerError, ChildError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    return conclude(options, "limits", tally)


if __name__ == "__main__":
    sys.exit(main())
