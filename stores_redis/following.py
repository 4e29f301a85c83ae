"""Following a namespace: what changed since one looked last, and all of it at one instant.

A client holds the notes of small namespaces, so that a query or a filter looks at them without
asking for them again: one round trip says what changed since, whoever changed it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import NamedTuple

from stores_core.errors import CorruptRecordError
from stores_core.limits import MIB
from stores_core.moving import EmbedderInfo
from stores_redis.generations import info_of
from stores_redis.note_batches import run_settled
from stores_redis.note_reading import PIECE_BYTES, NoteReader
from stores_redis.notes import Note, digests_of
from stores_redis.scripts import UNPACKED, Script

HELD_BYTES = 32 * MIB
"""So much of texts one client holds; the namespaces that were asked least lately go first."""

HELD_NAMESPACES = 1_000
"""Of so many namespaces at most, however small they are."""

_CHANGES = Script("notes_changes")


class Followed(NamedTuple):
    """How far somebody has followed a namespace: its epoch, and the serials up to which the changes
    and the removals are known."""

    epoch: bytes = b""
    changes: bytes = b"0"
    removals: bytes = b"0"


class Piece(NamedTuple):
    """What changed in a namespace since the serial that was seen before.

    ``void`` says that all that was taken in before is to be given up, ``more`` that this is not
    all. ``embedder`` is the one whose vectors are in use in this bucket.
    """

    followed: Followed
    more: bool
    void: bool
    embedder: EmbedderInfo | None
    notes: int
    vectors: int
    gone: Sequence[bytes]
    changed: Sequence[tuple[bytes, bytes, bytes]]


class News(NamedTuple):
    """What to take in of a namespace. ``gone`` are the keys of all notes that are not as before."""

    followed: Followed
    void: bool
    gone: Sequence[bytes]
    notes: Sequence[Note]


class Listed:
    """A note and what queries and filters look at."""

    def __init__(self, note: Note) -> None:
        self.note = note

    @cached_property
    def folded(self) -> tuple[str, str]:
        """Key and value."""
        return self.note.key.casefold(), self.note.value().casefold()

    @cached_property
    def digests(self) -> frozenset[bytes]:
        return frozenset(digests_of(self.note.metadata()))

    def contains(self, folded_query: str) -> bool:
        key, value = self.folded
        return folded_query in value or folded_query in key


class _Held:
    """The notes of one namespace. Whoever brings it up to date holds ``lock``."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.void()

    def void(self) -> None:
        self.followed, self.size = Followed(), 0
        self.notes: dict[bytes, Listed] = {}

    def take(self, news: News) -> None:
        if news.void:
            self.void()
        for key in news.gone:
            self._remove(key)
        for note in news.notes:
            self._remove(note.key.encode())
            self.notes[note.key.encode()] = Listed(note)
            self.size += note.whole_size
        self.followed = news.followed

    def _remove(self, key: bytes) -> None:
        listed = self.notes.pop(key, None)
        if listed is not None:
            self.size -= listed.note.whole_size


class Follower:
    """Follows the namespaces of a tenant."""

    def __init__(self, reader: NoteReader) -> None:
        self._reader = reader
        self._held: OrderedDict[str, _Held] = OrderedDict()

    async def changes(self, namespace: str, followed: Followed, generation: str = "") -> Piece:
        """What changed since one followed so far: key, record and vector of each note.

        With a ``generation``, vectors are wanted and records are without their texts.
        """
        bucket = self._reader.tenant.home(namespace)
        keys = [
            bucket.memory(), bucket.note_state(namespace), bucket.note_changes(namespace),
            bucket.notes_gone(namespace), bucket.notes(namespace),
        ]  # fmt: skip
        if generation:
            keys.append(bucket.vectors(namespace, generation))
        args = (*followed, UNPACKED, PIECE_BYTES, generation)
        reply = await run_settled(
            self._reader.tenant, self._reader.generations, namespace, _CHANGES, keys, args,
            writes=False,
        )  # fmt: skip
        self._reader.generations.learn(bucket, reply[5])
        gone = 10 + int(reply[9])
        changed = zip(reply[gone::3], reply[gone + 1 :: 3], reply[gone + 2 :: 3], strict=True)
        return Piece(
            followed=Followed(*reply[:3]),
            more=reply[3] == b"more",
            void=reply[4] == b"void",
            embedder=info_of(reply[6]) if reply[6] else None,
            notes=int(reply[7]),
            vectors=int(reply[8]),
            gone=reply[10:gone],
            changed=list(changed),
        )

    async def news(self, namespace: str, followed: Followed) -> AsyncGenerator[News]:
        """All that changed, until nothing more did: then what was taken in is of one instant."""
        missing: set[bytes] = set()
        more = True
        while more or missing:
            piece = await self.changes(namespace, followed)
            followed, more = piece.followed, piece.more
            if piece.void:
                missing.clear()
            gone = [*piece.gone, *(key for key, _, _ in piece.changed)]
            missing.difference_update(gone)
            if missing and not more:
                raise CorruptRecordError(store="memory", id=missing.pop().decode())
            notes = [Note.read(key, record) for key, record, _ in piece.changed]
            filled = await self._reader.fill(namespace, notes)
            yield News(followed, piece.void, gone, filled)
            # What was put again while its text was read comes once more, in a later piece.
            there = {note.key for note in filled}
            missing |= {note.key.encode() for note in notes if note.key not in there}

    async def select(self, namespace: str, keep: Callable[[Listed], bool]) -> list[Note]:
        """All notes that ``keep`` wants, oldest first, as they are at one instant."""
        held = self._of(namespace)
        async with held.lock:
            if await self._hold(namespace, held):
                found = [listed.note for listed in held.notes.values() if keep(listed)]
                return sorted(found, key=lambda note: note.place)
        return await self._sift(namespace, keep)

    async def _hold(self, namespace: str, held: _Held) -> bool:
        """Bring what is held up to date; False where that is too much to hold."""
        try:
            async with aclosing(self.news(namespace, held.followed)) as all_news:
                async for news in all_news:
                    held.take(news)
                    if held.size > HELD_BYTES:
                        held.void()
                        return False
        except BaseException:
            held.void()  # it may have been cut between two pieces
            raise
        return True

    async def _sift(self, namespace: str, keep: Callable[[Listed], bool]) -> list[Note]:
        """The same, of a namespace that is too large to hold: what is not wanted is let go."""
        found: dict[bytes, Note] = {}
        async with aclosing(self.news(namespace, Followed())) as all_news:
            async for news in all_news:
                if news.void:
                    found.clear()
                for key in news.gone:
                    found.pop(key, None)
                found |= {note.key.encode(): note for note in news.notes if keep(Listed(note))}
        return sorted(found.values(), key=lambda note: note.place)

    def _of(self, namespace: str) -> _Held:
        if namespace not in self._held:
            self._held[namespace] = _Held()
        self._held.move_to_end(namespace)
        total = sum(held.size for held in self._held.values())
        while len(self._held) > 1 and (total > HELD_BYTES or len(self._held) > HELD_NAMESPACES):
            _, given_up = self._held.popitem(last=False)
            total -= given_up.size
        return self._held[namespace]
