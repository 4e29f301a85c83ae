"""Recall by embedding: the best notes of a namespace, at one instant.

A namespace is ranked by the client, whose matrix follows it. A large one that has a vector set is
not read as a whole: the set proposes, and score and order come from the stored vectors.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from stores_core.embedding import (
    EMBED_ON_QUERY,
    NoteEmbedder,
    Vector,
    check_embedder,
    check_lacking,
    cosines,
)
from stores_core.errors import EmbeddingMismatchError, StoreError
from stores_core.memory import ListMemoriesRequest, ListMemoriesResponse, ScoredMemory
from stores_core.moving import EmbedderInfo
from stores_core.values import filter_digest
from stores_redis.embedder_records import check_record, make_record
from stores_redis.embedding import Matrices, Matrix, StoredVector
from stores_redis.following import Follower, Piece
from stores_redis.generations import info_of
from stores_redis.keys import Bucket
from stores_redis.note_reading import NoteReader
from stores_redis.reembedding import embed_into, lacking
from stores_redis.vector_indexes import MOST_PROPOSED, Near, VectorIndexes

_TIED = 1e-6


class Ranked(NamedTuple):
    """Keys of the best notes with their scores, as of the serial ``seen``."""

    best: Sequence[tuple[bytes, float]]
    seen: int


class Recall:
    """Ranks the notes of a tenant by embedding."""

    def __init__(self, notes: NoteReader, embedder: NoteEmbedder) -> None:
        self._notes = notes
        self._embedder = embedder
        self._info = embedder.info
        self._matrices = Matrices()
        self._follower = Follower(notes)
        self._indexes = VectorIndexes(notes.tenant, notes.generations)
        self._fits: set[bytes] = set()

    async def see_to_fit(self, namespace: str) -> None:
        """Ask before the first embedding, so that none is made in vain; later each script asks."""
        bucket = self._notes.tenant.home(namespace)
        if bucket.tag not in self._fits:
            active = await self._notes.active_in(bucket)
            self._check(bucket, info_of(active) if active else None)
            if not active and self._notes.tenant.is_spread:
                await check_record(self._notes.tenant, self._info)
            self._fits.add(bucket.tag)

    def _check(self, bucket: Bucket, standing: EmbedderInfo | None) -> None:
        try:
            check_embedder(standing, self._info)
        except EmbeddingMismatchError:
            self._fits.discard(bucket.tag)
            raise

    async def index(self, namespace: str, count: int) -> None:
        """Add so many notes that were just put to the namespace's vector set.

        They were put already, so a failure here is none of the put: a later query adds them.
        """
        with suppress(StoreError):
            await self._indexes.catch_up(namespace, self._info, count)

    async def answer(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        """The answer to a request with a query.

        Raises EmbeddingMismatchError where the vectors are another embedder's, or where more than
        1,000 are missing.
        """
        namespace = request.namespace
        await self.see_to_fit(namespace)
        query = await self._embedder.query(request.query)
        wanted = [bytes.fromhex(filter_digest(key, value)) for key, value in request.where.items()]
        while True:
            ranked = await self._proposed(namespace, query, request.limit, wanted)
            if ranked is None:
                ranked = await self._ranked(namespace, query, request.limit, wanted)
            best = None if ranked is None else await self._read(namespace, ranked)
            if best is not None:
                return ListMemoriesResponse(items=best)

    async def _read(self, namespace: str, ranked: Ranked) -> tuple[ScoredMemory, ...] | None:
        """The notes; None where one has changed since they were ranked."""
        notes = await self._notes.get(namespace, [key for key, _ in ranked.best])
        found: list[ScoredMemory] = []
        for note, (_, score) in zip(notes, ranked.best, strict=True):
            if note is None or note.serial > ranked.seen:
                return None
            found.append(ScoredMemory(item=note.stored(), score=score))
        return tuple(found)

    async def _proposed(
        self, namespace: str, query: Vector, limit: int, wanted: Sequence[bytes]
    ) -> Ranked | None:
        """The best of what a vector set proposes; None where there is none, or it is not enough."""
        bucket = self._notes.tenant.home(namespace)
        generation = self._notes.generations.of(bucket, self._info)
        is_read = self._matrices.has(namespace, generation)
        if is_read or not self._indexes.are_there or not 0 < limit <= MOST_PROPOSED:
            return None
        near = await self._indexes.near(namespace, self._info, query, limit, wanted)
        if near is None or near.vectors < near.notes:
            return None
        self._check(bucket, near.embedder)
        dead = [key for key, _, data in near.proposed if not data]
        if dead:
            await self._indexes.catch_up(namespace, self._info, 1, dead=dead)
        return self._rescored(near, query, limit, frozenset(wanted))

    def _rescored(
        self, near: Near, query: Vector, limit: int, wanted: frozenset[bytes]
    ) -> Ranked | None:
        dimensions = self._info.dimensions
        stored = [
            (key, StoredVector.read(key, record, data, dimensions))
            for key, record, data in near.proposed
            if data
        ]
        fitting = [(key, vector) for key, vector in stored if wanted <= vector.digests]
        if len(fitting) < (limit if wanted else min(limit, near.notes)) or not fitting:
            return None
        scores = cosines(np.stack([vector.vector for _, vector in fitting]), query)
        order = sorted(
            zip(fitting, scores.tolist(), strict=True),
            key=lambda pair: (-pair[1], pair[0][1].place),
        )
        best = [(key, score) for (key, _), score in order[:limit]]
        last = best[-1][1]
        # Zero vectors score 0, and where they lie in a set means nothing. Of many notes with one
        # score a set proposes any, and the oldest of them are wanted.
        is_cut = len(fitting) < near.notes and last - order[-1][1] < _TIED
        return None if last <= 0 or is_cut else Ranked(best, near.seen)

    async def _ranked(
        self, namespace: str, query: Vector, limit: int, wanted: Sequence[bytes]
    ) -> Ranked | None:
        """The best notes, exactly; None where some lacked a vector and have one now."""
        matrix, piece = await self._caught_up(namespace)
        if piece.vectors < piece.notes:
            await self._embed_lacking(namespace)
            return None
        return Ranked(matrix.ranked(query, limit, wanted), int(piece.followed.changes))

    async def _caught_up(self, namespace: str) -> tuple[Matrix, Piece]:
        info, bucket = self._info, self._notes.tenant.home(namespace)
        while True:
            generation = self._notes.generations.of(bucket, info)
            matrix = self._matrices.of(namespace, generation, info.dimensions)
            async with matrix.lock:
                while True:
                    piece = await self._follower.changes(namespace, matrix.followed, generation)
                    self._check(bucket, piece.embedder)
                    if piece.embedder and generation != self._notes.generations.of(bucket, info):
                        break  # another client has named it
                    matrix.take(piece)
                    if not piece.more:
                        return matrix, piece

    async def _embed_lacking(self, namespace: str) -> None:
        info, bucket = self._info, self._notes.tenant.home(namespace)
        generation = self._notes.generations.of(bucket, info)
        found = await lacking(self._notes, namespace, generation, EMBED_ON_QUERY + 1)
        check_lacking(found, info)
        if self._notes.tenant.is_spread and not self._notes.generations.known(bucket):
            await make_record(self._notes.tenant, info)
        await embed_into(self._notes, self._embedder, namespace, found)
