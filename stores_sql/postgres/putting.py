"""Writing notes: a put in one statement, and what it takes where that does not do.

A namespace's row counts the changes of its notes, and whoever changes one holds that row. So a
statement that finds the row as its snapshot has it, and holds it then, knows that all it read of
the namespace is still so.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    CTE,
    REAL,
    BigInteger,
    Boolean,
    LargeBinary,
    Text,
    case,
    column,
    delete,
    exists,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or

from stores_core.codec import encode_json
from stores_core.embedding import Vector
from stores_core.memory import MemoryItem
from stores_core.moving import EmbedderInfo
from stores_core.values import micros
from stores_sql.parameters import fixed, given
from stores_sql.postgres.notes import digests_of, folded_note
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import HELD_TENANT
from stores_sql.postgres.tables import (
    embedders,
    namespaces,
    note_filters,
    notes,
    tenant_states,
    vectors,
)


class Put(NamedTuple):
    """What became of one note."""

    key: str
    version: int
    created: bool
    number: int


class NewNotes:
    """Notes of one namespace on their way in, as the parameters of a put."""

    def __init__(self, items: Sequence[MemoryItem], at: int) -> None:
        self.keys = [item.key for item in items]
        filters = [(n, d) for n, item in enumerate(items, 1) for d in digests_of(item.metadata)]
        self.given: dict[str, Any] = {
            "keys": self.keys,
            "created": [at if i.created_at is None else micros(i.created_at) for i in items],
            "updated": at,
            "folded": [folded_note(item.key, item.value) for item in items],
            "metadata": [encode_json(item.metadata).decode() for item in items],
            "values": [item.value.encode() for item in items],
            "filter_of": [nth for nth, _ in filters],
            "digests": [digest for _, digest in filters],
        }

    def embed(self, info: EmbedderInfo, vectors: Sequence[Vector]) -> None:
        """Give each note its vector."""
        self.given |= {
            "embedder": info.name,
            "dimensions": info.dimensions,
            "vectors": [number for vector in vectors for number in vector.tolist()],
        }


def _statement(*, embedded: bool) -> Statement:
    """Puts notes if nothing stands against it; a row for each note that was put, or none.

    Against it stand: no tenant or namespace, another embedder's vectors, another version than the
    one expected, metadata that changes (``settled`` says that the old filters are gone), a cap
    that would be exceeded, somebody who changed the namespace at the same time.
    """
    entered = (
        func.unnest(
            given("keys", ARRAY(Text)),
            given("created", ARRAY(BigInteger)),
            given("folded", ARRAY(LargeBinary)),
            given("metadata", ARRAY(Text)),
            given("values", ARRAY(LargeBinary)),
        )
        .table_valued(
            column("key", Text(collation="C")),
            column("created", BigInteger),
            column("folded", LargeBinary),
            column("metadata", Text),
            column("value", LargeBinary),
            with_ordinality="nth",
        )
        .render_derived()
    )
    put = select(*entered.c).cte("put")
    held = HELD_TENANT.cte("held")
    seen = _seen(held, embedded=embedded).cte("seen")
    old = (
        select(notes.c.number, notes.c.key, notes.c.version, notes.c.metadata)
        .where(
            notes.c.tenant == seen.c.tenant,
            notes.c.namespace == seen.c.number,
            notes.c.key == func.any(given("keys", ARRAY(Text))),
        )
        .cte("old")
    )
    changes_metadata = exists().where(old.c.key == put.c.key, old.c.metadata != put.c.metadata)
    found = func.coalesce(select(func.max(old.c.version)).scalar_subquery(), fixed(0))
    new_count = func.cardinality(given("keys", ARRAY(Text))) - (
        select(func.count()).select_from(old).scalar_subquery()
    )
    expected, cap = given("expected", BigInteger), given("cap", BigInteger)
    fit = (
        select(*seen.c)
        .where(
            or_(given("settled", Boolean), ~changes_metadata),
            or_(expected.is_(None), expected == found),
            or_(cap == fixed(0), seen.c.note_count + new_count <= cap),
        )
        .cte("fit")
    )
    locked = (
        select(*fit.c)
        .where(
            namespaces.c.tenant == fit.c.tenant,
            namespaces.c.name == given("namespace"),
            namespaces.c.changes == fit.c.changes,
        )
        .with_for_update(of=namespaces, key_share=True)
        .cte("locked")
    )
    changed = (
        update(notes)
        .values(
            updated=given("updated"),
            version=notes.c.version + fixed(1),
            folded=put.c.folded,
            metadata=put.c.metadata,
            value=put.c.value,
        )
        .where(
            notes.c.tenant == locked.c.tenant,
            notes.c.namespace == locked.c.number,
            notes.c.key == put.c.key,
        )
        .returning(notes.c.number, notes.c.key, notes.c.version, notes.c.created)
        .cte("changed")
    )
    names = [
        "tenant", "namespace", "key", "created", "updated", "version", "folded", "metadata",
        "value",
    ]  # fmt: skip
    made = (
        insert(notes)
        .from_select(
            names,
            select(
                locked.c.tenant, locked.c.number, put.c.key, put.c.created,
                given("updated", BigInteger), locked.c.version_floor + fixed(1), put.c.folded,
                put.c.metadata, put.c.value,
            )
            .where(put.c.key.not_in(select(old.c.key)))
            .order_by(put.c.nth),
        )
        .returning(notes.c.number, notes.c.key, notes.c.version, notes.c.created)
        .cte("made")
    )  # fmt: skip
    stands = union_all(
        select(*changed.c, literal_column("false", Boolean).label("is_new")),
        select(*made.c, literal_column("true", Boolean).label("is_new")),
    ).cte("stands")
    others = select(embedders.c.number).where(embedders.c.tenant == locked.c.tenant)
    if embedded:
        others = others.where(embedders.c.number != locked.c.embedder)
    parts: list[Any] = [
        _counted(locked, changed, made),
        _filtered(locked, put, stands),
        delete(vectors).where(
            vectors.c.tenant == locked.c.tenant,
            vectors.c.namespace == locked.c.number,
            vectors.c.embedder.in_(others.correlate(locked)),
            vectors.c.note.in_(select(changed.c.number)),
        ).cte("vectors_gone"),
    ]  # fmt: skip
    if embedded:
        parts.append(_embedded(locked, put, stands))
    answer = select(stands.c.key, stands.c.version, stands.c.is_new, stands.c.number)
    return Statement(answer.add_cte(*parts))


def _seen(held: CTE, *, embedded: bool) -> Any:
    """The namespace as the snapshot has it; no row where its vectors are not this embedder's."""
    ours: Any = embedders.c.number if embedded else null()
    seen = select(
        held.c.number.label("tenant"), tenant_states.c.version_floor, namespaces.c.number,
        namespaces.c.note_count, namespaces.c.changes, ours.label("embedder"),
    ).where(
        tenant_states.c.tenant == held.c.number,
        namespaces.c.tenant == held.c.number,
        namespaces.c.name == given("namespace"),
    )  # fmt: skip
    if embedded:
        seen = seen.where(
            embedders.c.tenant == held.c.number,
            embedders.c.name == given("embedder"),
            embedders.c.dimensions == given("dimensions"),
            embedders.c.number == tenant_states.c.embedder,
        )
    return seen


def _counted(locked: CTE, changed: CTE, made: CTE) -> CTE:
    """One more change. Only what does not just add counts as a removal."""
    new_count = select(func.count()).select_from(made).scalar_subquery()
    any_changed = exists(select(changed.c.number))
    next_change = namespaces.c.changes + fixed(1)
    return (
        update(namespaces)
        .values(
            note_count=namespaces.c.note_count + new_count,
            changes=next_change,
            removed_at=case((any_changed, next_change), else_=namespaces.c.removed_at),
        )
        .where(namespaces.c.tenant == locked.c.tenant, namespaces.c.name == given("namespace"))
        .cte("counted")
    )


def _filtered(locked: CTE, put: CTE, stands: CTE) -> CTE:
    entered = (
        func.unnest(given("filter_of", ARRAY(BigInteger)), given("digests", ARRAY(LargeBinary)))
        .table_valued(column("nth", BigInteger), column("digest", LargeBinary))
        .render_derived()
    )
    return (
        insert_or(note_filters)
        .from_select(
            ["tenant", "namespace", "digest", "created", "note"],
            select(
                locked.c.tenant, locked.c.number, entered.c.digest, stands.c.created,
                stands.c.number,
            ).where(entered.c.nth == put.c.nth, put.c.key == stands.c.key),
        )
        .on_conflict_do_nothing()
        .cte("filtered")
    )  # fmt: skip


def _embedded(locked: CTE, put: CTE, stands: CTE) -> CTE:
    flat = select(given("vectors", ARRAY(REAL)).label("numbers")).cte("flat")
    width = given("dimensions", BigInteger)
    begin = (put.c.nth - fixed(1)) * width + fixed(1)
    written = insert_or(vectors).from_select(
        ["tenant", "namespace", "embedder", "note", "vector"],
        select(
            locked.c.tenant, locked.c.number, locked.c.embedder, stands.c.number,
            flat.c.numbers[begin : put.c.nth * width],
        ).where(put.c.key == stands.c.key),
    )  # fmt: skip
    return written.on_conflict_do_update(
        constraint=vectors.primary_key, set_={"vector": written.excluded.vector}
    ).cte("embedded")


_PUT = _statement(embedded=False)
_PUT_EMBEDDED = _statement(embedded=True)


async def put(
    connection: Connection,
    tenant: str,
    namespace: str,
    new: NewNotes,
    *,
    expected: int | None = None,
    cap: int = 0,
    settled: bool = False,
) -> list[Put]:
    """Put notes by one statement, in their order; none at all where something stands against it."""
    statement = _PUT_EMBEDDED if "embedder" in new.given else _PUT
    rows = await statement.all(
        connection, name=tenant, namespace=namespace, expected=expected, cap=cap, settled=settled,
        **new.given,
    )  # fmt: skip
    by_key = {row[0]: Put(*row) for row in rows}
    return [by_key[key] for key in new.keys] if rows else []
