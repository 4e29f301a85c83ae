"""Writing notes: putting, removing and clearing, each one step."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stores_core.codec import encode_json
from stores_core.embedding import Vector, check_embedder
from stores_core.errors import EmbeddingMismatchError, StoreUnavailableError
from stores_core.moving import EmbedderInfo
from stores_redis.embedder_records import make_record
from stores_redis.generations import Generations, info_of, info_text
from stores_redis.notes import time_text, vector_text
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

APART_BYTES = 1024
"""Longer texts are not in a note's record, so that no script that reads many records moves much."""

SENT_BYTES = 512 * 1024
"""Where a batch is larger, most of it is sent before the script that puts it."""

SENT_APART_BYTES = 256
"""Texts so long, and all vectors, are sent before then."""

_PUT = Script("notes_put")
_REMOVE = Script("notes_remove")
_CLEAR = Script("notes_clear")

_TRIES = 10


class NewNote(NamedTuple):
    """A note on its way in; times are in microseconds, ``version`` is None for the next one."""

    key: str
    value: str
    metadata: Mapping[str, Any]
    created: int
    updated: int
    version: int | None = None
    vector: Vector | None = None


class _Outgoing(NamedTuple):
    """A note as it is sent: its texts, how many bytes of them are metadata, its vector or b""."""

    texts: bytes
    metadata_size: int
    vector: bytes

    @classmethod
    def of(cls, note: NewNote) -> "_Outgoing":
        metadata = encode_json(note.metadata)
        vector = b"" if note.vector is None else vector_text(note.vector, note.metadata)
        return cls(metadata + note.value.encode(), len(metadata), vector)

    def size(self) -> int:
        return len(self.texts) + len(self.vector)

    @property
    def is_sent_apart(self) -> bool:
        return len(self.texts) > SENT_APART_BYTES

    def given(self, note: NewNote, *, sends: bool, embedded: bool) -> Sequence[Arg]:
        """What the script is told of the note."""
        where, texts, vector = "in", self.texts, self.vector if embedded else b""
        if sends and self.is_sent_apart:
            where, texts = "sent", b""
        elif len(texts) > APART_BYTES:
            where = "apart"
        return (
            note.key, time_text(note.created), time_text(note.updated),
            "" if note.version is None else note.version,
            f"{self.metadata_size} {len(self.texts)}", where, texts,
            "sent" if sends and vector else vector,
        )  # fmt: skip


class Put(NamedTuple):
    """What became of a note: whether it is new, was written at all, and its version (0: none)."""

    created: bool
    written: bool
    version: int
    indexed: bool = False
    """Whether its vector belongs into a vector set, which the caller sees to."""


class NoteWriter:
    """Writes the notes of a tenant."""

    def __init__(self, tenant: Tenant, generations: Generations) -> None:
        self.tenant = tenant
        self.generations = generations

    async def put(
        self,
        namespace: str,
        new: Sequence[NewNote],
        *,
        embedder: EmbedderInfo | None = None,
        strict: bool = True,
        expected: int | None = None,
        cap: int = 0,
    ) -> list[Put]:
        """Write notes, all or none, with vectors of ``embedder``.

        A note is left alone that has a higher version than the one given, and a single one that
        has not the version ``expected``. Where the vectors in use are another embedder's, that is
        an EmbeddingMismatchError if ``strict``; else the notes are written without.
        """
        known = self.generations.known(self.tenant.home(namespace))
        if embedder is not None and not known and self.tenant.is_spread:
            try:
                await make_record(self.tenant, embedder)
            except EmbeddingMismatchError:
                if strict:
                    raise
                embedder = None
        batch = [_Outgoing.of(note) for note in new]
        sends = sum(map(_Outgoing.size, batch)) > SENT_BYTES

        async def args(mine: str) -> Sequence[Arg]:
            token = secrets.token_hex(8)
            if sends:
                await self._send(namespace, token, mine, batch, new[0].updated)
            given = [
                part
                for note, outgoing in zip(new, batch, strict=True)
                for part in outgoing.given(note, sends=sends, embedded=bool(mine))
            ]
            return (
                mine, info_text(embedder), "strict" if strict else "",
                "" if expected is None else expected, cap, token, len(new), *given,
            )  # fmt: skip

        for _ in range(_TRIES):
            reply = await self._write(_PUT, namespace, args, embedder)
            if reply[0] == b"conflict":
                return [Put(created=False, written=False, version=int(reply[1]))]
            if reply[0] == b"embedder" and embedder is not None:
                check_embedder(info_of(reply[1]), embedder)
            if reply[0] == b"ok":
                indexed = reply[1] == b"indexed"
                return [
                    Put(what == b"new", what != b"kept", int(version), indexed)
                    for what, version in zip(reply[2::2], reply[3::2], strict=True)
                ]
        raise self._restless()

    async def _send(
        self, namespace: str, token: str, mine: str, batch: Sequence["_Outgoing"], at: int
    ) -> None:
        """Send texts and vectors apart, where nobody sees them until a record refers to them."""
        bucket = self.tenant.home(namespace)
        entry = f"{token} {len(batch)} {mine or '-'} {namespace}"
        # Entered first, so that sweep finds what a cut leaves behind.
        commands: list[Sequence[Arg]] = [("ZADD", bucket.staged_notes(), at, entry)]
        for index, outgoing in enumerate(batch, 1):
            id = f"{token}-{index}"
            if outgoing.is_sent_apart:
                commands.append(("HSET", bucket.note_bodies(namespace), id, outgoing.texts))
            if mine and outgoing.vector:
                commands.append(("HSET", bucket.vectors(namespace, mine), id, outgoing.vector))
        await self.tenant.stage_many(commands)

    async def remove(self, namespace: str, key: str, expected_version: int | None) -> bool | None:
        """Take a note away; whether it was there, or None where it has another version."""
        expected = "" if expected_version is None else expected_version
        reply = await self._write(_REMOVE, namespace, lambda _: _given((key, expected)))
        return None if reply[0] == b"conflict" else reply[1] == b"1"

    async def clear(self, namespace: str) -> int:
        """Take all notes of a namespace away; how many there were."""
        reply = await self._write(_CLEAR, namespace, lambda _: _given(()))
        return int(reply[1])

    async def _write(
        self,
        script: Script,
        namespace: str,
        args: Callable[[str], Awaitable[Sequence[Arg]]],
        embedder: EmbedderInfo | None = None,
    ) -> list[bytes]:
        """Run a script that begins as notes.lua says; ``args`` are told our own generation."""
        bucket = self.tenant.home(namespace)
        for _ in range(_TRIES):
            mine = self.generations.of(bucket, embedder) if embedder else ""
            passed = self.generations.passed(bucket, mine)
            keys = [
                bucket.memory(), bucket.namespaces(), bucket.staged_notes(),
                bucket.notes(namespace), bucket.note_order(namespace),
                bucket.note_changes(namespace), bucket.notes_gone(namespace),
                bucket.note_state(namespace), bucket.note_bodies(namespace),
                *(
                    key
                    for generation in passed
                    for key in bucket.vector_keys(namespace, generation)
                ),
            ]  # fmt: skip
            given = (" ".join(passed), namespace, *await args(mine))
            reply = await self.tenant.run(script, keys, given, writes=True)
            if reply[0] == b"again":
                self.generations.learn(bucket, reply[1])
                continue
            if reply[0] == b"ok" and mine and not self.generations.known(bucket):
                self.generations.learn(bucket, mine.encode())
            return reply
        raise self._restless()

    @staticmethod
    def _restless() -> StoreUnavailableError:
        return StoreUnavailableError(
            "the vectors of these notes are being exchanged again and again; nothing was applied"
        )


async def _given(args: Sequence[Arg]) -> Sequence[Arg]:
    return args
