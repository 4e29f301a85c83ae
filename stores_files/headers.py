"""run.json: what a run is, and what it reads of journals that it shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from stores_core.errors import CorruptRecordError
from stores_core.moving import KeyRecord
from stores_core.values import from_micros, micros
from stores_files.commits import EVENTS, MESSAGES

FORMAT = 2


class Range(NamedTuple):
    """The first ``length`` entries of a log.

    ``log`` is its id everywhere. ``journal`` is the file that holds it, as its ``kind`` of entries,
    and ``commit`` the offset of a commit there which brings the last of them, or a later one.
    """

    log: str
    journal: str
    kind: int
    commit: int
    length: int


@dataclass(slots=True)
class Header:
    """A run's header at rest. Times are microseconds since 1970.

    ``generation`` is another one for each run that bears the id. ``journal`` is the id of the
    run's own, which is there once the run wrote something. A batch in it that ends behind ``after``
    is a later change than ``updated``. ``imported`` says that nothing was
    written here since the run was imported, with the keys that came along.
    """

    id: str
    generation: str
    journal: str
    created: int
    updated: int
    labels: Mapping[str, str]
    after: int = 0
    parent: str = ""
    fork_point: int = 0
    imported: bool = False
    keys: Sequence[KeyRecord] = ()
    ranges: tuple[Sequence[Range], Sequence[Range]] = field(default=((), ()))
    """Of messages, and of events."""

    def base(self, kind: int) -> int:
        """How many entries come from other journals."""
        return sum(part.length for part in self.ranges[kind])


def as_json(header: Header) -> dict[str, Any]:
    """For people and programs to read: times as text, and nothing that says nothing."""
    fields: dict[str, Any] = {
        "run": header.id,
        "format": FORMAT,
        "generation": header.generation,
        "journal": header.journal,
        "createdAt": from_micros(header.created).isoformat(timespec="microseconds"),
        "updatedAt": from_micros(header.updated).isoformat(timespec="microseconds"),
        "labels": dict(header.labels),
    }
    if header.after:
        fields["after"] = header.after
    if header.parent or header.fork_point:
        fields |= {"parentId": header.parent, "forkPoint": header.fork_point}
    if header.imported:
        fields["imported"] = True
    if header.keys:
        fields["keys"] = [
            [key.key, key.digest, key.message_count, key.event_count] for key in header.keys
        ]
    for name, ranges in zip(("messages", "events"), header.ranges, strict=True):
        if ranges:
            fields[name] = [list(part) for part in ranges]
    return fields


def from_json(fields: Any) -> Header:
    """Raises CorruptRecordError."""
    try:
        if fields["format"] != FORMAT:
            raise ValueError("another format")
        return Header(
            id=str(fields["run"]),
            generation=str(fields["generation"]),
            journal=str(fields["journal"]),
            created=micros(datetime.fromisoformat(fields["createdAt"])),
            updated=micros(datetime.fromisoformat(fields["updatedAt"])),
            labels={str(key): str(value) for key, value in fields["labels"].items()},
            after=int(fields.get("after", 0)),
            parent=str(fields.get("parentId", "")),
            fork_point=int(fields.get("forkPoint", 0)),
            imported=bool(fields.get("imported", False)),
            keys=[
                KeyRecord(key=key, digest=digest, message_count=messages, event_count=events)
                for key, digest, messages, events in fields.get("keys", [])
            ],
            ranges=(_ranges(fields.get("messages", [])), _ranges(fields.get("events", []))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CorruptRecordError("a run.json does not say what it should; `verify` names it") from (
            error
        )


def _ranges(rows: Any) -> list[Range]:
    ranges: list[Range] = []
    for log, journal, kind, commit, length in rows:
        part = Range(str(log), str(journal), int(kind), int(commit), int(length))
        if part.kind not in (MESSAGES, EVENTS) or part.length <= 0 or part.commit <= 0:
            raise ValueError("no range")
        ranges.append(part)
    return ranges
