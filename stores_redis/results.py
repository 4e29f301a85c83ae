"""Tool results as they are stored, and every step that reads or writes them.

A result is a header and a list of parts: its text in pieces of equal length, so that a slice is
found by counting, then the rest of it. A header bears a token that no other put has, so parts that
were read between two looks at the same header belong to it.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from heapq import merge
from typing import NamedTuple

from stores_core.codec import decode_json, encode, encode_json
from stores_core.errors import CorruptRecordError, StoreUnavailableError
from stores_core.limits import MIB
from stores_core.tool_results import ToolResult, ToolResultInfo
from stores_core.tool_text import join, split
from stores_core.values import from_micros, micros
from stores_redis.keys import Bucket, filter_name
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

PART_CHARACTERS = 1 << 16
REST_BYTES = 256 * 1024

GIVEN_BYTES = 512 * 1024
"""A larger result is staged before the script that puts it."""

STAGED_SECONDS = 3_600
READ_PARTS = 64
LOOKED_AT = 2_000
HEADER_BYTES = 2 * MIB

_PUT = Script("results_put")
_REMOVE = Script("results_remove")
_PAGE = Script("results_page")

_TRIES = 10
_NEWEST = 10**18 - 1 - 10**17  # ages of the years 1 to 9999 are positive and have 18 digits


def age_text(created: int) -> str:
    """Microseconds as 18 digits that sort the other way round."""
    return f"{_NEWEST - created:018d}"


class Header(NamedTuple):
    """What is known of a result without its parts. ``text`` is the header as it is stored."""

    ref: str
    age: str
    size: int
    characters: int
    text_parts: int
    parts: int
    labels: dict[str, str]
    text: bytes

    @classmethod
    def read(cls, ref: str, text: bytes) -> "Header":
        """A header as a script gives it. Raises CorruptRecordError."""
        try:
            head, _, labels = text.partition(b"\n")
            age, size, characters, _, text_parts, parts, _ = head.split(b" ")
            held: dict[str, str] = decode_json(labels)
            return cls(
                ref, age.decode(), int(size), int(characters), int(text_parts), int(parts), held,
                text,
            )  # fmt: skip
        except ValueError as error:
            raise CorruptRecordError(store="tool_results", id=ref) from error

    @property
    def created(self) -> datetime:
        return from_micros(_NEWEST - int(self.age))

    @property
    def place(self) -> str:
        return self.age + self.ref

    def info(self) -> ToolResultInfo:
        return ToolResultInfo(
            ref=self.ref,
            created_at=self.created,
            labels=self.labels,
            bytes=self.size,
            characters=self.characters,
        )


class NewResult(NamedTuple):
    """A result on its way in, already taken apart."""

    ref: str
    header: bytes
    names: Sequence[str]
    parts: Sequence[bytes]

    @classmethod
    def of(
        cls, ref: str, created: datetime, labels: Mapping[str, str], result: ToolResult
    ) -> "NewResult":
        text, rest = split(result)
        parts = [
            text[start : start + PART_CHARACTERS].encode()
            for start in range(0, len(text), PART_CHARACTERS)
        ]
        text_parts = len(parts)
        parts += [rest[start : start + REST_BYTES] for start in range(0, len(rest), REST_BYTES)]
        names = [filter_name(key, value) for key, value in labels.items()]
        head = (
            age_text(micros(created)), len(encode(result)), len(text), secrets.token_hex(8),
            text_parts, len(parts), ",".join(names) or "-",
        )  # fmt: skip
        header = " ".join(map(str, head)).encode() + b"\n" + encode_json(dict(labels))
        return cls(ref, header, names, parts)


class Results:
    """The tool results of a tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant

    async def put(self, new: NewResult) -> None:
        """Put a result, in place of one of that ref."""
        bucket, token = self.tenant.home(new.ref), secrets.token_hex(8)
        stages = sum(map(len, new.parts)) > GIVEN_BYTES
        keys = (*_of_ref(bucket, new.ref), bucket.staged_result(token))
        args: Sequence[Arg] = (
            new.ref, new.header, len(new.parts) if stages else 0, len(new.names), *new.names,
            *(() if stages else new.parts),
        )  # fmt: skip
        for _ in range(_TRIES):
            if stages:
                await self._stage(bucket.staged_result(token), new.parts)
            reply = await self.tenant.run(_PUT, keys, args, writes=True)
            if reply[0] == b"ok":
                return
        raise StoreUnavailableError(
            "what was sent of a large result did not stay until it could be put; nothing was "
            "applied"
        )

    async def _stage(self, key: bytes, parts: Sequence[bytes]) -> None:
        # From its first byte on it ends by itself. It is not made anew where it has ended already.
        begin: list[Sequence[Arg]] = [
            ("UNLINK", key),
            ("MULTI",),
            ("RPUSH", key, parts[0]),
            ("EXPIRE", key, STAGED_SECONDS),
            ("EXEC",),
        ]
        await self.tenant.stage_many([*begin, *(("RPUSHX", key, part) for part in parts[1:])])

    async def remove(self, ref: str, age: str = "") -> bool:
        """Take a result away, of that age if one is given; whether it was there."""
        bucket = self.tenant.home(ref)
        reply = await self.tenant.run(_REMOVE, _of_ref(bucket, ref), (ref, age), writes=True)
        return reply[0] == b"1"

    async def find(self, ref: str) -> Header | None:
        header = await self.tenant.read("HGET", self.tenant.home(ref).results(), ref)
        return Header.read(ref, header) if header else None

    async def read(self, ref: str, first: int, last: int) -> tuple[Header, list[bytes]] | None:
        """The header, and the parts ``first`` to ``last`` of that very result."""
        bucket = self.tenant.home(ref)
        while True:
            look = ("HGET", bucket.results(), ref)
            parts = ("LRANGE", bucket.result(ref), first, last)
            header, found, after = await self.tenant.read_many([look, parts, look])
            if header == after:
                return (Header.read(ref, header), found) if header else None

    async def whole(self, ref: str) -> tuple[Header, str, bytes] | None:
        """The header, the text and the rest. Raises CorruptRecordError where a part is missing."""
        while True:
            begun = await self.read(ref, 0, READ_PARTS - 1)
            if begun is None:
                return None
            header, parts = begun
            while 0 < len(parts) < header.parts:
                more = await self.read(ref, len(parts), len(parts) + READ_PARTS - 1)
                if more is None or more[0].text != header.text or not more[1]:
                    break
                parts += more[1]
            else:
                return header, *_taken_apart(header, parts)
            if more is not None and more[0].text == header.text:
                raise CorruptRecordError(store="tool_results", id=ref)

    async def page(
        self, bucket: Bucket, after: str, limit: int, most: int, names: Collection[str] = ()
    ) -> tuple[list[Header], str]:
        """Up to ``limit`` headers behind a place, and the place to go on from ("" at the end).

        Up to ``most`` are looked at, and about 2,000 at most where there are ``names``.
        """
        keys = bucket.results(), bucket.result_order(), bucket.result_labels()
        found: list[Header] = []
        while True:
            args = (after, limit - len(found), min(most, LOOKED_AT), HEADER_BYTES, *names)
            reply = await self.tenant.run(_PAGE, keys, args, writes=False)
            after, looked = reply[0].decode(), int(reply[1])
            found += [
                Header.read(ref.decode(), text)
                for ref, text in zip(reply[2::2], reply[3::2], strict=True)
            ]
            most -= looked
            if not after or len(found) >= limit or most <= 0 or names:
                return found, after


def result_of(header: Header, text: str, rest: bytes) -> ToolResult:
    """The whole result. Raises CorruptRecordError."""
    return join(text, rest, ref=header.ref)


def text_of(header: Header, parts: Sequence[bytes]) -> str:
    """Text of these parts. Raises CorruptRecordError."""
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(store="tool_results", id=header.ref) from error


def _taken_apart(header: Header, parts: Sequence[bytes]) -> tuple[str, bytes]:
    if len(parts) != header.parts:
        raise CorruptRecordError(store="tool_results", id=header.ref)
    text = text_of(header, parts[: header.text_parts])
    return text, b"".join(parts[header.text_parts :])


def _of_ref(bucket: Bucket, ref: str) -> tuple[bytes, ...]:
    return (
        bucket.results(), bucket.result_order(), bucket.result_labels(), bucket.result_bytes(),
        bucket.result(ref),
    )  # fmt: skip


def merged(pages: list[tuple[list[Header], str]], limit: int) -> tuple[list[Header], str]:
    """One page of those of all buckets, and the place to go on from ("" at the end).

    What lies behind the place where a bucket's page ended is not known yet, so nothing behind the
    first such place is given.
    """
    ends = [position for _, position in pages if position]
    headers = merge(*(page for page, _ in pages), key=lambda header: header.place.encode())
    found = [
        header for header in headers if not ends or header.place.encode() <= min(ends).encode()
    ]
    if len(found) > limit:
        return found[:limit], found[limit - 1].place
    return found, min(ends, default="")
