"""Writing notes: putting, removing and clearing, each one step."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stores_core.codec import encode_json
from stores_core.embedding import Vector, check_embedder
from stores_core.errors import StoreUnavailableError
from stores_core.limits import MIB
from stores_core.moving import EmbedderInfo
from stores_redis.generations import Generations, info_of, info_text
from stores_redis.keys import Bucket
from stores_redis.notes import embedded, time_text
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

APART_BYTES = 4 * 1024
"""Longer texts are not in a note's record, so that no script that reads many records moves much."""

STAGED_BYTES = MIB
"""Where a batch is larger, its long texts are sent before the script that puts it."""

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
        bucket = self.tenant.home(namespace)
        for _ in range(_TRIES):
            given = await self._brought(bucket, namespace, new)

            def args(mine: str, given: Sequence[Arg] = given) -> Sequence[Arg]:
                return (
                    mine, info_text(embedder), "strict" if strict else "",
                    "" if expected is None else expected, cap, secrets.token_hex(8), len(new),
                    *given,
                )  # fmt: skip

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

    async def _brought(
        self, bucket: Bucket, namespace: str, new: Sequence[NewNote]
    ) -> Sequence[Arg]:
        """What the script is told of each note. Long texts of a large batch are sent before."""
        token = secrets.token_hex(8)
        texts = [(encode_json(note.metadata), note.value.encode()) for note in new]
        stages = sum(len(part) for pair in texts for part in pair) > STAGED_BYTES
        given: list[Arg] = []
        staged: list[tuple[str, bytes]] = []
        for index, (note, (metadata, value)) in enumerate(zip(new, texts, strict=True)):
            text, field = metadata + value, "-"
            size = len(text)
            if size > APART_BYTES:
                field = f"{token}-{index}"
                if stages:
                    staged.append((field, text))
                    text = b""
            vector = b"" if note.vector is None else embedded(note.vector, note.metadata)
            given += (
                note.key, time_text(note.created), time_text(note.updated),
                "" if note.version is None else note.version,
                f"{len(metadata)} {size}", text, field, vector,
            )  # fmt: skip
        if staged:
            await self._stage(bucket, namespace, staged, new[0].updated)
        return given

    async def _stage(
        self, bucket: Bucket, namespace: str, staged: Sequence[tuple[str, bytes]], at: int
    ) -> None:
        # Entered first, so that sweep finds what a cut leaves behind.
        commands: list[Sequence[Arg]] = [
            ("ZADD", bucket.staged_notes(), at, f"{field} {namespace}") for field, _ in staged
        ]
        bodies = bucket.note_bodies(namespace)
        commands += [("HSET", bodies, field, text) for field, text in staged]
        await self.tenant.stage_many(commands)

    async def remove(self, namespace: str, keys: Sequence[str]) -> int:
        """Take up to 1,000 notes away; how many there were."""
        reply = await self._write(_REMOVE, namespace, lambda _: keys)
        return int(reply[1])

    async def clear(self, namespace: str) -> int:
        """Take all notes of a namespace away; how many there were."""
        reply = await self._write(_CLEAR, namespace, lambda _: ())
        return int(reply[1])

    async def _write(
        self,
        script: Script,
        namespace: str,
        args: Callable[[str], Sequence[Arg]],
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
            given = (" ".join(passed), namespace, *args(mine))
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
