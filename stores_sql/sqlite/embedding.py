"""Vectors in tables, and the matrices of them that a client keeps in memory to rank by cosine.

A matrix follows the file: its namespace's row counts the changes of vectors, whichever process made
them, so what is new is read before each ranking, in the same snapshot as the notes.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
from sqlalchemy import and_, delete, exists, select, update

from stores_core.embedding import Vector
from stores_core.errors import CorruptRecordError
from stores_core.moving import EmbedderInfo
from stores_core.ranking import VectorTable
from stores_sql.parameters import given
from stores_sql.sqlite.notes import Namespace
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.tables import embedders, namespaces, notes, tenants, vectors

MATRIX_BYTES = 256 * 1024 * 1024
"""So much of vectors one client keeps; the namespaces that were asked least lately go first."""

MATRICES = 1_000
"""Of so many namespaces at most, however small they are."""

_ACTIVE = Statement(
    select(embedders.c.name, embedders.c.dimensions)
    .select_from(tenants.join(embedders, embedders.c.number == tenants.c.embedder))
    .where(tenants.c.number == given("tenant"))
)
_SET_ACTIVE = Statement(
    update(tenants).values(embedder=given("embedder")).where(tenants.c.number == given("tenant"))
)
_EMBEDDER = Statement(
    select(embedders.c.number).where(
        embedders.c.tenant == given("tenant"),
        embedders.c.name == given("name"),
        embedders.c.dimensions == given("dimensions"),
    )
)
_INSERT_EMBEDDER = inserting(embedders, numbered=True)
_INSERT = inserting(vectors, numbered=True)
_DELETE = Statement(
    delete(vectors).where(vectors.c.note == given("note"), vectors.c.embedder == given("embedder"))
)
_GET = Statement(
    select(vectors.c.vector).where(
        vectors.c.note == given("note"), vectors.c.embedder == given("embedder")
    )
)
_NEW = Statement(
    select(vectors.c.note, vectors.c.vector)
    .where(
        vectors.c.namespace == given("namespace"),
        vectors.c.embedder == given("embedder"),
        vectors.c.change > given("seen"),
    )
    .order_by(vectors.c.change)
)
_lacking = ~exists().where(
    and_(vectors.c.note == notes.c.number, vectors.c.embedder == given("embedder"))
)
LACKING_IN = Statement(
    select(notes.c.number)
    .where(notes.c.namespace == given("namespace"), _lacking)
    .limit(given("most"))
)
LACKING = Statement(
    select(namespaces.c.name, notes.c.number)
    .select_from(namespaces.join(notes, notes.c.namespace == namespaces.c.number))
    .where(namespaces.c.tenant == given("tenant"), _lacking)
    .limit(given("most"))
)
_OTHERS = Statement(
    select(embedders.c.number).where(
        embedders.c.tenant == given("tenant"), embedders.c.number != given("embedder")
    )
)
_NAMESPACES = Statement(select(namespaces.c.number).where(namespaces.c.tenant == given("tenant")))
_DELETE_ALL_OF = Statement(
    delete(vectors).where(
        vectors.c.namespace == given("namespace"), vectors.c.embedder == given("embedder")
    )
)
_DELETE_EMBEDDER = Statement(delete(embedders).where(embedders.c.number == given("embedder")))


def active(connection: Connection, tenant: int) -> EmbedderInfo | None:
    """The embedder whose vectors recall uses; None until the first were written."""
    row = _ACTIVE.one(connection, tenant=tenant)
    return None if row is None else EmbedderInfo(name=row[0], dimensions=row[1])


def find_embedder(connection: Connection, tenant: int, info: EmbedderInfo) -> int:
    """The number of an embedder, or 0 where it has no vectors yet."""
    number: int | None = _EMBEDDER.value(
        connection, tenant=tenant, name=info.name, dimensions=info.dimensions
    )
    return number or 0


def enter_embedder(connection: Connection, tenant: int, info: EmbedderInfo) -> int:
    """The number of an embedder, which gets one if it has none."""
    number = find_embedder(connection, tenant, info)
    if number:
        return number
    return _INSERT_EMBEDDER.number(
        connection, tenant=tenant, name=info.name, dimensions=info.dimensions
    )


def set_active(connection: Connection, tenant: int, embedder: int) -> None:
    """Let recall use the vectors of this embedder."""
    _SET_ACTIVE.run(connection, tenant=tenant, embedder=embedder)


def take_over(connection: Connection, tenant: int, embedder: int) -> None:
    """Use this embedder's vectors from now on and forget all others."""
    set_active(connection, tenant, embedder)
    for (other,) in _OTHERS.all(connection, tenant=tenant, embedder=embedder):
        for (namespace,) in _NAMESPACES.all(connection, tenant=tenant):
            _DELETE_ALL_OF.run(connection, namespace=namespace, embedder=other)
        _DELETE_EMBEDDER.run(connection, embedder=other)


def put_vector(
    connection: Connection, namespace: Namespace, embedder: int, note: int, vector: Vector
) -> None:
    """Keep the vector of a note's present version."""
    namespace.changes += 1
    _DELETE.run(connection, note=note, embedder=embedder)
    _INSERT.run(
        connection, namespace=namespace.number, embedder=embedder, change=namespace.changes,
        note=note, vector=vector.astype("<f4").tobytes(),
    )  # fmt: skip


def vector_bytes(connection: Connection, embedder: int, note: int) -> bytes | None:
    """The vector of a note as it is stored."""
    return _GET.value(connection, note=note, embedder=embedder)


class Matrix:
    """The vectors of one namespace and embedder, by note. Whoever touches it holds ``lock``."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.table = VectorTable[int](dimensions)
        self._dimensions = dimensions
        self._seen = 0

    def catch_up(self, connection: Connection, namespace: Namespace, embedder: int) -> bool:
        """Take in what changed; False if the matrix is ahead of the snapshot that is open."""
        if namespace.changes < self._seen:
            return False
        if namespace.removed_at > self._seen:
            self.table, self._seen = VectorTable[int](self._dimensions), 0
        if namespace.changes > self._seen:
            for note, vector in self._new(connection, namespace, embedder):
                self.table.put(note, vector)
            self._seen = namespace.changes
        return True

    def _new(
        self, connection: Connection, namespace: Namespace, embedder: int
    ) -> Iterator[tuple[int, Vector]]:
        rows = _NEW.run(connection, namespace=namespace.number, embedder=embedder, seen=self._seen)
        for note, data in rows:
            if len(data) != 4 * self._dimensions:
                raise CorruptRecordError("memory: a stored vector has the wrong length")
            yield note, np.frombuffer(data, dtype="<f4").astype(np.float32)

    def count_bytes(self) -> int:
        return 4 * self._dimensions * len(self.table)


class Matrices:
    """The matrices of one client, those that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[int, int], Matrix] = OrderedDict()

    def of(self, namespace: int, embedder: int, dimensions: int) -> Matrix:
        """The matrix of a namespace; others are given up where there is too much."""
        with self._lock:
            key = namespace, embedder
            matrix = self._held.setdefault(key, Matrix(dimensions))
            self._held.move_to_end(key)
            total = sum(held.count_bytes() for held in self._held.values())
            while len(self._held) > 1 and (total > MATRIX_BYTES or len(self._held) > MATRICES):
                _, given_up = self._held.popitem(last=False)
                total -= given_up.count_bytes()
            return matrix
