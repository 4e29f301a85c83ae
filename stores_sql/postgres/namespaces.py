"""A namespace that is held: its notes as they are, and taking them away."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    LargeBinary,
    Text,
    and_,
    column,
    delete,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or

from stores_sql.parameters import fixed, given
from stores_sql.postgres.notes import COLUMNS, Note, digests_of
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.tables import (
    embedders,
    namespaces,
    note_filters,
    notes,
    tenant_states,
    vectors,
)

_of_tenant = namespaces.c.tenant == given("tenant")
_here = and_(_of_tenant, namespaces.c.name == given("namespace"))
_entering = insert_or(namespaces).values(
    tenant=given("tenant"), name=given("namespace"), note_count=fixed(0), changes=fixed(0),
    removed_at=fixed(0),
)  # fmt: skip
_ENTER = Statement(
    _entering.on_conflict_do_update(
        constraint=namespaces.primary_key, set_={"changes": namespaces.c.changes}
    ).returning(namespaces.c.number, namespaces.c.note_count)
)
_HOLD = Statement(
    select(namespaces.c.number, namespaces.c.note_count).where(_here).with_for_update()
)
_LEAVE = Statement(delete(namespaces).where(_here, namespaces.c.note_count == fixed(0)))
_NUMBERED = and_(notes.c.tenant == given("tenant"), notes.c.namespace == given("number"))
_STANDING = Statement(
    select(*COLUMNS).where(_NUMBERED, notes.c.key == func.any(given("keys", ARRAY(Text))))
)
_OLDEST_OTHERS = Statement(
    select(*COLUMNS)
    .where(_NUMBERED, notes.c.key != func.all(given("keys", ARRAY(Text))))
    .order_by(notes.c.created, notes.c.number)
    .limit(given("most", BigInteger))
)
_FLOOR = and_(
    tenant_states.c.tenant == given("tenant"), tenant_states.c.version_floor < given("floor")
)
_RAISE_FLOOR = Statement(update(tenant_states).values(version_floor=given("floor")).where(_FLOOR))
_gone = (
    func.unnest(
        given("digests", ARRAY(LargeBinary)),
        given("created", ARRAY(BigInteger)),
        given("targets", ARRAY(BigInteger)),
    )
    .table_valued(
        column("digest", LargeBinary),
        column("created", BigInteger),
        column("note", BigInteger),
    )
    .render_derived()
)
_REMOVE_FILTERS = Statement(
    delete(note_filters).where(
        note_filters.c.tenant == given("tenant"),
        note_filters.c.namespace == given("number"),
        tuple_(note_filters.c.digest, note_filters.c.created, note_filters.c.note).in_(
            select(*_gone.c)
        ),
    )
)


def _removing() -> Statement:
    numbers = given("numbers", ARRAY(BigInteger))
    own = select(embedders.c.number).where(embedders.c.tenant == given("tenant"))
    without = (
        delete(vectors)
        .where(
            vectors.c.tenant == given("tenant"),
            vectors.c.namespace == given("number"),
            vectors.c.embedder.in_(own),
            vectors.c.note == func.any(numbers),
        )
        .cte("without")
    )
    gone = (
        delete(notes)
        .where(_NUMBERED, notes.c.number == func.any(numbers))
        .returning(notes.c.number)
        .cte("gone_notes")
    )
    next_change = namespaces.c.changes + fixed(1)
    return Statement(
        update(namespaces)
        .values(
            note_count=namespaces.c.note_count
            - select(func.count()).select_from(gone).scalar_subquery(),
            changes=next_change,
            removed_at=next_change,
        )
        .where(_here)
        .add_cte(without)
    )


_REMOVE = _removing()
_HIGHEST_VERSION = Statement(select(func.max(notes.c.version)).where(_NUMBERED))
_CLEAR = tuple(
    Statement(
        delete(table).where(table.c.tenant == given("tenant"), table.c.namespace == given("number"))
    )
    for table in (vectors, note_filters, notes)
)
_DELETE_NAMESPACE = Statement(delete(namespaces).where(_here))


class Namespace(NamedTuple):
    """A namespace's row, which is held."""

    tenant: int
    number: int
    note_count: int


async def enter_namespace(connection: Connection, tenant: int, name: str) -> Namespace:
    """The namespace, held; it is made if it is not there."""
    row = await _ENTER.one(connection, tenant=tenant, namespace=name)
    return Namespace(tenant, *(row or ()))


async def hold_namespace(connection: Connection, tenant: int, name: str) -> Namespace | None:
    """The namespace, held, if it is there."""
    row = await _HOLD.one(connection, tenant=tenant, namespace=name)
    return None if row is None else Namespace(tenant, *row)


async def leave_if_empty(connection: Connection, namespace: Namespace, name: str) -> None:
    """A namespace without notes has no row."""
    await _LEAVE.run(connection, tenant=namespace.tenant, namespace=name)


async def standing(
    connection: Connection, namespace: Namespace, keys: Iterable[str]
) -> dict[str, Note]:
    """The notes with these keys that are there."""
    rows = await _STANDING.all(
        connection, tenant=namespace.tenant, number=namespace.number, keys=list(keys)
    )
    return {note.key: note for note in map(Note._make, rows)}


async def oldest_others(
    connection: Connection, namespace: Namespace, keys: Sequence[str], most: int
) -> list[Note]:
    """The oldest notes with other keys."""
    rows = await _OLDEST_OTHERS.all(
        connection,
        tenant=namespace.tenant, number=namespace.number, keys=list(keys), most=most,
    )  # fmt: skip
    return [Note._make(row) for row in rows]


async def remove(
    connection: Connection, namespace: Namespace, name: str, gone: Sequence[Note]
) -> None:
    """Take notes away; no note starts at a version that one of them had."""
    await remove_filters(connection, namespace, gone)
    await _REMOVE.run(
        connection,
        tenant=namespace.tenant, number=namespace.number, namespace=name,
        numbers=[note.number for note in gone],
    )  # fmt: skip
    await leave_if_empty(connection, namespace, name)
    highest = max((note.version for note in gone), default=0)
    await raise_version_floor(connection, namespace.tenant, highest)


async def remove_filters(connection: Connection, namespace: Namespace, of: Iterable[Note]) -> None:
    """Let notes no longer be found by the metadata that they have."""
    filters = [(d, n.created, n.number) for n in of for d in digests_of(n.decoded())]
    if filters:
        digests, created, targets = zip(*filters, strict=True)
        await _REMOVE_FILTERS.run(
            connection,
            tenant=namespace.tenant, number=namespace.number, digests=digests, created=created,
            targets=targets,
        )  # fmt: skip


async def clear(connection: Connection, namespace: Namespace, name: str) -> int:
    """Take all notes of a namespace away, and itself; how many there were."""
    along = {"tenant": namespace.tenant, "number": namespace.number}
    highest = await _HIGHEST_VERSION.value(connection, **along)
    for statement in _CLEAR:
        await statement.run(connection, **along)
    await _DELETE_NAMESPACE.run(connection, tenant=namespace.tenant, namespace=name)
    await raise_version_floor(connection, namespace.tenant, highest or 0)
    return namespace.note_count


async def raise_version_floor(connection: Connection, tenant: int, floor: int) -> None:
    """Let no new note start at a version up to ``floor``."""
    await _RAISE_FLOOR.run(connection, tenant=tenant, floor=floor)
