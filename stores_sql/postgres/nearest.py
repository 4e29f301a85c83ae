"""Ranking by the server, with the extension pgvector: exactly, or as an index proposes.

The extension's types, functions and operators are named with its schema, wherever that is. What an
index needs to be told is set by the statement that uses it, for itself alone, so that no pooler can
lose it or hand it on.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    ARRAY,
    CTE,
    REAL,
    BigInteger,
    ColumnElement,
    Float,
    Select,
    Text,
    func,
    literal_column,
    select,
    true,
)

from stores_core.embedding import Vector
from stores_sql.parameters import fixed, given
from stores_sql.postgres.embedding import sent, vector_from_array, vector_from_sent
from stores_sql.postgres.extension import Extension, Forms
from stores_sql.postgres.notes import (
    CHANGES,
    COLUMNS,
    HERE,
    Note,
    Spot,
    filters_given,
    has_filters,
    one_each,
)
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import note_filters, notes, vectors

RANKED_DIMENSIONS = 16_000
"""The extension's vectors have no more dimensions, so longer ones are ranked by the client."""

MOST_PROPOSED = 100
"""For more than that many notes an index is not asked."""

_PROPOSED = (20, 40, 80, 160, 2 * MOST_PROPOSED)
"""So many an index is asked to propose: part of a statement's text, as the server plans by it."""

_MARGIN = 1e-4
"""How far a cosine that the server computed from float32 may be off; a wide bound."""

_BREADTH = 80
"""How many candidates the index keeps at hand while it searches: found by trial to give a recall of
0.98 and more."""

_SCANNED_AT_MOST = 100_000


class Generation(NamedTuple):
    """The vectors of one embedder in one namespace, by their numbers."""

    namespace: int
    embedder: int

    @property
    def given(self) -> dict[str, int]:
        return {"number": self.namespace, "embedder": self.embedder}


class Near(NamedTuple):
    """Notes that may be the nearest, each with its vector, oldest first; all of one instant, at
    which the namespace had been changed so often."""

    found: list[tuple[Note, Vector]]
    changes: int


async def rank_exactly(
    connection: Connection,
    extension: Extension,
    spot: Spot,
    generation: Generation,
    query: Vector,
    limit: int,
    wanted: Sequence[bytes],
) -> Near:
    """All that may be among the nearest ``limit`` notes that have the digests ``wanted``."""
    statement = _exact(extension, len(query), bool(wanted))
    values: dict[str, Any] = {**generation.given, "asked": _unit(query), "limit": limit}
    if wanted:
        values |= filters_given(wanted)
    return _near(await statement.all(connection, **values, **spot.given), vector_from_sent)


async def rank_by_index(
    connection: Connection,
    extension: Extension,
    spot: Spot,
    embedder: int,
    query: Vector,
    limit: int,
) -> Near | None:
    """As :func:`rank_exactly`, of what the index proposes; None where that is not enough.

    It is not when fewer were proposed than are wanted, when all that were proposed are about as
    near, so that some as near may be missing, and when a zero vector, which is in no index, would
    be among the nearest.
    """
    most = next(most for most in _PROPOSED if most >= 2 * limit)
    breadth = max(_BREADTH, most)
    if not extension.can_iterate:
        breadth *= 4
    rows = await _indexed(extension, len(query), embedder, most).all(
        connection,
        asked=_unit(query), limit=limit, breadth=str(min(breadth, 1_000)),
        scanned=str(_SCANNED_AT_MOST), **spot.given,
    )  # fmt: skip
    if not limit <= len(rows) < most or max(row[2] for row in rows) > -_MARGIN:
        return None
    return _near([(row[0], row[1], *row[3:]) for row in rows], vector_from_sent)


async def everything(
    connection: Connection, spot: Spot, generation: Generation, wanted: Sequence[bytes]
) -> Near:
    """All notes that have the digests ``wanted``. It needs no extension."""
    values = filters_given(wanted) if wanted else {}
    statement = _EVERYTHING[bool(wanted)]
    rows = await statement.all(connection, **generation.given, **values, **spot.given)
    return _near(rows, vector_from_array)


async def new_vectors(
    connection: Connection,
    extension: Extension | None,
    tenant: str,
    generation: Generation,
    dimensions: int,
    after: int,
) -> list[tuple[int, Vector]]:
    """The vectors of notes with numbers above ``after``."""
    statement = _since(extension, dimensions)
    read = vector_from_array if extension is None else vector_from_sent
    rows = await statement.all(connection, name=tenant, after=after, **generation.given)
    return [(number, read(data)) for number, data in rows]


def _near(rows: Sequence[Any], read: Any) -> Near:
    found = [(Note._make(columns), read(data)) for _, data, *columns in rows]
    return Near(found, rows[0][0] if rows else 0)


def _unit(query: Vector) -> list[float]:
    wide = query.astype(np.float64)
    unit: list[float] = (wide / np.linalg.norm(wide)).tolist()
    return unit


_of_generation = (
    vectors.c.tenant == TENANT,
    vectors.c.namespace == given("number", BigInteger),  # a value, by which the server plans
    vectors.c.embedder == given("embedder", BigInteger),
)
_of_note = (
    notes.c.tenant == TENANT,
    notes.c.namespace == HERE,
)


def _vector_of(note: ColumnElement[int], column: ColumnElement[Any]) -> Select[Any]:
    return select(column).where(*_of_generation, vectors.c.note == note)


def _everything(filtered: bool) -> Statement:
    beside = one_each(_vector_of(notes.c.number, sent.label("data")), notes)
    rows = (
        select(CHANGES, beside.c.data, *COLUMNS)
        .select_from(notes.join(beside, true()))
        .where(*_of_note)
    )
    if filtered:
        # As an array, which the server looks up in the index; a list of rows it may go through for
        # each note.
        fitting = select(note_filters.c.note).where(*has_filters).scalar_subquery()
        rows = rows.where(notes.c.number == func.any(func.array(fitting)))
    return Statement(rows.order_by(notes.c.created, notes.c.number))


_EVERYTHING = {filtered: _everything(filtered) for filtered in (False, True)}


@lru_cache(maxsize=64)
def _since(extension: Extension | None, dimensions: int) -> Statement:
    data = sent if extension is None else Forms(extension, dimensions).sent(vectors.c.vector)
    return Statement(
        select(vectors.c.note, data).where(*_of_generation, vectors.c.note > given("after"))
    )


def _asked() -> CTE:
    return select(given("asked", ARRAY(REAL)).label("vector")).cte("asked")


def _nearest(ranked: CTE) -> ColumnElement[Any]:
    """The notes up to the last that is wanted, and those that are about as near.

    As an array, of which the server knows that it is short: so it looks them up one by one.
    """
    last = func.greatest(
        func.least(
            given("limit", BigInteger), select(func.count()).select_from(ranked).scalar_subquery()
        )
        - fixed(1),
        fixed(0),
    )
    furthest = select(ranked.c.distance).order_by(ranked.c.distance).limit(fixed(1)).offset(last)
    up_to = furthest.scalar_subquery() + literal_column(str(_MARGIN), Float)
    return func.any(
        func.array(select(ranked.c.note).where(ranked.c.distance <= up_to).scalar_subquery())
    )


@lru_cache(maxsize=64)
def _exact(extension: Extension, dimensions: int, filtered: bool) -> Statement:
    forms = Forms(extension, dimensions)
    asked = _asked()
    cosine = forms.distance(vectors.c.vector, select(asked.c.vector).scalar_subquery())
    distance = cosine.label("distance")
    rows = select(vectors.c.note, distance).where(*_of_generation)
    if filtered:
        of_note = one_each(_vector_of(note_filters.c.note, distance), note_filters)
        rows = (
            select(note_filters.c.note, of_note.c.distance)
            .select_from(note_filters.join(of_note, true()))
            .where(*has_filters)
        )
    ranked = rows.cte("ranked")
    beside = one_each(_vector_of(notes.c.number, forms.sent(vectors.c.vector).label("data")), notes)
    return Statement(
        select(CHANGES, beside.c.data, *COLUMNS)
        .select_from(notes.join(beside, true()))
        .where(*_of_note, notes.c.number == _nearest(ranked))
        .order_by(notes.c.created, notes.c.number)
    )


@lru_cache(maxsize=64)
def _indexed(extension: Extension, dimensions: int, embedder: int, most: int) -> Statement:
    """The embedder's number is in the text, as only so the server knows its index for this."""
    forms = Forms(extension, dimensions)

    def told(setting: str, value: ColumnElement[str]) -> ColumnElement[str]:
        return func.set_config(literal_column(f"'hnsw.{setting}'"), value, literal_column("true"))

    settings = select(told("ef_search", given("breadth", Text)).label("breadth"))
    if extension.can_iterate:
        settings = settings.add_columns(
            told("iterative_scan", literal_column("'relaxed_order'")),
            told("max_scan_tuples", given("scanned", Text)),
        )
    else:
        settings = settings.add_columns(given("scanned", Text).label("unused"))
    told_first = settings.cte("settings")
    asked = _asked()
    vector = select(asked.c.vector).scalar_subquery()
    proposing = forms.proposing(vectors.c.vector, vector)
    proposed = (
        select(vectors.c.note, vectors.c.vector)
        .where(
            vectors.c.tenant == TENANT,
            # Called as a function, a comparison is found in no other index and counts as likely, so
            # the server walks this one.
            func.pg_catalog.int8eq(vectors.c.namespace, HERE),
            vectors.c.embedder == fixed(embedder),
            told_first.c.breadth.is_not(None),
        )
        .order_by(proposing)
        .limit(fixed(most))
        .lateral("proposed")
    )
    distance = forms.distance(proposed.c.vector, vector)
    ranked = (
        select(proposed.c.note, proposed.c.vector, distance.label("distance"))
        .select_from(told_first.join(proposed, true()))
        .cte("ranked")
    )
    return Statement(
        select(CHANGES, forms.sent(ranked.c.vector), ranked.c.distance, *COLUMNS)
        .where(
            *_of_note,
            notes.c.number == _nearest(ranked),
            ranked.c.note == notes.c.number,
        )
        .order_by(notes.c.created, notes.c.number)
    )
