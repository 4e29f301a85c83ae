"""What an import did with each file: taken, kept beside, left out, damaged, and why."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What became of one run."""

    CREATED = "created"
    GROWN = "grown"
    """It stood there as an earlier import had left it, and got what is new."""
    SAME = "same"
    """All of it stands there already; the run may have gone on since."""
    PARTED = "parted"
    """What stands there begins alike and goes on otherwise: a fork holds this session."""
    CONFLICT = "conflict"
    """Something else stands at the id; it was left alone."""
    READ = "read"
    """Read and counted only, as a dry run does."""


@dataclass(frozen=True)
class Damage:
    """A record that could not be read. ``at`` is a line from 1 on, or a place like "row 7"."""

    at: str
    why: str


@dataclass
class Written:
    """One run, or with an empty ``run_id`` the notes and tool results of a file."""

    run_id: str
    outcome: Outcome
    messages: int = 0
    events: int = 0
    parent_id: str = ""
    fork_point: int = 0
    why: str = ""


@dataclass
class FileReport:
    """The account of one file or database.

    ``records`` counts what the reader was shown. Each of them is in at least one of ``taken``
    (became a message, an event, a note or a result), ``folded`` (kept inside one of these),
    ``left_out`` or ``damaged``. ``changed`` counts values that no store can hold as they were.
    ``named`` says that somebody named the file, rather than a folder above it.
    """

    name: str
    named: bool = True
    format: str = ""
    records: int = 0
    taken: int = 0
    folded: int = 0
    left_out: Counter[str] = field(default_factory=Counter[str])
    changed: Counter[str] = field(default_factory=Counter[str])
    damaged: list[Damage] = field(default_factory=list[Damage])
    extra_fields: int = 0
    messages: int = 0
    events: int = 0
    notes: int = 0
    results: int = 0
    runs: list[Written] = field(default_factory=list[Written])
    refused: str = ""

    @property
    def marks(self) -> int:
        """Grows with each thing said about a record."""
        return self.taken + self.folded + self.left_out.total() + len(self.damaged)

    @property
    def fine(self) -> bool:
        """Whether all that is there was read and stands in the store. Other files in a folder of
        sessions are none of its faults."""
        conflicts = any(run.outcome is Outcome.CONFLICT for run in self.runs)
        refused = self.refused and (self.named or self.format)
        return not (self.damaged or refused or conflicts)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.name,
            "format": self.format,
            "refused": self.refused,
            "records": self.records,
            "taken": self.taken,
            "folded": self.folded,
            "leftOut": dict(self.left_out),
            "changed": dict(self.changed),
            "damaged": [{"at": damage.at, "why": damage.why} for damage in self.damaged],
            "extraFields": self.extra_fields,
            "messages": self.messages,
            "events": self.events,
            "notes": self.notes,
            "results": self.results,
            "runs": [
                {
                    "runId": run.run_id,
                    "outcome": run.outcome.value,
                    "messages": run.messages,
                    "events": run.events,
                    "parentId": run.parent_id,
                    "forkPoint": run.fork_point,
                    "why": run.why,
                }
                for run in self.runs
            ],
        }


@dataclass
class Report:
    """The account of a whole import."""

    files: list[FileReport] = field(default_factory=list[FileReport])

    @property
    def fine(self) -> bool:
        return all(file.fine for file in self.files)

    def outcomes(self) -> Counter[str]:
        """How many runs had which outcome."""
        return Counter(run.outcome.value for file in self.files for run in file.runs)

    def as_json(self) -> dict[str, Any]:
        return {"runs": dict(self.outcomes()), "files": [file.as_json() for file in self.files]}

    def lines(self) -> list[str]:
        """The account for a reader: a line per file, then what needs attention below it."""
        return [line for file in self.files for line in _file_lines(file)]


def _file_lines(file: FileReport) -> list[str]:
    if file.refused:
        return [f"{file.name}: {file.refused}"]
    counts = Counter(run.outcome.value for run in file.runs)
    runs = ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "none"
    kept = [f"{file.messages} messages", f"{file.events} events"]
    kept += [f"{file.notes} notes"] if file.notes else []
    kept += [f"{file.results} tool results"] if file.results else []
    kept += [f"{file.extra_fields} with further fields"] if file.extra_fields else []
    lines = [f"{file.name} ({file.format}): {', '.join(kept)}; runs: {runs}"]
    lines += [f"  left out {number}: {why}" for why, number in sorted(file.left_out.items())]
    lines += [f"  changed {number}: {what}" for what, number in sorted(file.changed.items())]
    lines += [f"  damaged at {damage.at}: {damage.why}" for damage in file.damaged]
    lines += [
        f"  {run.run_id}: from message {run.fork_point} on another talk than {run.parent_id}"
        for run in file.runs
        if run.outcome is Outcome.PARTED
    ]
    lines += [f"  {_called(run)}{run.why}" for run in file.runs if run.why]
    return lines


def _called(run: Written) -> str:
    return f"{run.run_id}: {run.outcome}, " if run.run_id else f"{run.outcome}, "
