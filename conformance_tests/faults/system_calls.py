"""Every system call that changes or reads files: the process killed there, or the call failing.

``python -m conformance_tests.faults.system_calls (MODULE:OPENER | --url URL) --fault kill``

A process opens the storage and does one operation; strace counts the calls that this takes. Then as
many processes do the same, and one call of each meets the fault. Faults are

- ``kill``: SIGKILL instead of the n-th call that changes files;
- ``error``: the n-th call that changes or reads files fails with EIO, once;
- ``full``: from the n-th on, no call that takes space finds any (ENOSPC), until there is some;
- ``unsynced``: nothing can be synced. Whoever declares that data survives a crash and still says
  "done" has not waited for the disk. One that writes by O_DSYNC, which takes no call, is let off.

What was told is true afterwards: what was done is there, what was not applied is not, the rest is
there wholly or not at all; sent again it has happened once. After an error the same client works or
says that it does not, once there is space again it works; another one works always.

Needs Linux and strace. A backend whose server writes makes no such call: its server is what has to
be killed (``server``). Calls are counted for each thread; those of io_uring are not seen.
``--points N`` takes N of all the points there are, others for each seed; ``--points 0`` takes all.

The exit code is 0 only if nothing was found, 1 for a fault, 2 where the storage could not be opened
or strace may not trace, 3 where no point was met.
"""

import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from conformance_tests.faults.acting import ALONE
from conformance_tests.faults.alone import Actor, Looker, opened_apart
from conformance_tests.faults.command import COULD_NOT_RUN, Tally, arguments, conclude
from conformance_tests.faults.killing import ChildError, Open, import_early
from conformance_tests.opener import UnusableOpenerError, find
from stores_core.capabilities import Durability

SYNCS = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs")
GROWS = (
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "copy_file_range"),
    *("mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat"),
)
CHANGES = (
    *(*SYNCS, *GROWS, "ftruncate", "truncate", "unlink", "unlinkat", "rmdir"),
    *("rename", "renameat", "renameat2"),
)
READS = ("openat", "read", "pread64", "readv", "preadv", "preadv2")

ATTACHING = 10.0
"""Seconds in which strace has to have stopped a process."""

LEAVING = 0.5
"""Seconds in which it leaves a process, once told to."""

SURVIVES_A_CRASH = frozenset({Durability.DISK.value, Durability.REPLICATED.value})


Item = TypeVar("Item")


class UnusableToolError(Exception):
    """strace is missing or may not trace; the message says so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: at which calls, and what strace is told to do at the n-th of them."""

    calls: Sequence[str]
    does: str
    reads: bool = False
    all_at_once: bool = False


KINDS = {
    "kill": Kind(CHANGES, "signal=KILL:when={n}"),
    "error": Kind((*CHANGES, *READS), "error=EIO:when={n}", reads=True),
    "full": Kind(GROWS, "error=ENOSPC:when={n}+", all_at_once=True),
    "unsynced": Kind(SYNCS, "error=EIO:when=1+", all_at_once=True),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A fault at the ``n``-th ``call`` of an operation, "" for any call of the kind."""

    kind: str
    operation: str
    cold: bool
    call: str
    n: int

    def __str__(self) -> str:
        state = "cold" if self.cold else "warm"
        return f"{self.operation} ({state}), {self.kind} at {self.call or 'call'} {self.n}"

    @property
    def inject(self) -> str:
        """The expression that strace takes for it."""
        kind = KINDS[self.kind]
        calls = _named(kind.calls) if kind.all_at_once else self.call
        return f"inject={calls}:{kind.does.format(n=self.n)}"


STRACE = shutil.which("strace") or ""


@functools.cache
def missing() -> str:
    """Why there can be no fault here, "" where there can."""
    if not STRACE:
        return "strace is not installed"
    tried = subprocess.run(  # noqa: S603 - nothing that a caller gave is run
        [STRACE, "-qq", "-o", os.devnull, "-e", "trace=none", sys.executable, "-V"],
        capture_output=True,
        check=False,
    )
    return "" if tried.returncode == 0 else "strace may not trace processes here"


def _named(calls: Sequence[str]) -> str:
    return ",".join(f"?{call}" for call in calls)  # no fault where a machine has no such call


@contextmanager
def traced(pid: int, calls: Sequence[str], log: Path, *options: str) -> Generator[None]:
    """Trace the calls of a process, in all its threads, into a file, with more options of strace.

    Raises UnusableToolError.
    """
    log.write_bytes(b"")
    tracer = subprocess.Popen(  # noqa: S603 - nothing that a caller gave is run
        [
            *(STRACE, "-f", "-qq", "-o", str(log), "-e", f"trace={_named(calls)}"),
            *("-e", "signal=none", *options, "-p", str(pid)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + ATTACHING
        while not _is_traced(pid):
            if tracer.poll() is not None or time.monotonic() > end:
                raise UnusableToolError("strace could not attach to a process of this user")
            time.sleep(0.002)
        yield
    finally:
        _detach(tracer, pid)


def _detach(tracer: "subprocess.Popen[bytes]", pid: int) -> None:
    # A process that was killed ends its tracer; told to leave meanwhile, that may wait for ever.
    status = Path(f"/proc/{pid}/status")
    if not status.exists() or "State:\tZ" in status.read_text():
        with suppress(subprocess.TimeoutExpired):
            tracer.wait(LEAVING)
    for leave in (tracer.terminate, tracer.kill):
        if tracer.poll() is None:
            leave()
            with suppress(subprocess.TimeoutExpired):
                tracer.wait(LEAVING)
    tracer.wait()


def _is_traced(pid: int) -> bool:
    threads = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return bool(threads) and not any("TracerPid:\t0\n" in status for status in threads)


class Breaking:
    """Faults of one kind at the calls of operations on the storage that ``open`` opens."""

    def __init__(self, kind: str, open: Open, folder: Path) -> None:
        self.kind, self.tally = kind, Tally()
        self._open, self._log = open, folder / "strace.log"
        self._looker = Looker(open, f"calls-{secrets.token_hex(5)}")

    def points(self) -> list[Point]:
        """All points that there are. Raises ChildError, UnusableToolError."""
        found: list[Point] = []
        for name in self._looker.expect():
            if ALONE[name].reads and not KINDS[self.kind].reads:
                continue
            for cold in (False, True) if name == "append" and self.kind != "unsynced" else (False,):
                found += self._points(name, cold=cold)
        return found

    def _points(self, name: str, *, cold: bool) -> list[Point]:
        kind = KINDS[self.kind]
        actor = Actor(self._open, name, self._looker.new_id(), cold=cold)
        with traced(actor.pid, (*CHANGES, *kind.calls), self._log):
            told = actor.act()
        actor.end()
        if told.outcome != "done":
            raise ChildError(f"{name}: nothing befell it, and it was told {told.outcome}")
        # The n-th call is that of whichever thread makes it first.
        by_thread, met = Counter[tuple[str, str]](), dict[tuple[str, int], None]()
        calls = re.findall(r"^(\d+) +(\w+)\(", self._log.read_text("utf-8"), re.MULTILINE)
        for thread, call in calls:
            by_thread[thread, call] += 1
            met[call, by_thread[thread, call]] = None
        if self.kind == "unsynced":  # one that never syncs has to be caught too
            return [Point(self.kind, name, cold, "", 1)] if met else []
        some = [(call, n) for call, n in met if call in kind.calls]
        if kind.all_at_once:
            last = max((n for _, n in some), default=0)
            return [Point(self.kind, name, cold, "", n + 1) for n in range(last)]
        return [Point(self.kind, name, cold, call, n) for call, n in some]

    def meet(self, point: Point) -> None:
        """Let an operation meet a fault and see what comes of it. Raises UnusableToolError."""
        name, where, id = point.operation, str(point), self._looker.new_id()
        try:
            actor = Actor(self._open, name, id, cold=point.cold)
            with traced(actor.pid, KINDS[self.kind].calls, self._log, "-e", point.inject):
                told = actor.act()
            if told.outcome == "killed":
                actor.end(killed=self.kind == "kill")
            met = told.outcome == "killed" or "(INJECTED)" in self._log.read_text("utf-8")
            met = met or self.kind == "unsynced"
            self.tally.made += met
            self.tally.not_run += not met
            self.tally.acknowledged += met
            seen = self._looker.look(name, id, told, where)
            faults = list(seen.faults)
            if told.outcome == "done" and self._lies(actor):
                faults.append(f"{where}, it was told done, as if all were on the disk")
            if told.outcome != "killed":
                if ALONE[name].repeatable:
                    again = actor.act()
                    if self.kind == "full" and again.outcome != "done":
                        faults.append(
                            f"{where}, there is space again, and it was told {again.outcome}"
                        )
                actor.end()
            self.tally.faults += faults or self._looker.settle(name, id, seen, where)
        except ChildError as error:
            self.tally.faults.append(f"{where}, {error}")

    def _lies(self, actor: Actor) -> bool:
        lasting = actor.durability in SURVIVES_A_CRASH
        return self.kind == "unsynced" and lasting and not actor.writes_through

    def verify(self) -> None:
        """Have the storage look at itself. Raises ChildError."""
        self.tally.faults += self._looker.verify(f"after each {self.kind}")


def in_turn(points: Sequence[Point], seed: int = 0) -> list[Point]:
    """The points, each operation in turn, so that few of them meet most.

    Of an operation the one in the middle comes first, then those in the middle of the halves; with
    a seed one that many places on. Whatever the seed, the few are not all of one operation, whose
    last calls may have been those of a checkpoint that does not come again.
    """
    of_each: dict[tuple[str, bool], list[Point]] = {}
    for point in points:
        of_each.setdefault((point.operation, point.cold), []).append(point)
    turns = zip_longest(*(turned(halved(of), seed) for of in of_each.values()))
    return [point for turn in turns for point in turn if point is not None]


def turned(items: Sequence[Item], seed: int) -> list[Item]:
    """The same, beginning elsewhere with each seed."""
    begin = seed % len(items)
    return [*items[begin:], *items[:begin]]


def halved(points: Sequence[Point]) -> list[Point]:
    """The middle, the middles of both halves, those of the quarters, and so on."""
    found: list[Point] = []
    parts = [points]
    while parts:
        parts = [part for part in parts if part]
        found += [part[len(part) // 2] for part in parts]
        parts = [half for of in parts for half in (of[: len(of) // 2], of[len(of) // 2 + 1 :])]
    return found


def break_calls(kind: str, open: Open, points: int = 0, seed: int = 0) -> Tally:
    """Meet so many points, 0 for each, or until a fault is found.

    This process must not have opened the storage. Raises ChildError where the storage cannot be
    opened or an operation fails by itself, UnusableToolError where strace is of no use.
    """
    if why := missing():
        raise UnusableToolError(why)
    import_early(open)
    with tempfile.TemporaryDirectory(prefix="calls-") as folder:
        breaking = Breaking(kind, open, Path(folder))
        every = in_turn(breaking.points(), seed)
        count = min(points or len(every), len(every))
        for number in range(count):
            if breaking.tally.faults:
                break
            breaking.meet(every[number])
        if every and not breaking.tally.faults:
            breaking.verify()
        return breaking.tally


def main(given: Sequence[str] | None = None) -> int:
    """Break calls and print what came of it; the exit code."""
    options = arguments(
        "conformance_tests.faults.system_calls", "points", given, fault=tuple(KINDS)
    )
    try:
        opener = find(options.opener, options.url, options.server)
        tally = break_calls(options.fault, opened_apart(opener), options.number, options.seed)
    except (UnusableOpenerError, UnusableToolError, ChildError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    return conclude(options, "points", tally)


if __name__ == "__main__":
    sys.exit(main())
