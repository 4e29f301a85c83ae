"""The record of one call: what was sent, from when to when it was under way, what was answered."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

FOREVER = 2**62
"""When a call returned whose outcome is unknown: it may take effect at any later time."""

LIFE = "life"
"""The label that names one life of a run id: each create and each fork sends one of its own."""

LAST_LOOK = "last look"
"""The worker that reads every run once all others are done."""

Part = tuple[int, tuple[str, ...]]
"""Entries of a log in order, and the position of the first."""


class Outcome(StrEnum):
    """What the caller knows of a call once it is over."""

    OK = "ok"
    REFUSED = "refused"  # InvalidRequestError: nothing was applied
    FAILED = "failed"  # StoreUnavailableError: nothing was applied
    UNKNOWN = "unknown"  # OutcomeUnknownError, or the call was cancelled
    BROKEN = "broken"  # an error that nobody may see here


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a request said. A batch is named; its entries are the name, a stroke and the index."""

    life: str = ""
    new_run_id: str = ""
    at_message: int = 0
    batch: str = ""
    messages: int = 0
    events: int = 0
    key: str = ""
    expected: tuple[int | None, int | None] = (None, None)  # lengths: messages, events
    start: int = 0
    limit: int = 0
    label: str = ""
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a response said. ``done`` stands for created, applied and deleted.

    ``counts`` are the lengths of both logs, None for one that was not told. ``life``, ``labels``,
    ``parent_id`` and ``fork_point`` come from a header, the last two also from a fork.
    """

    found: bool
    done: bool = False
    conflict: bool = False
    counts: tuple[int | None, int | None] = (None, None)
    messages: Part | None = None
    events: Part | None = None
    life: str = ""
    labels: Mapping[str, int] = field(default_factory=dict[str, int])
    parent_id: str = ""
    fork_point: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call. Times are nanoseconds of the monotonic clock, which all processes share."""

    worker: str
    operation: str
    run_id: str
    called: int
    returned: int
    outcome: Outcome
    sent: Sent
    answer: Answer | None = None
    error: str = ""

    def __str__(self) -> str:
        said = {name: value for name, value in asdict(self.sent).items() if value}
        if said.get("expected") == (None, None):
            del said["expected"]
        if self.answer is None:
            became: str = self.error or self.outcome
        else:
            shown = asdict(self.answer)
            for log in ("messages", "events"):
                if shown[log] is not None:
                    start, entries = shown[log]
                    shown[log] = f"{len(entries)} from {start}"
            became = _spelled({name: value for name, value in shown.items() if value})
        until = "ever" if self.returned == FOREVER else f"{self.returned / 1e9:.9f}"
        return (
            f"[{self.called / 1e9:.9f} to {until}] worker {self.worker}: {self.operation} "
            f"{self.run_id} {_spelled(said)} -> {became}"
        )


def _spelled(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in fields.items())


def write(records: Iterable[Record], path: Path) -> None:
    """A line of JSON for each record."""
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(asdict(record)) + "\n")


def read(path: Path) -> Iterator[Record]:
    """The records that `write` wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            fields: dict[str, Any] = json.loads(line)
            sent, answer = fields["sent"], fields["answer"]
            sent["expected"] = tuple(sent["expected"])
            if answer is not None:
                answer["counts"] = tuple(answer["counts"])
                answer["messages"] = _part(answer["messages"])
                answer["events"] = _part(answer["events"])
            fields["outcome"] = Outcome(fields["outcome"])
            fields["sent"] = Sent(**sent)
            fields["answer"] = None if answer is None else Answer(**answer)
            yield Record(**fields)


def _part(value: object) -> Part | None:
    if value is None:
        return None
    start, entries = cast("tuple[int, list[str]]", value)
    return start, tuple(entries)
