"""Statements: SQLAlchemy compiles each once, the standard library's driver runs the text.

So no SQL is ever put together from values, and no layer stands between a hot query and SQLite.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Table, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.elements import BindParameter

from stores_sql.parameters import check_constants

Connection = sqlite3.Connection
Row = tuple[Any, ...]

_DIALECT = sqlite.dialect(paramstyle="qmark")


class Statement:
    """A compiled statement. Its parameters are the names given to :func:`given`."""

    __slots__ = ("_constants", "_names", "text")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        compiled = clause.compile(dialect=_DIALECT, column_keys=columns)
        self._constants = check_constants(_binds(compiled))
        self.text = str(compiled)
        self._names: Sequence[str] = tuple(getattr(compiled, "positiontup", None) or ())

    def run(self, connection: Connection, **values: Any) -> sqlite3.Cursor:
        if self._constants:
            values |= self._constants
        return connection.execute(self.text, [values[name] for name in self._names])

    def one(self, connection: Connection, **values: Any) -> Row | None:
        """The first row, or None."""
        return self.run(connection, **values).fetchone()

    def all(self, connection: Connection, **values: Any) -> list[Row]:
        return self.run(connection, **values).fetchall()

    def value(self, connection: Connection, **values: Any) -> Any:
        """The first column of the first row, or None where there is no row."""
        row = self.one(connection, **values)
        return None if row is None else row[0]

    def number(self, connection: Connection, **values: Any) -> int:
        """Insert a row; the number that it got."""
        made: Any = self.run(connection, **values).lastrowid  # never None once a row was inserted
        return made

    def many(self, connection: Connection, rows: Iterable[Row]) -> None:
        """Run once for each row of parameters, in the order of the text."""
        connection.executemany(self.text, rows)


def _binds(compiled: Any) -> dict[str, BindParameter[Any]]:
    return compiled.binds


def inserting(table: Table, *, numbered: bool = False) -> Statement:
    """Inserts a row of ``table``; ``numbered`` leaves its ``number`` to SQLite."""
    columns = [column.name for column in table.columns if not (numbered and column.primary_key)]
    return Statement(insert(table), columns)
