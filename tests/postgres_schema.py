"""A schema of a test's own: made, looked at, and described to the last detail."""

import importlib
import io
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from stores_core.revisions import Revision
from stores_sql.migrations.chain import NOTHING, Step, chain_in
from stores_sql.postgres import versions
from stores_sql.postgres.revision_table import NAME, changes
from stores_sql.postgres.statements import Connection

T = TypeVar("T")

asyncpg: Any = importlib.import_module("asyncpg")  # which brings no types
SCHEMA = "agent_stores"

_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage,
    a.attidentity, l.collname, pg_get_expr(d.adbin, d.adrelid)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped
"""
_INDEXES = """
SELECT c.relname, pg_get_indexdef(c.oid), i.indisvalid
FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relnamespace = $1::regnamespace
"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = $1::regnamespace
"""
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'
"""
_SEQUENCES = """
SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = $1 AND last_value IS NOT NULL
"""
_RELATIONS = """
SELECT relname, relkind, reloptions::text FROM pg_class WHERE relnamespace = $1::regnamespace
"""


class Server:
    """A database as its owner sees it, and a schema in it."""

    def __init__(self, url: str, schema: str = SCHEMA) -> None:
        self.url, self.schema = url, schema
        self.quoted = f'"{schema}"'

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Connection]:
        driver = await asyncpg.connect(self.url, statement_cache_size=0)
        try:
            yield Connection(driver, self.schema)
        finally:
            driver.terminate()

    async def lend(self, work: Callable[[Connection], Awaitable[T]], /) -> T:
        async with self.connected() as connection:
            return await work(connection)

    async def fetch(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        async with self.connected() as connection:
            return [tuple(row) for row in await connection.driver.fetch(text, *values)]

    async def execute(self, *texts: str) -> None:
        async with self.connected() as connection:
            for text in texts:
                await connection.driver.execute(text)

    async def revision(self) -> str:
        return (await self.lend(versions.look)).name

    async def stamp(self, *names: str) -> None:
        """Say that the schema is of this revision, or of several."""
        table = f"{self.schema}.{NAME}"
        async with self.connected() as connection:
            await connection.driver.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            for name in names:
                await connection.driver.execute(f"INSERT INTO {table} VALUES ($1)", name)  # noqa: S608 - names of ours

    async def migrate(self, target: str = "") -> list[str]:
        return await versions.migrate(self.lend, target)

    async def prepare(self, *, create: bool) -> versions.Found:
        return await self.lend(lambda connection: versions.prepare(connection, create=create))

    async def made_by_chain(self, end: int = versions.CODE.number) -> None:
        """Make the schema by the chain of revisions, up to one of them."""
        await self.execute(f"CREATE SCHEMA {self.quoted}")
        chain, dialect = chain_in(versions.REVISIONS), versions.PGDialect()
        for step in chain.steps(NOTHING, end, dialect, self.schema):
            await self._take(step)

    async def _take(self, step: Step) -> None:
        start = step.start if step.start.number else None
        await self.execute(*step.statements, *changes(self.schema, start, step.end))

    async def rows(self) -> dict[str, str]:
        """The rows of all tables in the words of COPY, and where the sequences are."""
        async with self.connected() as connection:
            driver: Any = connection.driver
            found: dict[str, str] = {}
            for (table,) in await driver.fetch(_TABLES, self.schema):
                text = io.BytesIO()
                await driver.copy_from_table(table, schema_name=self.schema, output=text)
                lines = text.getvalue().decode().split("\n")[:-1]
                found[table] = "".join(f"{line}\n" for line in sorted(lines))
            for name, last in await driver.fetch(_SEQUENCES, self.schema):
                found[f"{name}()"] = str(last)
            return found

    async def restore(self, script: str, rows: Mapping[str, str]) -> None:
        """Make what `rows` found, in tables that a script for psql makes in a transaction."""
        async with self.connected() as connection:
            driver: Any = connection.driver
            await driver.execute(script)
            await driver.execute(f"DELETE FROM {self.schema}.storage")  # noqa: S608 - a name of ours
            for name, text in rows.items():
                if name.endswith("()"):
                    sequence = f"{self.schema}.{name.removesuffix('()')}"
                    await driver.fetch("SELECT setval($1::regclass, $2)", sequence, int(text))
                elif name != NAME:
                    source = io.BytesIO(text.encode())
                    await driver.copy_to_table(name, schema_name=self.schema, source=source)

    async def described(self) -> set[tuple[Any, ...]]:
        """All that the catalogs say of the schema, without its name."""
        found: set[tuple[Any, ...]] = set()
        name = rf'(\b|"){self.schema}"?\.'
        for text in (_COLUMNS, _INDEXES, _CONSTRAINTS, _RELATIONS):
            for row in await self.fetch(text, self.quoted):
                found.add(tuple(re.sub(name, "", str(value)) for value in row))
        return found


@asynccontextmanager
async def role(
    server: Server, *grants: str, rows: bool = False, password: str = ""
) -> AsyncGenerator[str]:
    """The URL of a role that has these rights and no others.

    With ``rows`` it has what docs/migrating.md gives to an application.
    """
    name, schema = f"role_{secrets.token_hex(4)}", server.schema
    literal = (password or "s3cret").replace("'", "''")
    of_an_application = (
        f"GRANT USAGE ON SCHEMA {schema} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name}",
        f"REVOKE INSERT, UPDATE, DELETE ON {schema}.{NAME} FROM {name}",
    )
    await server.execute(
        f"CREATE ROLE {name} LOGIN PASSWORD '{literal}'",
        *(f"GRANT {grant} TO {name}" for grant in grants),
        *(of_an_application if rows else ()),
    )
    parts = urlsplit(server.url)
    place = parts.netloc.rpartition("@")[2]
    netloc = f"{name}:{quote(password or 's3cret', safe='')}@{place}"
    try:
        yield urlunsplit(parts._replace(netloc=netloc))
    finally:
        await server.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


_THIRD = """\
'''a column more'''
import sqlalchemy as sa
revision, down_revision = "0003", "0002_from_0001"
RENAMES = {renames}
def upgrade(op, schema):
    op.add_column("runs", sa.Column("more", sa.Integer), schema=schema)
    op.add_column("notes", sa.Column("more", sa.Integer), schema=schema)
    if RENAMES:
        op.rename_table("tenants", "tenants_3", schema=schema)
def downgrade(op, schema):
    if RENAMES:
        op.rename_table("tenants_3", "tenants", schema=schema)
    op.drop_column("notes", "more", schema=schema)
    op.drop_column("runs", "more", schema=schema)
"""


def with_a_third(folder: Path, patch: pytest.MonkeyPatch, *, renames: bool = False) -> None:
    """Let there be one more revision, which works in a transaction.

    With ``renames`` it shuts out older code that is running, as the rules for revisions have it.
    """
    for path in versions.REVISIONS.glob("r*.py"):
        (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
    (folder / "r0003_more.py").write_text(_THIRD.format(renames=renames), "utf-8")
    patch.setattr(versions, "REVISIONS", folder)
    patch.setattr(versions, "CODE", Revision(3, 3))
