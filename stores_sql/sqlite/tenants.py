"""Tenants as a whole: which hold data, how much, and erasing one."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    LargeBinary,
    Table,
    and_,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
)

from stores_sql.parameters import fixed, given
from stores_sql.sqlite.logs import leave
from stores_sql.sqlite.statements import Connection, Statement
from stores_sql.sqlite.storage import NOBODY, find
from stores_sql.sqlite.tables import (
    CHUNK_SPAN,
    ENTRY_SPAN,
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
_LIST = Statement(
    select(tenants.c.name).where(_holding).order_by(tenants.c.name).limit(given("most"))
)
_LIST_AFTER = Statement(
    select(tenants.c.name)
    .where(tenants.c.name > given("last"), _holding)
    .order_by(tenants.c.name)
    .limit(given("most"))
)
_IS_HOLDING = Statement(
    select(tenants.c.number).where(tenants.c.number == given("tenant"), _holding)
)

_of_log = and_(
    entries.c.place >= logs.c.number * fixed(ENTRY_SPAN),
    entries.c.place < (logs.c.number + fixed(1)) * fixed(ENTRY_SPAN),
)
_of_result = and_(
    chunks.c.place >= results.c.number * fixed(CHUNK_SPAN),
    chunks.c.place < (results.c.number + fixed(1)) * fixed(CHUNK_SPAN),
)
_of_run = run_keys.c.run == runs.c.number
_range_of_run = run_ranges.c.run == runs.c.number
_of_namespace = notes.c.namespace == namespaces.c.number
_filter_of_namespace = note_filters.c.namespace == namespaces.c.number
_vector_of_namespace = vectors.c.namespace == namespaces.c.number


def _sum(owner: Table, source: FromClause, *columns: ColumnElement[Any]) -> Statement:
    """Sums up the rows of ``source``: these columns in bytes, and what a row takes beside them."""
    # As blobs, since the length of a text counts characters and ends at a NUL.
    sizes = [func.length(cast(column, LargeBinary)) for column in columns]
    row = sum(sizes, fixed(ROW_BYTES))
    return Statement(
        select(func.coalesce(func.sum(row), fixed(0)))
        .select_from(source)
        .where(owner.c.tenant == given("tenant"))
    )


_SIZES = (
    _sum(runs, runs, runs.c.id, runs.c.parent, runs.c.labels),
    _sum(runs, runs.join(run_keys, _of_run), run_keys.c.key, run_keys.c.digest),
    _sum(runs, runs.join(run_ranges, _range_of_run)),
    _sum(labels, labels, labels.c.key, labels.c.value, labels.c.id),
    _sum(logs, logs, logs.c.id),
    _sum(logs, logs.join(entries, _of_log), entries.c.body),
    _sum(namespaces, namespaces, namespaces.c.name),
    _sum(
        namespaces,
        namespaces.join(notes, _of_namespace),
        notes.c.key, notes.c.folded, notes.c.metadata, notes.c.value,
    ),
    _sum(
        namespaces,
        namespaces.join(note_filters, _filter_of_namespace),
        note_filters.c.digest,
    ),
    _sum(namespaces, namespaces.join(vectors, _vector_of_namespace), vectors.c.vector),
    _sum(results, results, results.c.ref, results.c.labels, results.c.rest),
    _sum(results, results.join(chunks, _of_result), chunks.c.text),
)  # fmt: skip

_RUNS = Statement(select(runs.c.number).where(runs.c.tenant == given("tenant")))
_LOGS = Statement(select(logs.c.number).where(logs.c.tenant == given("tenant")))
_RESULTS = Statement(select(results.c.number).where(results.c.tenant == given("tenant")))
_NAMESPACES = Statement(select(namespaces.c.number).where(namespaces.c.tenant == given("tenant")))
_DELETE_KEYS = Statement(delete(run_keys).where(run_keys.c.run == given("run")))
_DELETE_ENTRIES = Statement(
    delete(entries).where(entries.c.place >= given("first"), entries.c.place < given("last"))
)
_DELETE_CHUNKS = Statement(
    delete(chunks).where(chunks.c.place >= given("first"), chunks.c.place < given("last"))
)
_DELETE_IN_NAMESPACE = tuple(
    Statement(delete(table).where(table.c.namespace == given("namespace")))
    for table in (vectors, note_filters, notes)
)
_DELETE_OF_TENANT = tuple(
    Statement(delete(table).where(table.c.tenant == given("tenant")))
    for table in (runs, logs, labels, namespaces, embedders, results)
)
_DELETE_TENANT = Statement(delete(tenants).where(tenants.c.number == given("tenant")))


def list_tenants(connection: Connection, last: str | None, most: int) -> list[str]:
    """The tenants behind ``last`` that hold data, in code-point order."""
    if last is None:
        rows = _LIST.all(connection, most=most)
    else:
        rows = _LIST_AFTER.all(connection, last=last, most=most)
    return [name for (name,) in rows]


def count_bytes(connection: Connection, tenant: int) -> int:
    """What the texts, blobs and rows of a tenant take, without what SQLite adds."""
    return sum(statement.value(connection, tenant=tenant) for statement in _SIZES)


def erase(connection: Connection, name: str) -> bool:
    """Remove everything of a tenant, its name too; whether there was anything."""
    tenant = find(connection, name)
    if tenant == NOBODY:
        return False
    held = _IS_HOLDING.one(connection, tenant=tenant) is not None
    for (run,) in _RUNS.all(connection, tenant=tenant):
        leave(connection, run)
        _DELETE_KEYS.run(connection, run=run)
    for (log,) in _LOGS.all(connection, tenant=tenant):
        first = log * ENTRY_SPAN
        _DELETE_ENTRIES.run(connection, first=first, last=first + ENTRY_SPAN)
    for (result,) in _RESULTS.all(connection, tenant=tenant):
        first = result * CHUNK_SPAN
        _DELETE_CHUNKS.run(connection, first=first, last=first + CHUNK_SPAN)
    for (namespace,) in _NAMESPACES.all(connection, tenant=tenant):
        for statement in _DELETE_IN_NAMESPACE:
            statement.run(connection, namespace=namespace)
    for statement in _DELETE_OF_TENANT:
        statement.run(connection, tenant=tenant)
    _DELETE_TENANT.run(connection, tenant=tenant)
    return held
