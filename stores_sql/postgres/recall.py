"""Recall by embedding: which way a namespace is ranked, and that all that it reads is of one
instant.

A namespace that fits is ranked by the client, whose matrix follows it; one that was not asked
before, or is changing, or is too large for that, by the server: exactly, or as an index proposes
where the namespace is large. Scores and order come from the stored vectors, by core's cosine.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from sqlalchemy import and_, select

from stores_core.embedding import EMBED_ON_QUERY, Vector, check_embedder, cosines
from stores_core.errors import InvalidRequestError
from stores_core.memory import ListMemoriesRequest, ScoredMemory
from stores_core.moving import EmbedderInfo
from stores_sql.parameters import fixed, given
from stores_sql.postgres.embedding import Lacking, check_width, lacking_in
from stores_sql.postgres.extension import Extension, find_extension
from stores_sql.postgres.matrices import MATRIX_BYTES, NEVER, Matrices, Matrix
from stores_sql.postgres.nearest import (
    MOST_PROPOSED,
    RANKED_DIMENSIONS,
    Generation,
    Near,
    everything,
    new_vectors,
    rank_by_index,
    rank_exactly,
)
from stores_sql.postgres.notes import Note, Spot, digests_wanted, listed, notes_at, numbers_with
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.tables import embedders, namespaces, notes, tenant_states, tenants
from stores_sql.postgres.vector_indexes import LARGE, PREFIX, SHARE, indexed_by

T = TypeVar("T")

Scored = list[tuple[Note, float]]

MATRIX_BYTES_BESIDE_INDEX = 32 * 1024 * 1024
"""The largest matrix of a namespace that an index could propose for: up to there it is as quick."""

SMALL = 100
"""So few vectors are as well read as ranked by the server."""

_TRIES = 2
"""So often a recall is tried with a snapshot for each statement, before it takes one for all."""

_last = (
    select(notes.c.number)
    .where(notes.c.tenant == tenants.c.number, notes.c.namespace == namespaces.c.number)
    .order_by(notes.c.number.desc())
    .limit(fixed(1))
    .scalar_subquery()
)
_FACTS = Statement(
    select(
        namespaces.c.number, namespaces.c.note_count, namespaces.c.changes,
        namespaces.c.removed_at, _last, embedders.c.number, embedders.c.name,
        embedders.c.dimensions, indexed_by(embedders.c.number),
    )
    .select_from(
        tenants.join(tenant_states, tenant_states.c.tenant == tenants.c.number)
        .outerjoin(
            embedders,
            and_(
                embedders.c.tenant == tenants.c.number,
                embedders.c.number == tenant_states.c.embedder,
            ),
        )
        .outerjoin(
            namespaces,
            and_(
                namespaces.c.tenant == tenants.c.number, namespaces.c.name == given("namespace")
            ),
        )
    )
    .where(tenants.c.name == given("name"))
)  # fmt: skip


class Facts(NamedTuple):
    """A namespace at one instant, and the embedder whose vectors are in use then.

    ``embedder`` is 0 and ``standing`` None where there is none; ``indexed`` is about how many
    vectors its index holds, None where there is no index.
    """

    namespace: int
    note_count: int
    changes: int
    removed_at: int
    last: int
    embedder: int
    standing: EmbedderInfo | None
    indexed: int | None

    @property
    def generation(self) -> Generation:
        return Generation(self.namespace, self.embedder)


async def find_facts(connection: Connection, spot: Spot) -> Facts:
    row = await _FACTS.one(connection, prefix=PREFIX, schema=connection.schema, **spot.given)
    if row is None:
        return Facts(0, 0, 0, 0, 0, 0, None, None)
    number, note_count, changes, removed_at, last, embedder, name, dimensions, indexed = row
    standing = None if name is None else EmbedderInfo(name=name, dimensions=dimensions)
    return Facts(
        number or 0, note_count or 0, changes or 0, removed_at or 0, last or 0, embedder or 0,
        standing, indexed,
    )  # fmt: skip


class Asked(NamedTuple):
    """A query: where, its vector, how many notes (0: all), the digests that they must have."""

    spot: Spot
    query: Vector
    limit: int
    wanted: list[bytes]


class Answer(NamedTuple):
    """The best notes; or up to 1,001 that lack a vector and have to be given one before."""

    best: list[ScoredMemory]
    lacking: list[Lacking]


class Reading(Protocol):
    """Lets ``work`` read with one statement."""

    async def __call__(self, work: Callable[[Connection], Awaitable[T]], /) -> T: ...


class Recall:
    """Ranks the notes of a tenant by embedding."""

    def __init__(self, tenant: Tenant, info: EmbedderInfo) -> None:
        self._tenant = tenant
        self._info = info
        self._matrices = Matrices()
        self._extension: Extension | None = None
        self._looked = False

    async def answer(self, request: ListMemoriesRequest, query: Vector) -> Answer:
        """The answer to a request with a query, whose vector is given.

        Raises EmbeddingMismatchError where the vectors are another embedder's.
        """
        spot = Spot(self._tenant.name, request.namespace)
        asked = Asked(spot, query, request.limit, digests_wanted(request.where))
        storage = self._tenant.storage
        for _ in range(_TRIES):
            answer = await self._attempt(storage.read_once, asked, self._matrices)
            if answer is not None:
                return answer

        async def at_one_instant(connection: Connection) -> Answer:
            async def read(work: Callable[[Connection], Awaitable[T]]) -> T:
                return await work(connection)

            return await self._attempt(read, asked, None) or Answer([], [])

        return await storage.read(at_one_instant)

    async def _attempt(
        self, read: Reading, asked: Asked, matrices: Matrices | None
    ) -> Answer | None:
        """The answer, or None where what was read is not of one instant."""
        facts = await read(partial(find_facts, spot=asked.spot))
        check_embedder(facts.standing, self._info)
        if not facts.note_count:
            return Answer([], [])
        dimensions = self._info.dimensions
        matrix = (matrices or Matrices()).of(facts.namespace, facts.embedder, dimensions)
        by_client = matrices is not None and await self._is_for_client(read, facts, matrix)
        if by_client and facts.embedder:
            if not await self._catch_up(read, asked.spot, facts, matrix):
                return None
            complete = len(matrix.table) == facts.note_count
        else:
            complete = matrix.complete == facts.changes
        if not complete:
            lacking = await self._lacking(read, asked.spot, facts, matrix)
            if lacking or by_client:
                return Answer([], lacking) if lacking else None
        if not asked.query.any():
            return await _all_alike(read, asked)
        scored = await (
            self._ranked(read, asked, facts, matrix)
            if by_client
            else self._near(read, asked, facts)
        )
        return None if scored is None else Answer(_best(scored, asked.limit), [])

    async def _is_for_client(self, read: Reading, facts: Facts, matrix: Matrix) -> bool:
        """Whether to rank by the matrix, which is read first where it is not at hand."""
        size = 4 * self._info.dimensions * facts.note_count
        if size > MATRIX_BYTES or not self._looked:
            self._extension = await read(find_extension)
            self._looked = True
        if self._extension is None or self._info.dimensions > RANKED_DIMENSIONS:
            _check_fits(size, self._extension)
            return not matrix.is_ahead(facts.changes)
        most = MATRIX_BYTES if facts.indexed is None else MATRIX_BYTES_BESIDE_INDEX
        if size > most or matrix.is_ahead(facts.changes):
            return False
        return (
            matrix.stands(facts.removed_at)
            or facts.note_count <= SMALL
            or matrix.is_wanted(facts.removed_at)
        )

    async def _lacking(
        self, read: Reading, spot: Spot, facts: Facts, matrix: Matrix
    ) -> list[Lacking]:
        """Notes without a vector. What was seen to be complete is not looked at again."""
        after = NEVER
        if matrix.complete > NEVER and facts.removed_at <= matrix.complete < facts.changes:
            after = matrix.complete_to
        found = await read(
            lambda connection: lacking_in(
                connection, spot, facts.embedder, after, EMBED_ON_QUERY + 1
            )
        )
        if not found:
            matrix.complete, matrix.complete_to = facts.changes, facts.last
        return found

    async def _catch_up(self, read: Reading, spot: Spot, facts: Facts, matrix: Matrix) -> bool:
        """Bring the matrix up to date; False where another recall did so meanwhile."""
        stands, seen = matrix.stands(facts.removed_at), matrix.seen
        if stands and seen == facts.changes:
            return True
        after = matrix.last if stands else NEVER
        new = await read(
            lambda connection: new_vectors(
                connection,
                self._ranks(),
                spot.tenant,
                facts.generation,
                self._info.dimensions,
                after,
            )
        )
        if matrix.seen != seen:
            return False
        if not stands:
            matrix.void()
        matrix.take(new, facts.changes)
        return True

    async def _ranked(
        self, read: Reading, asked: Asked, facts: Facts, matrix: Matrix
    ) -> Scored | None:
        """The notes that the matrix ranks best, or some more."""
        seen, among = matrix.seen, None
        if asked.wanted:
            among = await read(
                lambda connection: numbers_with(connection, asked.spot, asked.wanted)
            )
            if matrix.seen != seen or not all(number in matrix.table for number in among):
                return None
        scores = dict(matrix.table.ranked(asked.query, asked.limit, among))
        found, changes = await read(lambda connection: notes_at(connection, asked.spot, scores))
        if not found:
            changes = (await read(partial(find_facts, spot=asked.spot))).changes
        if changes != facts.changes or len(found) != len(scores):
            return None
        return [(note, scores[note.number]) for note in found]

    async def _near(self, read: Reading, asked: Asked, facts: Facts) -> Scored | None:
        """The notes that the server finds nearest, or some more."""
        near = await read(lambda connection: self._found(connection, asked, facts))
        changes = near.changes
        if not near.found:
            changes = (await read(partial(find_facts, spot=asked.spot))).changes
        if changes != facts.changes:
            return None
        dimensions = self._info.dimensions
        for _, vector in near.found:
            check_width(vector, dimensions)
        rows = np.array([vector for _, vector in near.found], dtype=np.float32)
        scores = cosines(rows.reshape(-1, dimensions), asked.query)
        return [(note, float(s)) for (note, _), s in zip(near.found, scores, strict=True)]

    async def _found(self, connection: Connection, asked: Asked, facts: Facts) -> Near:
        spot, query, limit, wanted = asked
        extension = self._ranks()
        if extension is None or not limit or limit >= facts.note_count:
            return await everything(connection, spot, facts.generation, wanted)
        if (
            facts.indexed is not None
            and not wanted
            and limit <= MOST_PROPOSED
            and facts.note_count >= LARGE
            and facts.note_count * SHARE >= facts.indexed
        ):
            near = await rank_by_index(connection, extension, spot, facts.embedder, query, limit)
            if near is not None:
                return near
        return await rank_exactly(
            connection, extension, spot, facts.generation, query, limit, wanted
        )

    def _ranks(self) -> Extension | None:
        """The extension, where it can rank vectors of this length."""
        return self._extension if self._info.dimensions <= RANKED_DIMENSIONS else None


def _check_fits(size: int, extension: Extension | None) -> None:
    if size > MATRIX_BYTES:
        missing = "a database without the extension vector" if extension is None else "vectors"
        raise InvalidRequestError(
            field="namespace",
            found=f"{missing}, and {size} bytes of vectors to rank",
            allowed=f"{MATRIX_BYTES} bytes, which a client ranks by itself; for more install "
            f"pgvector 0.5 or newer and run CREATE EXTENSION vector, with an embedder of up to "
            f"{RANKED_DIMENSIONS} dimensions",
        )


async def _all_alike(read: Reading, asked: Asked) -> Answer:
    """The answer to a zero vector, to which every note is as near as another."""
    found = await read(
        lambda connection: listed(connection, asked.spot, wanted=asked.wanted, most=asked.limit)
    )
    return Answer([ScoredMemory(item=note.stored(), score=0.0) for note in found], [])


def _best(scored: Scored, limit: int) -> list[ScoredMemory]:
    scored.sort(key=lambda pair: (-pair[1], pair[0].place))
    best = scored[:limit] if limit else scored
    return [ScoredMemory(item=note.stored(), score=score) for note, score in best]
