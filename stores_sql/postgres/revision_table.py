"""The table that says of which revision a schema is: one row, beside the tables themselves.

It has the shape of Alembic's, under a name of its own, so that it never meets the host's.
"""

import hashlib
from collections.abc import Sequence

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import ClauseElement, insert, literal, select, update

from stores_core.revisions import Revision

NAME = "agent_stores_revision"


def reading(schema: str) -> str:
    """The statement that reads the name of the revision."""
    table = _table_in(schema)
    return _text(select(table.c.version_num).order_by(table.c.version_num))


def changes(schema: str, start: Revision | None, end: Revision) -> Sequence[str]:
    """The statements that change it, or that make the table where it is not there."""
    table, value = _table_in(schema), {"version_num": literal(str(end))}
    if start is None:
        return _text(CreateTable(table)), _text(insert(table).values(value))
    held = table.c.version_num == literal(str(start))
    return (_text(update(table).where(held).values(value)),)


def quoted(schema: str) -> str:
    """The name of a schema as it stands in a statement."""
    return PGDialect().identifier_preparer.quote(schema)


def lock_of(schema: str) -> int:
    """The number of the advisory lock of whoever changes the tables of a schema."""
    digest = hashlib.sha256(f"{NAME}\0{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _table_in(schema: str) -> Table:
    return Table(
        NAME,
        MetaData(),
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name=f"{NAME}_pkc"),
        schema=schema,
    )


def _text(clause: ClauseElement) -> str:
    literally = {"literal_binds": True}
    return str(clause.compile(dialect=PGDialect(), compile_kwargs=literally))
