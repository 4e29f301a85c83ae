"""The index of a generation of vectors: made and dropped by the operator, never by a put or a
recall.

It makes recall in large namespaces quicker and each put slower, and recall finds as many notes
without it. So ``admin.reembed`` makes it where a namespace is large, and where the role may.
"""

from typing import Any

from sqlalchemy import ColumnElement, Text, cast, column, func, select
from sqlalchemy.dialects.postgresql.base import PGDialect

from stores_core.moving import EmbedderInfo
from stores_sql.parameters import fixed, given
from stores_sql.postgres.extension import Extension, Forms, find_extension
from stores_sql.postgres.indexes import build, drop, may_index, names_of, rows_in
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT, Storage
from stores_sql.postgres.tables import embedders, namespaces, tenant_states, tenants

LARGE = 10_000
"""Notes of a namespace that make an index worth its while."""

SHARE = 20
"""An index is asked where the namespace holds at least one in so many of what is in it."""

PREFIX = "vectors_nearest_"
"""Before the embedder's number: the name of its index."""


def indexed_by(embedder: ColumnElement[Any]) -> ColumnElement[Any]:
    """About how many vectors the index of this embedder holds; NULL without one that is usable."""
    return rows_in(func.concat(given("prefix", Text), cast(embedder, Text)))


_IS_LARGE = Statement(
    select(namespaces.c.number)
    .where(namespaces.c.tenant == TENANT, namespaces.c.note_count >= given("least"))
    .limit(fixed(1))
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
_NUMBERS = Statement(select(embedders.c.number))


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
        large = await _IS_LARGE.value(connection, name=tenant, least=LARGE)
        if large is not None and await may_index(connection, "vectors"):
            form = _form(extension, info, embedder)
            await build(connection, f"{PREFIX}{embedder:d}", "vectors", form)

    await storage.examine(work)


async def drop_indexes(storage: Storage) -> None:
    """Drop the indexes of embedders that are no more."""

    async def work(connection: Connection) -> None:
        if await may_index(connection, "vectors"):
            kept = {f"{PREFIX}{number}" for (number,) in await _NUMBERS.all(connection)}
            for name in await names_of(connection, PREFIX):
                if name not in kept:
                    await drop(connection, name)

    await storage.examine(work)


def _form(extension: Extension, info: EmbedderInfo, embedder: int) -> str:
    forms = Forms(extension, info.dimensions)
    indexed = forms.indexed(column("vector")).compile(dialect=PGDialect())
    return f"USING hnsw (({indexed}) {forms.operators}) WHERE embedder = {embedder:d}"
