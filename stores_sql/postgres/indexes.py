"""Indexes beside the declared ones: made by the operator where they help, never by a put or a
recall, and missed by nobody but the clock.

They are built while others read and write, in no transaction. What is cut off leaves a half-built
one behind, which is dropped and built anew the next time. Whoever builds has to own the table.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    and_,
    cast,
    column,
    exists,
    func,
    select,
    table,
)

from stores_sql.parameters import given
from stores_sql.postgres.statements import Connection, Statement

_classes = table(
    "pg_class",
    column("oid"), column("relname", Text), column("relnamespace"), column("reltuples"),
    column("relowner"), column("relkind", Text),
    schema="pg_catalog",
)  # fmt: skip
_indexes = table("pg_index", column("indexrelid"), column("indisvalid"), schema="pg_catalog")
_schemas = table("pg_namespace", column("oid"), column("nspname", Text), schema="pg_catalog")
_building = table("pg_stat_progress_create_index", column("index_relid"), schema="pg_catalog")
_in_schema = and_(
    _schemas.c.nspname == given("schema", Text), _classes.c.relnamespace == _schemas.c.oid
)


def rows_in(index: ColumnElement[str]) -> ColumnElement[Any]:
    """About how many rows an index of ``schema`` holds; NULL without one that is usable."""
    return (
        select(cast(_classes.c.reltuples, BigInteger))
        .where(
            _in_schema,
            _classes.c.relname == index,
            and_(_indexes.c.indexrelid == _classes.c.oid, _indexes.c.indisvalid),
        )
        .scalar_subquery()
    )


_IS_USABLE = Statement(select(rows_in(given("index", Text)).is_not(None)))
_MAY = Statement(
    select(func.pg_has_role(_classes.c.relowner, given("right", Text))).where(
        _in_schema,
        _classes.c.relname == given("table", Text),
        _classes.c.relkind == given("kind", Text),
    )
)
_STATE = Statement(
    select(
        _indexes.c.indisvalid,
        exists(select(_building.c.index_relid).where(_building.c.index_relid == _classes.c.oid)),
    ).where(
        _in_schema,
        _classes.c.relname == given("index", Text),
        _indexes.c.indexrelid == _classes.c.oid,
    )
)
_NAMED = Statement(
    select(cast(_classes.c.relname, Text)).where(
        _in_schema,
        func.starts_with(cast(_classes.c.relname, Text), given("prefix", Text)),
        _indexes.c.indexrelid == _classes.c.oid,
    )
)


async def is_usable(connection: Connection, index: str) -> bool:
    return bool(await _IS_USABLE.value(connection, schema=connection.schema, index=index))


async def names_of(connection: Connection, prefix: str) -> list[str]:
    """The indexes whose names begin so, half-built ones too."""
    rows = await _NAMED.all(connection, schema=connection.schema, prefix=prefix)
    return [name for (name,) in rows]


async def may_index(connection: Connection, of: str) -> bool:
    """Whether the role owns the table, which must not be partitioned: then its partitions are
    indexed one by one, by whoever made them."""
    may = await _MAY.value(connection, schema=connection.schema, table=of, right="USAGE", kind="r")
    return bool(may)


async def build(connection: Connection, index: str, of: str, form: str) -> None:
    """Build an index unless it is there, or is being built. ``form`` says how, from USING on.

    All texts are of names that were checked and of numbers of ours; DDL takes no parameters.
    """
    found = await _STATE.one(connection, schema=connection.schema, index=index)
    if found is not None and (found[0] or found[1]):
        return
    if found is not None:
        await drop(connection, index)
    await connection.driver.execute(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {connection.schema}.{of} {form}"
    )


async def drop(connection: Connection, index: str) -> None:
    await connection.driver.execute(
        f"DROP INDEX CONCURRENTLY IF EXISTS {connection.schema}.{index}"
    )
