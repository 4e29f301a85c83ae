"""Entries of logs in Redis: reading them by rows, staging a batch, appending it.

A log is segments of at most some MiB, so no command holds the server up. What a script once told of
a run (its rows) holds while the run's token and its count of joins stay; both are read again behind
the entries, on the same connection.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from stores_core.errors import CorruptRecordError, StoreError, StoreUnavailableError
from stores_core.limits import MIB
from stores_redis.keys import Bucket, Place
from stores_redis.run_rows import Row, StoredRun, new_token
from stores_redis.scripts import UNPACKED, Arg
from stores_redis.storage import Command, Tenant

PIECE_BYTES = MIB
"""Larger batches are staged, in pieces of this size: the server takes some ms for one."""

PART_BYTES = MIB // 4
"""A large entry is cut into parts of this size. The server frees a list of many in the background,
while one of a few is freed by whoever removes it."""

PARTS_AT_ONCE = 8
"""So many parts one command takes."""

ROWS_AT_ONCE = 16
"""So many segments are asked for in one go."""

SENT_BYTES = 8 * MIB
"""So much is staged in one go."""


TRIES = 20
"""So often something is tried that others undo."""


class RunChangedError(Exception):
    """The run was deleted, created anew or joined while it was read: look again."""


async def read_entries(
    tenant: Tenant,
    place: Place,
    run: StoredRun | None,
    rows: Sequence[Row],
    *,
    ahead: int = ROWS_AT_ONCE,
    enough: int | None = None,
    refuse: Callable[[Sequence[int]], None] | None = None,
) -> list[list[bytes]]:
    """The entries of each row, in order; fewer rows once ``enough`` bytes were read.

    ``ahead`` rows are asked for first, then twice as many each time; ``refuse`` is shown the bytes
    of those that were read. Raises CorruptRecordError where ``run`` stands unchanged and entries
    are missing, else RunChangedError.
    """
    parts: list[list[bytes]] = []
    sizes: list[int] = []
    check: list[Command] = []
    if run is not None:
        check.append((b"HMGET", place.run, b"token", b"joined"))
    while len(parts) < len(rows) and (enough is None or sum(sizes) < enough):
        asked = rows[len(parts) : len(parts) + ahead]
        reads = [_reads_of(place.bucket, row) for row in asked]
        found = await tenant.read_many([*chain.from_iterable(reads), *check])
        if run is not None and found.pop() != [run.token, run.joined or None]:
            raise RunChangedError
        answers = iter(found)
        for (name, first, stop), commands in zip(asked, reads, strict=True):
            texts = list(chain.from_iterable(islice(answers, len(commands))))
            if len(texts) != (parts_in(name) or stop - first):
                raise CorruptRecordError(store="runs", id=run.id) if run else RunChangedError
            if parts_in(name):
                texts = [b"".join(texts)]
            parts.append(texts)
            sizes.append(sum(map(len, texts)))
        if refuse is not None:
            refuse(sizes)
        ahead = min(2 * ahead, ROWS_AT_ONCE)
    return parts


def _reads_of(bucket: Bucket, row: Row) -> list[Command]:
    """The commands that read a row."""
    name, first, stop = row
    key = bucket.tag + b"seg:" + name
    if not parts_in(name):
        return [(b"LRANGE", key, first, stop - 1)]
    return [(b"LRANGE", key, begin, end - 1) for begin, end in part_spans(parts_in(name))]


def parts_in(segment: bytes) -> int:
    """Into how many parts a segment's one entry is cut; 0 where each entry is whole."""
    return int(segment.rpartition(b"!")[2]) if b"!" in segment else 0


def part_spans(parts: int) -> list[tuple[int, int]]:
    """The first part and the last + 1 of what each command takes."""
    starts = range(0, parts, PARTS_AT_ONCE)
    return [(start, min(start + PARTS_AT_ONCE, parts)) for start in starts]


class Piece(NamedTuple):
    """Entries that one command takes."""

    texts: list[bytes]
    size: int

    @property
    def is_large(self) -> bool:
        """Whether it is one entry that is to be cut."""
        return self.size > PIECE_BYTES


def pieces(texts: Iterable[bytes]) -> list[Piece]:
    """Entries in parts of at most 1,000 and 1 MiB, or of one entry."""
    found: list[Piece] = []
    part: list[bytes] = []
    size = 0
    for text in texts:
        if part and (size + len(text) > PIECE_BYTES or len(part) == UNPACKED):
            found.append(Piece(part, size))
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        found.append(Piece(part, size))
    return found


class Staged:
    """Segments that nothing refers to yet, brought at ``at`` (microseconds)."""

    def __init__(self, tenant: Tenant, bucket: Bucket, at: int) -> None:
        self._tenant, self._bucket, self.at = tenant, bucket, at
        self._token = new_token()
        self._names: list[str] = []

    async def add(self, parts: Sequence[Piece]) -> list[Arg]:
        """Bring parts; a name, the number of entries and the bytes of each."""
        args: list[Arg] = []
        commands: list[Command] = []
        size = 0
        for part in parts:
            if part.is_large:
                [text] = part.texts
                cut = [text[at : at + PART_BYTES] for at in range(0, len(text), PART_BYTES)]
                name = self.new_name(len(cut))
                pushes = [cut[begin:end] for begin, end in part_spans(len(cut))]
            else:
                name, pushes = self.new_name(), [part.texts]
            args += (name, len(part.texts), part.size)
            commands.append((b"ZADD", self._bucket.staged(), self.at, name))
            commands += [(b"RPUSH", self._bucket.segment(name), *push) for push in pushes]
            size += part.size
            if size >= SENT_BYTES:
                await self._tenant.stage_many(commands)
                commands, size = [], 0
        if commands:
            await self._tenant.stage_many(commands)
        return args

    def new_name(self, parts: int = 0) -> str:
        """A name for a segment to be staged, or for an entry that is cut into so many parts."""
        name = f"{self._token}:{len(self._names)}" + (f"!{parts}" if parts else "")
        self._names.append(name)
        return name

    async def drop(self) -> None:
        """Free what was staged, if nothing came to refer to it; what fails is left to sweep."""
        if self._names:
            with suppress(StoreError):
                await self._tenant.stage_many([
                    (b"ZREM", self._bucket.staged(), *self._names),
                    *((b"UNLINK", self._bucket.segment(name)) for name in self._names),
                ])  # fmt: skip


def gone_meanwhile() -> StoreUnavailableError:
    """What was staged is not there any more, or others were in the way again and again."""
    return StoreUnavailableError("others were in the way again and again; nothing was applied")
