"""Headers of runs in Redis: reading one, and what the scripts that change one are given."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stores_core.errors import CorruptRecordError
from stores_core.runs import RunInfo
from stores_core.shape import EPOCH, replaced
from stores_core.values import from_micros
from stores_redis.keys import Place, filter_name
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

MESSAGES, EVENTS = "m", "e"

_NAME_LENGTH = len(filter_name("", ""))
_NO_RUN = RunInfo(id="-", created_at=EPOCH, updated_at=EPOCH)


@dataclass(frozen=True, slots=True)
class StoredView:
    """What a run sees of one of its logs: closed ranges, then its own log from ``start`` on."""

    count: int
    ranges: str
    log: str
    start: int

    def all_ranges(self) -> list[tuple[str, int]]:
        """Logs, as named in keys, and the lengths of their prefixes."""
        words = self.ranges.split()
        closed = [(log, int(length)) for log, length in zip(words[::2], words[1::2], strict=True)]
        return [*closed, (self.log, self.count - self.start)] if self.log else closed


class StoredRun(NamedTuple):
    """A run's header. ``token`` is new with each run that bears the id, ``joined`` counts how often
    its ranges were replaced; while both stay, what lies below the counts does too."""

    id: str
    token: bytes
    joined: bytes
    created: int
    updated: int
    parent: str
    fork_point: int
    keys: int
    imported: bool
    labels: Mapping[str, str]
    messages: StoredView
    events: StoredView

    def info(self) -> RunInfo:
        """The header as it is handed out."""
        # Not checked again: a listing would spend most of its time on that.
        fields = {
            "id": self.id,
            "parent_id": self.parent,
            "fork_point": self.fork_point,
            "created_at": from_micros(self.created),
            "updated_at": from_micros(self.updated),
            "labels": self.labels,
            "message_count": self.messages.count,
            "event_count": self.events.count,
        }
        return replaced(_NO_RUN, fields)


def stored_run(id: str, flat: Sequence[bytes]) -> StoredRun:
    """A header from its fields and values. Raises CorruptRecordError."""
    try:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        labels = _labels(fields)
        return StoredRun(
            id=id,
            token=fields[b"token"],
            joined=fields.get(b"joined", b""),
            created=int(fields[b"created"]),
            updated=int(fields[b"updated"]),
            parent=fields.get(b"parent", b"").decode(),
            fork_point=int(fields.get(b"fork", 0)),
            keys=int(fields.get(b"keys", 0)),
            imported=bool(fields.get(b"imported")),
            labels=labels,
            messages=_view(fields, b"m."),
            events=_view(fields, b"e."),
        )
    except (KeyError, ValueError) as error:
        raise CorruptRecordError(store="runs", id=id) from error


def _labels(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """The labels, in the order in which they were given."""
    found: list[tuple[int, str, str]] = []
    for name, stored in fields.items():
        if name.startswith(b":"):
            place, _, value = stored[_NAME_LENGTH:].partition(b" ")
            found.append((int(place), name[1:].decode(), value.decode()))
    return {name: value for _, name, value in sorted(found)}


def _view(fields: Mapping[bytes, bytes], kind: bytes) -> StoredView:
    return StoredView(
        count=int(fields[kind + b"count"]),
        ranges=fields.get(kind + b"ranges", b"").decode(),
        log=fields.get(kind + b"log", b"").decode(),
        start=int(fields.get(kind + b"start") or 0),
    )


def new_token() -> str:
    """What tells a run, a log or a staged segment from all others."""
    return secrets.token_hex(16)


def label_args(labels: Iterable[tuple[str, str | None]]) -> list[Arg]:
    """Labels as scripts take them: key, name of the index, value; none of both to remove one."""
    args: list[Arg] = []
    for key, value in labels:
        args += (key, "" if value is None else filter_name(key, value), value or "")
    return args


def expected_arg(length: int | None) -> Arg:
    """A length that is expected, or none."""
    return "" if length is None else length


_READ = Script("read_run")

ALL, NONE = (0, -1), (0, 0)
"""Which entries are wanted: the first, and how many at most."""

Wanted = tuple[int, int]


Row = tuple[bytes, int, int]
"""Entries in one segment: its name, the first, the last + 1."""


class Found(NamedTuple):
    """A header, where the entries lie that were wanted, and those that came along, behind these."""

    run: StoredRun
    message_rows: list[Row]
    messages: list[bytes]
    event_rows: list[Row]
    events: list[bytes]


async def find(
    tenant: Tenant,
    place: Place,
    messages: Wanted = NONE,
    events: Wanted = NONE,
    *,
    entries: bool = False,
) -> Found | None:
    """The run that lies there, if one does, at one instant; with ``entries`` the last few come."""
    args = (place.bucket.tag, *messages, *events, int(entries))
    reply = await tenant.run(_READ, [place.run], args, writes=False)
    if not reply:
        return None
    flat, message_rows, message_texts, event_rows, event_texts = reply
    return Found(
        stored_run(place.id, flat),
        rows_of(message_rows),
        message_texts,
        rows_of(event_rows),
        event_texts,
    )


def rows_of(flat: Sequence[bytes]) -> list[Row]:
    """Rows from a script's reply."""
    return [
        (name, int(first), int(stop))
        for name, first, stop in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    ]
