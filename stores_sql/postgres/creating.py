"""Making the tables in a schema where none are yet, as they are declared."""

import secrets
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateSequence, CreateTable
from sqlalchemy.sql.ddl import ExecutableDDLElement

from stores_core.revisions import Revision
from stores_sql.parameters import given
from stores_sql.postgres.revision_table import changes, quoted
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.tables import METADATA, NUMBERS, STORED_PLAIN, storage

_HAS_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
_INSERT_STORAGE = Statement(insert(storage).values(identity=given("identity")))


async def create_tables(connection: Connection, revision: Revision) -> None:
    """Make schema, tables and indexes, and say that they are of this revision.

    A transaction is open. A schema that is there is not made, which would take a right on the
    database.
    """
    driver, schema = connection.driver, connection.schema
    if not await driver.fetch(_HAS_SCHEMA, schema):
        await driver.execute(_text(CreateSchema(schema), schema))
    for text in declared(schema):
        await driver.execute(text)
    await _INSERT_STORAGE.run(connection, identity=secrets.token_hex(16))
    for text in changes(schema, None, revision):
        await driver.execute(text)


def declared(schema: str) -> Iterator[str]:
    """The statements that make what is declared."""
    yield _text(CreateSequence(NUMBERS), schema)
    for table in METADATA.sorted_tables:
        yield _text(CreateTable(table), schema)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield _text(CreateIndex(index), schema)
    for column in STORED_PLAIN:
        table, name = column.table.name, column.name
        yield f"ALTER TABLE {quoted(schema)}.{table} ALTER COLUMN {name} SET STORAGE EXTERNAL"


def _text(clause: ExecutableDDLElement, schema: str) -> str:
    compiled: Any = clause.compile(
        dialect=PGDialect(), schema_translate_map={None: schema}, render_schema_translate=True
    )
    return str(compiled)
