"""Embedders, and the vectors that they wrote: a generation for each, beside the notes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    LargeBinary,
    Text,
    and_,
    case,
    column,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or

from stores_core.embedding import Vector
from stores_core.errors import CorruptRecordError
from stores_core.moving import EmbedderInfo
from stores_sql.parameters import fixed, given
from stores_sql.postgres.notes import COLUMNS, HERE, Note, Spot, in_namespace
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import (
    embedders,
    namespaces,
    notes,
    tenant_states,
    tenants,
    vectors,
)

FORGOTTEN_AT_ONCE = 10_000
"""So many vectors of an old generation go in one transaction."""

_ACTIVE = Statement(
    select(embedders.c.name, embedders.c.dimensions)
    .select_from(
        tenants.join(tenant_states, tenant_states.c.tenant == tenants.c.number).join(
            embedders,
            and_(
                embedders.c.tenant == tenants.c.number,
                embedders.c.number == tenant_states.c.embedder,
            ),
        )
    )
    .where(tenants.c.name == given("name"))
)
_SET_ACTIVE = Statement(
    update(tenant_states)
    .values(embedder=given("embedder"))
    .where(tenant_states.c.tenant == given("tenant"))
)
_of_info = (embedders.c.name == given("embedder"), embedders.c.dimensions == given("dimensions"))
_FIND = Statement(select(embedders.c.number).where(embedders.c.tenant == TENANT, *_of_info))
_FIND_IN = Statement(
    select(embedders.c.number).where(embedders.c.tenant == given("tenant"), *_of_info)
)
_ENTER = Statement(
    insert_or(embedders)
    .values(tenant=given("tenant"), name=given("embedder"), dimensions=given("dimensions"))
    .on_conflict_do_nothing()
)

_ELEMENT = np.dtype([("length", ">i4"), ("value", ">f4")])
_ARRAY_HEADER, _VECTOR_HEADER = 20, 4

sent = func.array_send(vectors.c.vector, type_=LargeBinary)
"""A vector as :func:`vector_from_array` reads it; an array would come as so many Python floats."""

# A scalar subquery with a limit stays one look-up in the index for each note. An anti-join may, as
# long as the tables are not analysed, go through all vectors of the namespace for each note.
_lacks_vector = (
    select(vectors.c.note)
    .where(
        vectors.c.tenant == notes.c.tenant,
        vectors.c.namespace == notes.c.namespace,
        vectors.c.embedder == given("embedder"),
        vectors.c.note == notes.c.number,
    )
    .correlate(notes)
    .limit(fixed(1))
    .scalar_subquery()
    .is_(None)
)
_LACKING_IN = Statement(
    select(*COLUMNS)
    .where(*in_namespace, notes.c.number > given("after"), _lacks_vector)
    .limit(given("most", BigInteger))
)
_LACKING = Statement(
    select(namespaces.c.name, *COLUMNS)
    .select_from(
        namespaces.join(
            notes,
            and_(notes.c.tenant == namespaces.c.tenant, notes.c.namespace == namespaces.c.number),
        )
    )
    .where(namespaces.c.tenant == TENANT, _lacks_vector)
    .limit(given("most", BigInteger))
)
_VECTORS_OF = Statement(
    select(vectors.c.note, sent).where(
        vectors.c.tenant == TENANT,
        vectors.c.namespace == HERE,
        vectors.c.embedder == given("embedder"),
        vectors.c.note == func.any(given("numbers", ARRAY(BigInteger))),
    )
)
_HOLD_TENANT = Statement(
    select(tenants.c.number).where(tenants.c.number == given("tenant")).with_for_update()
)
_SHIFT = Statement(
    update(namespaces)
    .values(changes=namespaces.c.changes + fixed(1), removed_at=namespaces.c.changes + fixed(1))
    .where(namespaces.c.tenant == given("tenant"))
)
_HOLD_NAMESPACES = Statement(
    select(namespaces.c.name, namespaces.c.number)
    .where(
        namespaces.c.tenant == given("tenant"),
        namespaces.c.name == func.any(given("namespaces", ARRAY(Text))),
    )
    .order_by(namespaces.c.name)
    .with_for_update(key_share=True)
)
_OTHERS = Statement(
    select(embedders.c.number).where(
        embedders.c.tenant == given("tenant"), embedders.c.number != given("embedder")
    )
)
_some = (
    select(vectors.c.namespace, vectors.c.note)
    .where(vectors.c.tenant == given("tenant"), vectors.c.embedder == given("embedder"))
    .limit(given("most", BigInteger))
    .cte("some")
)
_FORGET = Statement(
    delete(vectors).where(
        vectors.c.tenant == given("tenant"),
        vectors.c.embedder == given("embedder"),
        vectors.c.namespace == _some.c.namespace,
        vectors.c.note == _some.c.note,
    )
)
_FORGET_EMBEDDER = Statement(
    delete(embedders).where(
        embedders.c.tenant == given("tenant"), embedders.c.number == given("embedder")
    )
)


class Lacking(NamedTuple):
    """A note without a vector, and its namespace."""

    namespace: str
    note: Note


async def active(connection: Connection, tenant: str) -> EmbedderInfo | None:
    """The embedder whose vectors recall uses; None until the first were written."""
    row = await _ACTIVE.one(connection, name=tenant)
    return None if row is None else EmbedderInfo(name=row[0], dimensions=row[1])


async def find_embedder(connection: Connection, tenant: str, info: EmbedderInfo) -> int:
    """The number of an embedder, or 0 where it has no vectors yet."""
    number: int | None = await _FIND.value(
        connection, name=tenant, embedder=info.name, dimensions=info.dimensions
    )
    return number or 0


async def enter_embedder(connection: Connection, tenant: int, info: EmbedderInfo) -> int:
    """The number of an embedder, which gets one if it has none."""
    along: dict[str, Any] = {
        "tenant": tenant, "embedder": info.name, "dimensions": info.dimensions
    }  # fmt: skip
    number: int | None = await _FIND_IN.value(connection, **along)
    while number is None:
        await _ENTER.run(connection, **along)
        number = await _FIND_IN.value(connection, **along)
    return number


async def set_active(connection: Connection, tenant: int, embedder: int) -> None:
    """Let recall use the vectors of this embedder."""
    await _SET_ACTIVE.run(connection, tenant=tenant, embedder=embedder)


async def lacking_in(
    connection: Connection, spot: Spot, embedder: int, after: int, most: int
) -> list[Lacking]:
    """Notes of one namespace, with numbers above ``after``, that have no vector; up to ``most``."""
    rows = await _LACKING_IN.all(
        connection, embedder=embedder, after=after, most=most, **spot.given
    )
    return [Lacking(spot.namespace, Note._make(row)) for row in rows]


async def lacking(connection: Connection, tenant: str, embedder: int, most: int) -> list[Lacking]:
    """Notes of the tenant that have no vector of this embedder, up to ``most``."""
    rows = await _LACKING.all(connection, name=tenant, embedder=embedder, most=most)
    return [Lacking(row[0], Note._make(row[1:])) for row in rows]


async def vectors_of(
    connection: Connection, spot: Spot, embedder: int, numbers: Sequence[int]
) -> dict[int, Vector]:
    """The vectors of these notes, by number."""
    rows = await _VECTORS_OF.all(connection, embedder=embedder, numbers=list(numbers), **spot.given)
    return {note: vector_from_array(data) for note, data in rows}


async def keep_vectors(
    connection: Connection,
    tenant: int,
    embedder: int,
    found: Sequence[Lacking],
    made: Sequence[Vector],
) -> int:
    """Keep the vector of each note that is still of that version; how many were."""
    names = sorted({lack.namespace for lack in found})
    held = await _HOLD_NAMESPACES.all(connection, tenant=tenant, namespaces=names)
    numbers: dict[str, int] = {row[0]: row[1] for row in held}
    fitting = [
        (numbers[lack.namespace], lack.note, vector)
        for lack, vector in zip(found, made, strict=True)
        if lack.namespace in numbers
    ]
    kept = await _KEEP.run(
        connection,
        tenant=tenant,
        embedder=embedder,
        in_namespaces=[number for number, _, _ in fitting],
        numbers=[note.number for _, note, _ in fitting],
        versions=[note.version for _, note, _ in fitting],
        vectors=[number for _, _, vector in fitting for number in vector.tolist()],
        dimensions=len(made[0]),
    )
    await _CHANGED.run(connection, tenant=tenant, namespaces=names, embedder=embedder)
    return kept


def _keeping() -> Statement:
    some = (
        func.unnest(
            given("in_namespaces", ARRAY(BigInteger)),
            given("numbers", ARRAY(BigInteger)),
            given("versions", ARRAY(BigInteger)),
        )
        .table_valued(
            column("namespace", BigInteger),
            column("note", BigInteger),
            column("version", BigInteger),
            with_ordinality="nth",
        )
        .render_derived()
    )
    flat = select(given("vectors", ARRAY(REAL)).label("numbers")).cte("flat")
    width = given("dimensions", BigInteger)
    begin = (some.c.nth - fixed(1)) * width + fixed(1)
    written = insert_or(vectors).from_select(
        ["tenant", "namespace", "embedder", "note", "vector"],
        select(
            notes.c.tenant, notes.c.namespace, given("embedder", BigInteger), notes.c.number,
            flat.c.numbers[begin : some.c.nth * width],
        ).where(
            notes.c.tenant == given("tenant"),
            notes.c.namespace == some.c.namespace,
            notes.c.number == some.c.note,
            notes.c.version == some.c.version,
        ),
    )  # fmt: skip
    return Statement(
        written.on_conflict_do_update(
            constraint=vectors.primary_key, set_={"vector": written.excluded.vector}
        )
    )


_KEEP = _keeping()
_is_active = exists(
    select(tenant_states.c.tenant).where(
        tenant_states.c.tenant == given("tenant"), tenant_states.c.embedder == given("embedder")
    )
)
_CHANGED = Statement(
    update(namespaces)
    .values(
        changes=namespaces.c.changes + fixed(1),
        # What clients hold of the vectors in use still stands when others were written.
        removed_at=case(
            (_is_active, namespaces.c.changes + fixed(1)), else_=namespaces.c.removed_at
        ),
    )
    .where(
        namespaces.c.tenant == given("tenant"),
        namespaces.c.name == func.any(given("namespaces", ARRAY(Text))),
    )
)


async def take_over(connection: Connection, tenant: int, embedder: int) -> None:
    """Use this embedder's vectors from now on.

    Whoever was putting notes when this began has ended, and whoever comes later sees it: a put
    holds the tenant as this does, and finds its namespace changed.
    """
    await set_active(connection, tenant, embedder)
    await _SHIFT.run(connection, tenant=tenant)


async def hold_tenant(connection: Connection, tenant: int) -> None:
    """Wait for all who write notes, and let nobody write any until the end of the transaction."""
    await _HOLD_TENANT.run(connection, tenant=tenant)


async def others(connection: Connection, tenant: int, embedder: int) -> list[int]:
    """The other embedders of the tenant."""
    rows = await _OTHERS.all(connection, tenant=tenant, embedder=embedder)
    return [number for (number,) in rows]


async def forget_some(connection: Connection, tenant: int, embedder: int) -> bool:
    """Remove vectors of a generation, and itself with the last ones; whether more are left."""
    gone = await _FORGET.run(connection, tenant=tenant, embedder=embedder, most=FORGOTTEN_AT_ONCE)
    if gone == FORGOTTEN_AT_ONCE:
        return True
    await _FORGET_EMBEDDER.run(connection, tenant=tenant, embedder=embedder)
    return False


def vector_from_array(data: bytes) -> Vector:
    """A vector in the binary form of an array."""
    elements = np.frombuffer(data, dtype=_ELEMENT, offset=_ARRAY_HEADER)
    return elements["value"].astype(np.float32)


def vector_from_sent(data: bytes) -> Vector:
    """A vector in the binary form of the extension's type."""
    return np.frombuffer(data, dtype=">f4", offset=_VECTOR_HEADER).astype(np.float32)


def check_width(found: Vector, dimensions: int) -> None:
    """Raise CorruptRecordError for a stored vector of another length."""
    if len(found) != dimensions:
        raise CorruptRecordError("memory: a stored vector has the wrong length")
