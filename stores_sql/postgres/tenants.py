"""Tenants as a whole: which hold data, how much, and erasing one."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Table,
    delete,
    exists,
    func,
    or_,
    select,
)

from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import (
    METADATA,
    chunks,
    embedders,
    entries,
    labels,
    logs,
    namespaces,
    note_filters,
    notes,
    results,
    run_keys,
    run_ranges,
    runs,
    tenants,
    vectors,
)

ROW_BYTES = 16
"""What the numbers of a row are counted as, beside its texts."""


def _holds(table: Table) -> ColumnElement[bool]:
    return exists().where(table.c.tenant == tenants.c.number)


_holding = or_(_holds(runs), _holds(namespaces), _holds(results))
_names = select(tenants.c.name).where(_holding).order_by(tenants.c.name).limit(given("most"))
_LIST = Statement(_names)
_LIST_AFTER = Statement(_names.where(tenants.c.name > given("last")))
_HOLD = Statement(select(tenants.c.number).where(tenants.c.name == given("name")).with_for_update())
_IS_HOLDING = Statement(
    select(tenants.c.number).where(tenants.c.number == given("tenant"), _holding)
)


def _bytes(table: Table, *columns: ColumnElement[Any]) -> ColumnElement[Any]:
    """What the rows of ``table`` take: these columns in bytes, and the rest of each row."""
    sizes = (
        func.cardinality(column) * fixed(4) if table is vectors else func.octet_length(column)
        for column in columns
    )
    total = func.sum(sum(sizes, fixed(ROW_BYTES)))
    return select(func.coalesce(total, fixed(0))).where(table.c.tenant == TENANT).scalar_subquery()


_COUNT_BYTES = Statement(
    select(
        _bytes(runs, runs.c.id, runs.c.parent, runs.c.labels)
        + _bytes(run_keys, run_keys.c.key, run_keys.c.digest)
        + _bytes(run_ranges)
        + _bytes(labels, labels.c.key, labels.c.value, labels.c.id)
        + _bytes(logs, logs.c.id)
        + _bytes(entries, entries.c.body)
        + _bytes(namespaces, namespaces.c.name)
        + _bytes(notes, notes.c.key, notes.c.folded, notes.c.metadata, notes.c.value)
        + _bytes(note_filters, note_filters.c.digest)
        + _bytes(embedders, embedders.c.name)
        + _bytes(vectors, vectors.c.vector)
        + _bytes(results, results.c.ref, results.c.labels, results.c.rest)
        + _bytes(chunks, chunks.c.text)
    )
)

# Runs first: whoever is at one of them has come to an end then, and nobody comes after.
_of_tenant = [runs, *(table for table in METADATA.sorted_tables if "tenant" in table.c)]
_DELETE = tuple(
    Statement(delete(table).where(table.c.tenant == given("tenant"))) for table in _of_tenant
)
_DELETE_TENANT = Statement(delete(tenants).where(tenants.c.number == given("tenant")))


async def list_tenants(connection: Connection, last: str | None, most: int) -> list[str]:
    """The tenants behind ``last`` that hold data, in code-point order."""
    if last is None:
        rows = await _LIST.all(connection, most=most)
    else:
        rows = await _LIST_AFTER.all(connection, last=last, most=most)
    return [name for (name,) in rows]


async def count_bytes(connection: Connection, tenant: str) -> int:
    """What the texts, bytes and rows of a tenant take, without what Postgres adds."""
    return int(await _COUNT_BYTES.value(connection, name=tenant))


async def erase(connection: Connection, name: str) -> bool:
    """Remove everything of a tenant, its name too; whether there was anything."""
    tenant: int | None = await _HOLD.value(connection, name=name)
    if tenant is None:
        return False
    held = await _IS_HOLDING.one(connection, tenant=tenant) is not None
    for statement in _DELETE:
        await statement.run(connection, tenant=tenant)
    await _DELETE_TENANT.run(connection, tenant=tenant)
    return held
