"""Repeats the suite with a new seed each time and keeps the tally in docs/proof.json.

``python -m tests.prove --minutes 60``; without ``--minutes`` it goes on until it is interrupted. A
seed gives the order of the checks, where their random sequences start, and Python's hashes. The
tally has one row for each check, commit, backend and Python: rounds, checks that passed and failed,
seconds, and the seed of every round that was not conformant; ``python -m tests.prove --seed SEED``
plays one again and counts nothing. A round that was cut off is not counted.

``python -m tests.prove --kills 1000`` kills writers of SQLite files instead (tests/sqlite_kill.py).
Its row has check "kills": a round is a kill, what passed is an operation that was acknowledged and
found again, what failed is a fault.
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
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TALLY = ROOT / "docs" / "proof.json"


@dataclass
class Row:
    """What came of all rounds of one commit on one backend with one Python."""

    check: str
    commit: str
    backend: str
    python: str
    first: str
    last: str = ""
    rounds: int = 0
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    failing_seeds: list[int] = field(default_factory=list[int])

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.check, self.commit, self.backend, self.python


@dataclass(frozen=True)
class Round:
    """One run of the suite, or one series of kills."""

    seed: int
    conformant: bool
    passed: int
    failed: int
    seconds: float
    rounds: int = 1


def commit() -> str:
    """The commit, with "+" behind it when the working tree holds changes beside the tally."""

    def git(*arguments: str) -> str:
        ran = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
        )
        return ran.stdout.strip() if ran.returncode == 0 else ""

    changes = git("status", "--porcelain", "--", ".", f":!{TALLY.relative_to(ROOT)}")
    return (git("rev-parse", "--short=12", "HEAD") or "none") + ("+" if changes else "")


def once(url: str, seed: int) -> Round:
    """One run of the suite in a process of its own. Exits where it gives no verdict."""
    order = ["--seed", str(seed), "-p", "tests.shuffled", f"--shuffle={seed}"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "verdict.json"
        started = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-m", "conformance_tests", "--url", url, "--json", report, *order],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        seconds = time.monotonic() - started
        verdict: dict[str, Any] = json.loads(report.read_text("utf-8")) if report.exists() else {}
    if ran.returncode:
        print(ran.stdout)
    if "checks" not in verdict:
        sys.exit(f"the suite gave no verdict with seed {seed}")
    conformant = verdict["conformant"] is True and ran.returncode == 0
    counts = verdict["checks"]
    return Round(seed, conformant, counts["passed"], counts["failed"], seconds)


def add(done: Round, new: Row, tally: Path = TALLY) -> Row:
    """Count a round in the row of this identity; the file is replaced in one step."""
    held: list[dict[str, Any]] = json.loads(tally.read_text("utf-8")) if tally.exists() else []
    rows = [Row(**row) for row in held]
    row = next((row for row in rows if row.identity == new.identity), new)
    if row is new:
        rows.append(row)
    row.last = now()
    row.rounds += done.rounds
    row.passed += done.passed
    row.failed += done.failed
    row.seconds = round(row.seconds + done.seconds, 1)
    if not done.conformant:
        row.failing_seeds.append(done.seed)
    part = tally.with_suffix(".part")
    part.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
    part.replace(tally)
    return row


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def repeat(url: str, minutes: float | None) -> bool:
    """Rounds until the time is over; whether all of them were conformant."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    backend = url.partition(":")[0]  # the rest may hold a password
    sound = True
    while end is None or time.monotonic() < end:
        row = Row("suite", commit(), backend, platform.python_version(), now())
        done = once(url, secrets.randbelow(2**32))
        row = add(done, row)
        sound = sound and done.conformant
        print(f"{said(done)}; {row.rounds} rounds, {row.passed:,} checks passed", flush=True)
    return sound


def kill(kills: int, seed: int) -> Round:
    """A series of kills in a process of its own. Exits where it tells nothing."""
    started = time.monotonic()
    command = ["-m", "tests.sqlite_kill", "--kills", str(kills), "--seed", str(seed)]
    ran = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    lines = ran.stdout.splitlines()
    if not lines:
        sys.exit(f"the kills with seed {seed} told nothing:\n{ran.stderr}")
    told: dict[str, Any] = json.loads(lines[-1])
    return Round(
        seed,
        conformant=ran.returncode == 0,
        passed=told["acknowledged"],
        failed=len(told["faults"]),
        seconds=time.monotonic() - started,
        rounds=told["kills"],
    )


def said(done: Round) -> str:
    word = "conformant" if done.conformant else "NOT CONFORMANT"
    counts = f"{done.passed} passed, {done.failed} failed"
    return f"seed {done.seed}: {word}, {counts}, {done.seconds:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--url", default="memory:conformance")
    parser.add_argument("--minutes", type=float, help="how long; without it, until interrupted")
    parser.add_argument("--seed", type=int, help="one round with this seed, not counted")
    parser.add_argument("--kills", type=int, help="so many kills of SQLite writers, counted")
    given = parser.parse_args()
    if given.kills is not None:
        new = Row("kills", commit(), "sqlite", platform.python_version(), now())
        done = kill(given.kills, secrets.randbelow(2**32) if given.seed is None else given.seed)
        row = add(done, new)
        print(f"{said(done)}; {row.rounds:,} kills, {row.passed:,} acknowledged operations")
        return 0 if done.conformant else 1
    if given.seed is not None:
        done = once(given.url, given.seed)
        print(said(done))
        return 0 if done.conformant else 1
    try:
        return 0 if repeat(given.url, given.minutes) else 1
    except KeyboardInterrupt:
        print(f"\ninterrupted; {TALLY.relative_to(ROOT)} holds what was finished")
        return 130


if __name__ == "__main__":
    sys.exit(main())
