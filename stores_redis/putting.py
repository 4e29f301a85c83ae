"""Writing notes: putting, removing and clearing, each one step."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from stores_core.embedding import check_embedder
from stores_core.errors import (
    EmbeddingMismatchError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from stores_core.moving import EmbedderInfo
from stores_redis.embedder_records import make_record
from stores_redis.generations import Generations, info_of, info_text
from stores_redis.note_batches import note_keys, run_settled, settle
from stores_redis.outgoing import Batch, NewNote
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

_PUT = Script("notes_put")
_DECIDE = Script("notes_decide")
_REMOVE = Script("notes_remove")
_CLEAR = Script("notes_clear")

_TRIES = 10

_LAID_AT_ONCE = 4_000
"""So many items of a batch one command lays out: the fields of 500 notes."""


class _Given(NamedTuple):
    """The arguments of a script that writes notes, and its further keys."""

    args: Sequence[Arg]
    keys: Sequence[bytes] = ()


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
        batch = Batch(new)
        if batch.is_laid_out:
            return await self._put_large(namespace, batch, embedder, strict=strict, cap=cap)

        async def given(mine: str) -> _Given:
            token = secrets.token_hex(8)
            if batch.sends:
                await self._send(namespace, token, mine, batch)
            return _Given((
                mine, info_text(embedder), "strict" if strict else "",
                "" if expected is None else expected, cap, token, len(new),
                *batch.fields(embedded=bool(mine)),
            ))  # fmt: skip

        for _ in range(_TRIES):
            reply = await self._write(_PUT, namespace, given, embedder)
            if reply[0] == b"conflict":
                return [Put(created=False, written=False, version=int(reply[1]))]
            if reply[0] == b"embedder" and embedder is not None:
                check_embedder(info_of(reply[1]), embedder)
            if reply[0] == b"ok":
                return _puts(reply[1:])
        raise self._restless()

    async def _put_large(
        self,
        namespace: str,
        batch: Batch,
        embedder: EmbedderInfo | None,
        *,
        strict: bool,
        cap: int,
    ) -> list[Put]:
        """Lay a batch out, decide it and take it in."""
        token, count = "", len(batch.outgoing)

        async def given(mine: str) -> _Given:
            nonlocal token
            token = secrets.token_hex(8)
            items = [*batch.fields(embedded=bool(mine)), token, count, mine, cap]
            await self._send(namespace, token, mine, batch, items)
            laid = self.tenant.home(namespace).laid_notes(token)
            return _Given((mine, info_text(embedder), token, count, len(items)), [laid])

        for _ in range(_TRIES):
            reply = await self._write(_DECIDE, namespace, given, embedder)
            if reply[0] == b"embedder" and embedder is not None:
                if strict:
                    check_embedder(info_of(reply[1]), embedder)
                embedder = None  # what was sent with vectors is left to sweep
            if reply[0] == b"ok":
                return await self._taken_in(namespace, token, count)
        raise self._restless()

    async def _taken_in(self, namespace: str, token: str, count: int) -> list[Put]:
        """Take a batch in that was decided, or see that others did; what became of its notes."""
        told = self.tenant.home(namespace).notes_told(token)
        try:
            await settle(self.tenant, self.generations, namespace)
            # Freed by a write, so that there is something for replicas to be waited for.
            pieces, _ = await self.tenant.write_many([("LRANGE", told, 0, -1), ("UNLINK", told)])
        except OutcomeUnknownError:
            raise
        except StoreError as error:
            raise OutcomeUnknownError(
                "the batch was decided, and whoever reads or writes there next takes it in"
            ) from error
        puts = [put for piece in pieces for put in _puts(piece.split(b" "))]
        if len(puts) != count:
            raise OutcomeUnknownError("the batch was decided, and what became of it is lost")
        return puts

    async def _send(
        self,
        namespace: str,
        token: str,
        mine: str,
        batch: Batch,
        laid: Sequence[Arg] = (),
    ) -> None:
        """Send texts, vectors and a laid out batch apart, where nobody sees them until something
        refers to them."""
        bucket = self.tenant.home(namespace)
        entry = f"{token} {len(batch.outgoing)} {mine or '-'} {namespace}"
        # Entered first, so that sweep finds what a cut leaves behind.
        commands: list[Sequence[Arg]] = [("ZADD", bucket.staged_notes(), batch.at, entry)]
        for index, outgoing in enumerate(batch.outgoing, 1):
            id = f"{token}-{index}"
            if outgoing.is_sent_apart:
                commands.append(("HSET", bucket.note_bodies(namespace), id, outgoing.texts))
            if mine and outgoing.vector:
                commands.append(("HSET", bucket.vectors(namespace, mine), id, outgoing.vector))
        for start in range(0, len(laid), _LAID_AT_ONCE):
            part = laid[start : start + _LAID_AT_ONCE]
            commands.append(("RPUSH", bucket.laid_notes(token), *part))
        await self.tenant.stage_many(commands)

    async def remove(self, namespace: str, key: str, expected_version: int | None) -> bool | None:
        """Take a note away; whether it was there, or None where it has another version."""
        expected = "" if expected_version is None else expected_version
        reply = await self._write(_REMOVE, namespace, lambda _: _plain((key, expected)))
        return None if reply[0] == b"conflict" else reply[1] == b"1"

    async def clear(self, namespace: str) -> int:
        """Take all notes of a namespace away; how many there were."""
        reply = await self._write(_CLEAR, namespace, lambda _: _plain(()))
        return int(reply[1])

    async def _write(
        self,
        script: Script,
        namespace: str,
        given: Callable[[str], Awaitable["_Given"]],
        embedder: EmbedderInfo | None = None,
    ) -> list[bytes]:
        """Run a script that begins as notes.lua says; ``given`` is told our own generation."""
        bucket = self.tenant.home(namespace)
        for _ in range(_TRIES):
            mine = self.generations.of(bucket, embedder) if embedder else ""
            passed = self.generations.passed(bucket, mine)
            args, further = await given(mine)
            keys = [*note_keys(bucket, namespace, passed), *further]
            args = (" ".join(passed), namespace, *args)
            reply = await run_settled(
                self.tenant, self.generations, namespace, script, keys, args, writes=True
            )
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


async def _plain(args: Sequence[Arg]) -> _Given:
    return _Given(args)


def _puts(told: Sequence[bytes]) -> list[Put]:
    """What notes_writing.lua tells of notes."""
    return [
        Put(what == b"new", what != b"kept", int(version), told[0] == b"indexed")
        for what, version in zip(told[1::2], told[2::2], strict=True)
    ]
