"""The tally of proofs, docs/proof.json, and docs/proof.md, the page that is made of it.

A row stands for one check, backend, commit and Python. Its first round had the seed ``seed``, each
further one the seed plus the rounds before it, so each can be played again. (The first row of all
was written before seeds were kept: there it is null.) Every figure that this project claims of many
rounds comes from here: ``python -m tests.tally --check`` exits with 1 if the page says otherwise.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
TALLY = DOCS / "proof.json"

MEANINGS = {
    "suite": ("the whole suite, in random order", "runs", "checks that passed"),
    "quick": ("the quick profile, in random order", "runs", "checks that passed"),
    "random": ("sequences at random against the oracle", "runs", "checks that passed"),
    "histories": (
        "tasks and processes at once, every call recorded and checked",
        "runs",
        "operations that fit",
    ),
    "kills": (
        "SIGKILL of a writing process at any moment",
        "kills",
        "acknowledged operations found again",
    ),
    "calls killed": (
        "SIGKILL at each system call that changes files",
        "kills",
        "kills after which all was as it was told",
    ),
    "calls failing": (
        "EIO from each system call that changes or reads files",
        "errors",
        "errors after which all was as it was told",
    ),
    "calls without space": (
        "no space from each system call on that takes some",
        "full disks",
        "full disks after which all was as it was told, and went on",
    ),
    "limits": (
        "no file of the process may grow beyond a byte",
        "limits",
        "limits after which all was as it was told, and went on",
    ),
    "power cuts": (
        "the power fails, and the disk holds any of what it may by the calls that were recorded",
        "states",
        "states in which all was as it was told, and went on",
    ),
    "server kills": (
        "SIGKILL of the server at any moment",
        "kills",
        "acknowledged operations found again",
    ),
    "cuts": (
        "the connection to the server cut at a byte of a reply",
        "cuts",
        "cuts after which all was as it was told",
    ),
    "failovers": (
        "SIGKILL of the primary, whose replica takes over",
        "failovers",
        "acknowledged operations found again",
    ),
}
"""What a check is, what a round of it is called, and what ``passed`` counts."""


@dataclass
class Row:
    """What came of all rounds of one check on one backend, at one commit with one Python."""

    check: str
    backend: str
    commit: str
    python: str
    seed: int | None
    first: str
    last: str = ""
    rounds: int = 0
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    failing_seeds: list[int] = field(default_factory=list[int])
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the last whole run of the suite said; ``report_of`` makes it."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.check, self.backend, self.commit, self.python

    @property
    def next_seed(self) -> int:
        return (self.seed or 0) + self.rounds


@dataclass(frozen=True)
class Round:
    """What one round came to. ``count`` is more than 1 where a round is a series, as of kills."""

    passed: int
    failed: int
    seconds: float
    sound: bool
    count: int = 1
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def read(tally: Path = TALLY) -> list[Row]:
    held: list[dict[str, Any]] = json.loads(tally.read_text("utf-8")) if tally.exists() else []
    return [Row(**row) for row in held]


def row_for(new: Row, rows: Iterable[Row]) -> Row:
    """The row of this identity that is there, or ``new``."""
    return next((row for row in rows if row.identity == new.identity), new)


def add(done: Round, new: Row, tally: Path = TALLY) -> Row:
    """Count a round in the row of this identity; each file is replaced in one step."""
    rows = read(tally)
    row = row_for(new, rows)
    if row is new:
        rows.append(row)
    if not done.sound:
        row.failing_seeds.append(row.next_seed)
    row.report = done.report
    row.last = now()
    row.rounds += done.count
    row.passed += done.passed
    row.failed += done.failed
    row.seconds = round(row.seconds + done.seconds, 1)
    _replace(tally, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    _replace(tally.with_suffix(".md"), page(rows))
    return row


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, "utf-8")
    part.replace(path)


def page(rows: Iterable[Row]) -> str:
    """docs/proof.md."""
    by_check: dict[str, list[Row]] = {}
    for row in rows:
        by_check.setdefault(row.check, []).append(row)
    parts = [_HEAD]
    for check in [name for name in MEANINGS if name in by_check]:
        what, rounds, passed = MEANINGS[check]
        parts += [
            f"## {check.capitalize()}: {what}",
            "",
            f"| backend | {rounds} | {passed} | failed | minutes | commit | Python | last on |",
            "| --- | ---: | ---: | ---: | ---: | --- | --- | --- |",
        ]
        ordered = sorted(by_check[check], key=lambda row: row.last)
        parts += [_line(row) for row in sorted(ordered, key=lambda row: row.backend)]
        parts += ["", *_failures(ordered)]
    parts += _reports(by_check.get("suite", ()))
    return "\n".join(parts).rstrip() + "\n"


_HEAD = """\
# Proof

What was run over and over, and what came of it. This page is made of [proof.json](proof.json), to
which `make prove` adds; nothing here is written by hand. A commit with a `+` had changes beside it.
Rows of older commits stay: they say what was found then, failures too.
"""


def report_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says of a verdict of the suite (``conformance_tests.report.as_json``)."""
    return {
        "sentence": told["sentence"],
        "durability": told["backend"]["durability"],
        "versions": told["backend"]["versions"],
        "amid": told["amid"],
        "tiers": {
            f"{name}, {tier['what']}": [tier["passed"], tier["left out"], tier["why"]]
            for name, tier in told["tiers"].items()
        },
        "unproved": {
            one["number"]: one["not_shown"] for one in told["guarantees"] if one["not_shown"]
        },
    }


def _reports(rows: Iterable[Row]) -> list[str]:
    """What the last whole run of the suite said of each backend."""
    last: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.last):
        if row.report:
            last[row.backend] = row
    if not last:
        return []
    parts = ["## Reports: the verdict of the last whole run of the suite", ""]
    for backend, row in sorted(last.items()):
        report, amid = row.report, row.report["amid"]
        versions = ", ".join(f"{name} {text}" for name, text in report["versions"].items())
        parts += [
            f"### {backend}",
            "",
            f"At `{row.commit}` with Python {row.python}{versions and f', {versions}'}; durability "
            f"{report['durability']}. {report['sentence'].capitalize()}, of which "
            f"{amid['others']} amid other writers and {amid['faults']} amid faults.",
            "",
            "| tier | checks that passed | left out | because |",
            "| --- | ---: | ---: | --- |",
        ]
        parts += [
            f"| {tier} | {passed:,} | {left_out:,} | {'; '.join(why)} |"
            for tier, (passed, left_out, why) in report["tiers"].items()
        ]
        parts += ["", "Not shown by it:", ""]
        parts += [f"- {number}: {what}" for number, what in report["unproved"].items()]
        parts.append("")
    return parts


def _line(row: Row) -> str:
    figures = f"{row.rounds:,} | {row.passed:,} | {row.failed:,} | {row.seconds / 60:.0f}"
    day = row.last.partition("T")[0]
    return f"| {row.backend} | {figures} | `{row.commit}` | {row.python} | {day} |"


def _failures(rows: Iterable[Row]) -> list[str]:
    lines = [
        f"- {row.backend} at `{row.commit}` with the seeds "
        f"{', '.join(str(seed) for seed in row.failing_seeds)}"
        for row in rows
        if row.failing_seeds
    ]
    return ["Not sound:", "", *lines, ""] if lines else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tally", description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write docs/proof.md")
    choice.add_argument("--check", action="store_true", help="is it what the tally says?")
    path, text = TALLY.with_suffix(".md"), page(read())
    if parser.parse_args().write:
        _replace(path, text)
        return 0
    if path.exists() and path.read_text("utf-8") == text:
        return 0
    print("docs/proof.md is out of date: python -m tests.tally --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
