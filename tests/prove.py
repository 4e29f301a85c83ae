"""Repeats checks, with a new seed each time, and counts them in the tally (tests/tally.py).

``python -m tests.prove --minutes 60`` takes turns: next is whatever had the least time at this
commit so far, so a run that was cut off goes on where it was. Without ``--minutes`` it goes on
until it is interrupted. ``--check`` and ``--backend`` narrow the choice, ``--rounds`` ends after so
many. A round that was cut off is not counted.

``--seed SEED`` with one check and one backend plays one round again and counts nothing.
"""

import argparse
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance_tests.histories.planning import MIXES
from conformance_tests.verdict import CONFORMANT, PARTIAL
from tests.tally import TALLY, Round, Row, add, now, read, report_of, row_for

ROOT = Path(__file__).parent.parent

EXAMPLES = 100
"""So many sequences of each kind are one round."""

CALLS = "conformance_tests.faults.system_calls"
CALL_FAULTS = {"calls killed": "kill", "calls failing": "error", "calls without space": "full"}
CUTTING = "conformance_tests.faults.cutting"
FILLING = "conformance_tests.faults.full_disk"
KILLING = "conformance_tests.faults.killing"
POWER = "conformance_tests.faults.power_cuts"

OPERATIONS = 20_000
"""So many operations are one history."""

URLS = {
    "memory": "memory:prove",
    "sqlite": "sqlite:{folder}/prove.db",
    "file": "file:{folder}/prove",
    "postgres": "{postgres}",
    "redis": "{redis}",
}
SERVERS = {"{postgres}": "tests.postgres_server", "{redis}": "tests.redis_server"}
"""What runs a command on a server, and puts its URL into the place of ``{url}``."""

Play = Callable[[str, int], Round]
"""Plays a round on a backend with a seed. Exits where it tells nothing."""


def suite(*profile: str) -> Play:
    """The suite, in an order that the seed gives."""

    def play(backend: str, seed: int) -> Round:
        order = ["--seed", str(seed), "-p", "tests.shuffled", f"--shuffle={seed}"]
        told, seconds, sound = ran(
            ["conformance_tests", "--url", URLS[backend], "--json", "{report}", *profile, *order],
            seed,
        )
        if "checks" not in told:
            sys.exit(f"the suite gave no verdict with seed {seed}")
        counts = told["checks"]
        sound = sound and told["conformant"] is True
        report = {} if profile else report_of(told)
        return Round(counts["passed"], counts["failed"], seconds, sound, report=report)

    return play


def random(backend: str, seed: int) -> Round:
    """Sequences at random against the oracle."""
    told, seconds, sound = ran(
        [
            *("conformance_tests", "--url", URLS[backend], "--json", "{report}"),
            *("-k", "test_random", "--examples", str(EXAMPLES), "--seed", str(seed)),
        ],
        seed,
        codes=(CONFORMANT, PARTIAL),
    )
    if "checks" not in told:
        sys.exit(f"the suite gave no verdict with seed {seed}")
    passed, failed = told["checks"]["passed"], told["checks"]["failed"]
    return Round(passed, failed, seconds, sound and passed > 0 and not failed)


def histories(backend: str, seed: int) -> Round:
    """One history, of each mix in turn, by processes where the storage is shared."""
    workers = ["--threads", "2"] if backend == "memory" else ["--processes", "2"]
    mixes = sorted(MIXES)
    told, seconds, sound = ran(
        [
            *("conformance_tests.histories", "--url", URLS[backend], "--json", "{report}"),
            *(*workers, "--tasks", "4", "--operations", str(OPERATIONS)),
            *("--mix", mixes[seed % len(mixes)], "--seed", str(seed)),
        ],
        seed,
    )
    if "operations" not in told or not told["ran"]:
        sys.exit(f"the history with seed {seed} says nothing")
    return Round(told["operations"], len(told["faults"]), seconds, sound)


def series(made: str, each: int, module: str, *arguments: str) -> Play:
    """So many faults of one kind, as a series; those within which too little happened are none."""

    def play(backend: str, seed: int) -> Round:
        command = [module, *arguments, f"--{made}", str(each), "--seed", str(seed)]
        told, seconds, sound = ran([*command, "--json", "{report}"], seed)
        if made not in told:
            sys.exit(f"the {made} with seed {seed} told nothing")
        failed = len(told["faults"])
        return Round(told["acknowledged"], failed, seconds, sound, told[made])

    return play


CHECKS: Mapping[tuple[str, str], Play] = {
    **{("suite", backend): suite() for backend in URLS},
    **{("quick", backend): suite("--quick") for backend in URLS},
    **{("random", backend): random for backend in URLS},
    **{("histories", backend): histories for backend in URLS},
    ("kills", "sqlite"): series("kills", 500, KILLING, "--url", "sqlite:{folder}/{n}.db"),
    ("kills", "file"): series("kills", 500, KILLING, "--url", "file:{folder}/{n}"),
    **{
        (check, backend): series("points", 0, CALLS, "--fault", fault, "--url", URLS[backend])
        for check, fault in CALL_FAULTS.items()
        for backend in ("sqlite", "file")
    },
    **{
        ("limits", backend): series("limits", 200, FILLING, "--url", URLS[backend])
        for backend in ("sqlite", "file")
    },
    **{
        ("power cuts", backend): series("states", 1_000, POWER, "--url", URLS[backend])
        for backend in ("sqlite", "file")
    },
    ("server kills", "postgres"): series("kills", 50, "tests.postgres_kill"),
    ("server kills", "redis"): series("kills", 50, "tests.redis_kill"),
    ("cuts", "postgres"): series("cuts", 500, CUTTING, "--url", "{postgres}"),
    ("cuts", "redis"): series("cuts", 500, CUTTING, "--url", "{redis}"),
    ("failovers", "redis"): series("kills", 50, "tests.redis_failover"),
}


def ran(
    arguments: Sequence[str], seed: int, codes: Sequence[int] = (0,)
) -> tuple[dict[str, Any], float, bool]:
    """Runs a module of ours: the JSON that it left in ``{report}``, seconds, whether it ended well,
    which is with one of these exit codes.

    What it said is passed on where it did not.
    """
    wanted = [module for mark, module in SERVERS.items() if mark in arguments]
    server = [*wanted, "--", sys.executable, "-m"] if wanted else []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        named = {"{report}": str(report), "{folder}": folder, **dict.fromkeys(SERVERS, "{url}")}
        command = [sys.executable, "-m", *server, *arguments]
        for mark, text in named.items():
            command = [argument.replace(mark, text) for argument in command]
        started = time.monotonic()
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": str(seed % 2**32), "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        seconds = time.monotonic() - started
        told: dict[str, Any] = json.loads(report.read_text("utf-8")) if report.exists() else {}
    sound = ended.returncode in codes
    if not sound:
        print(ended.stdout)
    return told, seconds, sound


def commit() -> str:
    """The commit, with "+" behind it when the working tree holds changes beside the tally."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    ours = [f":!{path.relative_to(ROOT)}" for path in (TALLY, TALLY.with_suffix(".md"))]
    changes = git("status", "--porcelain", "--", ".", *ours)
    return (git("rev-parse", "--short=12", "HEAD") or "none") + ("+" if changes else "")


def row_of(check: str, backend: str) -> Row:
    """The row that a round played now belongs to."""
    identity = (check, backend, commit(), platform.python_version())
    return row_for(Row(*identity, seed=secrets.randbelow(2**31), first=now()), read())


def in_turn(chosen: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Whatever had the least time at this commit, again and again."""
    while True:
        yield min(chosen, key=lambda pair: row_of(*pair).seconds)


def repeat(chosen: Sequence[tuple[str, str]], minutes: float | None, rounds: int | None) -> bool:
    """Rounds until the time is over; whether all of them were sound."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    all_sound, played = True, 0
    for check, backend in in_turn(chosen):
        if (end is not None and time.monotonic() >= end) or played == rounds:
            break
        row = row_of(check, backend)
        seed = row.next_seed
        done = CHECKS[check, backend](backend, seed)
        row = add(done, row)
        all_sound, played = all_sound and done.sound, played + 1
        print(f"{said(check, backend, seed, done)}; {row.rounds:,} so far", flush=True)
    return all_sound


def said(check: str, backend: str, seed: int, done: Round) -> str:
    word = "sound" if done.sound else "NOT SOUND"
    counts = f"{done.passed:,} passed, {done.failed:,} failed"
    return f"{check} on {backend}, seed {seed}: {word}, {counts}, {done.seconds:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    names = sorted({check for check, _ in CHECKS})
    parser.add_argument("--check", action="append", choices=names, help="this one, or several")
    parser.add_argument("--backend", action="append", choices=sorted(URLS), help="the same")
    parser.add_argument("--minutes", type=float, help="how long; without it, until interrupted")
    parser.add_argument("--rounds", type=int, help="how many rounds at most")
    parser.add_argument("--seed", type=int, help="one round with this seed, not counted")
    given = parser.parse_args()
    chosen = [
        (check, backend)
        for check, backend in CHECKS
        if check in (given.check or names) and backend in (given.backend or URLS)
    ]
    if not chosen or (given.seed is not None and len(chosen) > 1):
        parser.error("no such check on such a backend" if not chosen else "name one to play again")
    if given.seed is not None:
        check, backend = chosen[0]
        done = CHECKS[check, backend](backend, given.seed)
        print(said(check, backend, given.seed, done))
        return 0 if done.sound else 1
    try:
        return 0 if repeat(chosen, given.minutes, given.rounds) else 1
    except KeyboardInterrupt:
        print(f"\ninterrupted; {TALLY.relative_to(ROOT)} holds what was finished")
        return 130


if __name__ == "__main__":
    sys.exit(main())
