"""The index of a generation of vectors: made and dropped by the operator, never by a put or a
recall.

It makes recall in large namespaces quicker and each put slower, and recall finds as many notes
without it. So ``admin.reembed`` makes it where a namespace is large, while others read and write,
and where the role may: it has to own the table.
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
from sqlalchemy.dialects.postgresql.base import PGDialect

from stores_core.moving import EmbedderInfo
from stores_sql.parameters import fixed, given
from stores_sql.postgres.extension import Extension, Forms, find_extension
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT, Storage
from stores_sql.postgres.tables import embedders, namespaces, tenant_states, tenants

LARGE = 10_000
"""Notes of a namespace that make an index worth its while."""

SHARE = 20
"""An index is asked where the namespace holds at least one in so many of what is in it."""

PREFIX = "vectors_nearest_"
"""Before the embedder's number: the name of its index."""

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


def _name_of(embedder: ColumnElement[Any]) -> ColumnElement[str]:
    return func.concat(given("prefix", Text), cast(embedder, Text))


def indexed_by(embedder: ColumnElement[Any]) -> ColumnElement[Any]:
    """About how many vectors the index of this embedder holds; NULL without one that is usable."""
    return (
        select(cast(_classes.c.reltuples, BigInteger))
        .where(
            _in_schema,
            _classes.c.relname == _name_of(embedder),
            and_(_indexes.c.indexrelid == _classes.c.oid, _indexes.c.indisvalid),
        )
        .scalar_subquery()
    )


_MAY = Statement(
    select(func.pg_has_role(_classes.c.relowner, given("right", Text))).where(
        _in_schema,
        _classes.c.relname == given("table", Text),
        _classes.c.relkind == given("kind", Text),
    )
)
_IS_LARGE = Statement(
    select(namespaces.c.number)
    .where(namespaces.c.tenant == TENANT, namespaces.c.note_count >= given("least"))
    .limit(fixed(1))
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
_ORPHANS = Statement(
    select(cast(_classes.c.relname, Text)).where(
        _in_schema,
        func.starts_with(cast(_classes.c.relname, Text), given("prefix", Text)),
        _indexes.c.indexrelid == _classes.c.oid,
        _classes.c.relname.not_in(select(_name_of(embedders.c.number))),
    )
)


_IN_USE = Statement(
    select(embedders.c.dimensions, indexed_by(embedders.c.number))
    .select_from(
        tenants.join(tenant_states, tenant_states.c.tenant == tenants.c.number).join(
            embedders, embedders.c.number == tenant_states.c.embedder
        )
    )
    .where(tenants.c.name == given("name"), embedders.c.tenant == tenants.c.number)
)


async def unindexed(storage: Storage, tenant: str) -> str:
    """What to do where recall in a large namespace ranks all notes for want of an index; or ""."""

    async def work(connection: Connection) -> bool:
        extension = await find_extension(connection)
        row = await _IN_USE.one(connection, name=tenant, schema=connection.schema, prefix=PREFIX)
        if extension is None or row is None or row[1] is not None:
            return False
        large = await _IS_LARGE.value(connection, name=tenant, least=LARGE)
        return large is not None and extension.can_index(row[0])

    if not await storage.examine(work):
        return ""
    return (
        f"a namespace has {LARGE} notes or more and its vectors no index, so recall there ranks "
        "all of them; run reembed as the owner of the tables"
    )


async def make_index(storage: Storage, tenant: str, info: EmbedderInfo, embedder: int) -> None:
    """Index the vectors of this embedder, where that helps and the role may do so.

    It takes minutes for 100,000 notes; what is cut off is begun anew the next time.
    """

    async def work(connection: Connection) -> None:
        extension = await find_extension(connection)
        if extension is None or not extension.can_index(info.dimensions):
            return
        if await _IS_LARGE.value(connection, name=tenant, least=LARGE) is None or not await _may(
            connection
        ):
            return
        schema, name = connection.schema, f"{PREFIX}{embedder:d}"
        found = await _STATE.one(connection, schema=schema, index=name)
        if found is not None and (found[0] or found[1]):
            return
        if found is not None:
            await _drop(connection, name)
        await connection.driver.execute(_making(schema, name, extension, info, embedder))

    await storage.examine(work)


async def drop_indexes(storage: Storage) -> None:
    """Drop the indexes of embedders that are no more."""

    async def work(connection: Connection) -> None:
        if await _may(connection):
            for (name,) in await _ORPHANS.all(connection, schema=connection.schema, prefix=PREFIX):
                await _drop(connection, name)

    await storage.examine(work)


async def _may(connection: Connection) -> bool:
    """Whether the role owns the table, which must not be partitioned: then its partitions are
    indexed one by one, by whoever made them."""
    may = await _MAY.value(
        connection, schema=connection.schema, table="vectors", right="USAGE", kind="r"
    )
    return bool(may)


async def _drop(connection: Connection, name: str) -> None:
    await connection.driver.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.schema}.{name}")


def _making(schema: str, name: str, extension: Extension, info: EmbedderInfo, embedder: int) -> str:
    # Of names that were checked and numbers of ours; the statement takes no parameters.
    forms = Forms(extension, info.dimensions)
    indexed = forms.indexed(column("vector")).compile(dialect=PGDialect())
    return (
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {schema}.vectors "
        f"USING hnsw (({indexed}) {forms.operators}) WHERE embedder = {embedder:d}"
    )
