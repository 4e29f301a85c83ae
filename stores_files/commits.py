"""The line that ends each batch of a journal and makes it count.

A batch is the lines of its entries, messages first, and then this line, as in

    {"role":"user","text":"hi"}
    {"commit":{"log":"5f…","begin":96,"group":96,"at":1790000000000000,"messages":[0,1],
    "events":[0,0],"before":[0,0,0]},"sum":"9c1d02ab"}

(in one line). ``begin`` is the offset of the batch, ``group`` that of the write it was part of,
``at`` microseconds since 1970. ``messages`` and ``events`` are the position of the first one in
this journal and their number. ``before`` are the offsets of the latest commits before this one that
had messages, events, a key (0: none). ``key`` and ``digest`` are there with a key. The sum is the
CRC-32 of the entries' lines and of the commit up to the sum. The journal's name and the offset are
in it, so that an entry which looks like a commit, or one of another file, is never taken for one.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stores_core.codec import decode_json, encode_json

MESSAGES, EVENTS, KEYS = 0, 1, 2
"""The three chains of commits; the first two are the kinds of entries too."""

PREFIX = b'{"commit":'
_SUM = b',"sum":"'
_END = b'"}\n'
_SUM_BYTES = 8

_TEXT = rb'"(?:[^"\\]|\\.)*"'
_COUNT = rb"(\d{1,19})"
_FORM = re.compile(
    rb'\{"commit":\{"log":(%(text)b),"begin":%(count)b,"group":%(count)b,"at":(-?\d{1,19}),'
    rb'"messages":\[%(count)b,%(count)b\],"events":\[%(count)b,%(count)b\],'
    rb'"before":\[%(count)b,%(count)b,%(count)b\]'
    rb'(?:,"key":(%(text)b),"digest":(%(text)b))?\},"sum":"[0-9a-f]{8}"\}\n'
    % {b"text": _TEXT, b"count": _COUNT}
)
_HEAD = (
    b'{"log":%b,"begin":%d,"group":%d,"at":%d,"messages":[%d,%d],"events":[%d,%d],'
    b'"before":[%d,%d,%d]'
)
_KEY = b',"key":%b,"digest":%b}'

LONGEST = 8192
"""Bytes that a commit's line may have: a key of 512 bytes grows to at most six times that."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be written in one step. ``at`` is in microseconds since 1970."""

    messages: Sequence[bytes]
    events: Sequence[bytes]
    at: int
    key: str = ""
    digest: str = ""


class Commit(NamedTuple):
    """A batch that counts. ``offset`` is that of its line, ``end`` where the next batch begins."""

    offset: int
    end: int
    begin: int
    group: int
    at: int
    messages: tuple[int, int]
    events: tuple[int, int]
    before: tuple[int, int, int]
    key: str
    digest: str

    def first(self, kind: int) -> int:
        return (self.messages, self.events)[kind][0]

    def number(self, kind: int) -> int:
        return (self.messages, self.events)[kind][1]

    @property
    def entries(self) -> int:
        """How many of both kinds."""
        return self.messages[1] + self.events[1]

    def length(self, kind: int) -> int:
        """How many entries of a kind the journal has with this batch."""
        first, number = (self.messages, self.events)[kind]
        return first + number

    def chain(self) -> tuple[int, int, int]:
        """What the next commit's ``before`` will be."""
        messages, events, keys = self.before
        return (
            self.offset if self.messages[1] else messages,
            self.offset if self.events[1] else events,
            self.offset if self.key else keys,
        )


def written(
    log: str, batch: Batch, previous: "Commit | None", begin: int, group: int
) -> tuple[bytes, Commit]:
    """The lines of a batch that follows ``previous`` and will begin at this offset; its commit.

    Raises ValueError where it could not be read back.
    """
    entries = b"\n".join((*batch.messages, *batch.events, b""))
    messages = (previous.length(MESSAGES) if previous else 0, len(batch.messages))
    events = (previous.length(EVENTS) if previous else 0, len(batch.events))
    before = previous.chain() if previous else (0, 0, 0)
    numbers = (begin, group, batch.at, *messages, *events, *before)
    head = PREFIX + _HEAD % (encode_json(log), *numbers)
    head += _KEY % (encode_json(batch.key), encode_json(batch.digest)) if batch.key else b"}"
    total = zlib.crc32(head, zlib.crc32(entries))
    lines = b"%b%b%b%08x%b" % (entries, head, _SUM, total, _END)
    offset = begin + len(entries)
    if len(lines) - len(entries) > LONGEST:
        raise ValueError("the line of a commit is too long to be read back")
    return lines, Commit(
        offset=offset,
        end=begin + len(lines),
        begin=begin,
        group=group,
        at=batch.at,
        messages=messages,
        events=events,
        before=before,
        key=batch.key,
        digest=batch.digest if batch.key else "",
    )


def parsed(log: str, line: bytes, offset: int, *, anywhere: bool = False) -> Commit | None:
    """The commit that this line is, by its form; None where it is none of this journal's.

    One that cannot be where it stands is given only if it may stand ``anywhere``.
    """
    found = _FORM.fullmatch(line)
    if found is None or len(line) > LONGEST or found[1] != encode_json(log):
        return None
    begin, group, at, *counts = map(int, found.groups()[1:11])
    first_message, messages, first_event, events, *before = counts
    if not anywhere and not (0 < group <= begin <= offset and max(before) < begin):
        return None
    try:
        key, digest = ("" if text is None else decode_json(text) for text in found.groups()[11:13])
    except ValueError:  # damaged within
        return None
    return Commit(
        offset=offset,
        end=offset + len(line),
        begin=begin,
        group=group,
        at=at,
        messages=(first_message, messages),
        events=(first_event, events),
        before=(before[0], before[1], before[2]),
        key=key,
        digest=digest,
    )


def is_whole(entries: bytes | memoryview, line: bytes) -> bool:
    """Whether the sum in a commit's line is that of the entries before it and of the line."""
    split = len(line) - (_SUM_BYTES + len(_SUM) + len(_END))
    total = zlib.crc32(line[:split], zlib.crc32(entries))
    return line[split:] == b"%b%08x%b" % (_SUM, total, _END)
