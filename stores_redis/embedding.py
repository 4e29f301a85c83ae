"""Vectors of namespaces that a client keeps in memory, to rank by cosine without asking for them.

A matrix follows its namespace: one round trip says what changed since it was brought up to date,
whoever changed it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stores_core.embedding import Vector
from stores_core.errors import CorruptRecordError
from stores_core.ranking import VectorTable
from stores_redis.following import Followed, Piece
from stores_redis.notes import Note

MATRIX_BYTES = 256 * 1024 * 1024
"""So much of vectors one client keeps; the namespaces that were asked least lately go first."""

MATRICES = 1_000
"""Of so many namespaces at most, however small they are."""

DIGEST_BYTES = 16


class StoredVector(NamedTuple):
    """A vector, the place of its note and the digests of the note's metadata."""

    place: bytes
    vector: Vector
    digests: frozenset[bytes]

    @classmethod
    def read(cls, key: bytes, record: bytes, data: bytes, dimensions: int) -> "StoredVector":
        """A note's record and vector as they are stored. Raises CorruptRecordError."""
        end = 4 * dimensions
        rest = len(data) - end
        if rest < 0 or rest % DIGEST_BYTES:
            raise CorruptRecordError(store="memory", id=key.decode())
        vector: Vector = np.frombuffer(data[:end], dtype="<f4").astype(np.float32)
        digests = (data[at : at + DIGEST_BYTES] for at in range(end, len(data), DIGEST_BYTES))
        return cls(Note.read(key, record).place, vector, frozenset(digests))


class Matrix:
    """The vectors of one namespace and generation, by the keys of notes.

    Whoever brings it up to date holds ``lock``.
    """

    def __init__(self, dimensions: int) -> None:
        self.lock = asyncio.Lock()
        self.followed = Followed()
        self._dimensions = dimensions
        self.void()

    def void(self) -> None:
        """Hold nothing any more."""
        self._table = VectorTable[bytes](self._dimensions)
        self._places: dict[bytes, bytes] = {}
        self._digests: dict[bytes, frozenset[bytes]] = {}

    def take(self, piece: Piece) -> None:
        """Take in what changed."""
        if piece.void:
            self.void()
        for key in piece.gone:
            self._discard(key)
        for key, record, data in piece.changed:
            if not data:
                self._discard(key)
                continue
            place, vector, digests = StoredVector.read(key, record, data, self._dimensions)
            self._table.put(key, vector)
            self._places[key], self._digests[key] = place, digests
        self.followed = piece.followed

    def _discard(self, key: bytes) -> None:
        self._table.discard(key)
        self._places.pop(key, None)
        self._digests.pop(key, None)

    def ranked(
        self, query: Vector, limit: int, wanted: Collection[bytes]
    ) -> list[tuple[bytes, float]]:
        """The best ``limit`` (0: all) keys whose metadata has all of ``wanted``, with scores."""
        among = None
        if wanted:
            asked = frozenset(wanted)
            among = [key for key, digests in self._digests.items() if asked <= digests]
        best = self._table.ranked(query, limit, among)
        best.sort(key=lambda pair: (-pair[1], self._places[pair[0]]))
        return best[:limit] if limit else best

    def count_bytes(self) -> int:
        return 4 * self._dimensions * len(self._table)


class Matrices:
    """The matrices of one client, those that were used last."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], Matrix] = OrderedDict()

    def has(self, namespace: str, generation: str) -> bool:
        """Whether the vectors of a namespace were read already."""
        return (namespace, generation) in self._held

    def of(self, namespace: str, generation: str, dimensions: int) -> Matrix:
        """The matrix of a namespace; others are given up where there is too much."""
        key = namespace, generation
        if key not in self._held:
            self._held[key] = Matrix(dimensions)
        self._held.move_to_end(key)
        total = sum(held.count_bytes() for held in self._held.values())
        while len(self._held) > 1 and (total > MATRIX_BYTES or len(self._held) > MATRICES):
            _, given_up = self._held.popitem(last=False)
            total -= given_up.count_bytes()
        return self._held[key]
