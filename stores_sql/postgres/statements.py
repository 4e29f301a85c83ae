"""Statements: SQLAlchemy compiles each once, asyncpg runs the text.

So no SQL is ever put together from values, and no layer stands between a hot query and the server.
The one thing that is put into a text later is the schema, whose name was checked when opening.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ClauseElement, Table, insert
from sqlalchemy.dialects.postgresql import asyncpg as dialects
from sqlalchemy.sql.elements import BindParameter

from stores_sql.parameters import check_constants

_DIALECT: Any = dialects.dialect()  # pyright: ignore[reportUnknownMemberType] - it has no types
_TRANSLATED = {None: "schema"}
_SCHEMA = "__[SCHEMA__none]"  # what SQLAlchemy writes for a schema that is named later

Row = Sequence[Any]


class Driver(Protocol):
    """What is used of a connection of asyncpg."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...
    async def execute(self, query: str, *args: Any) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[Any]]) -> None: ...
    def is_in_transaction(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Connection:
    """A driver's connection, and the schema in which our tables are."""

    driver: Driver
    schema: str


class Statement:
    """A compiled statement. Its parameters are the names given to :func:`given`."""

    __slots__ = ("_constants", "_names", "_template", "_texts")

    def __init__(self, clause: ClauseElement, columns: Sequence[str] | None = None) -> None:
        compiled: Any = clause.compile(
            dialect=_DIALECT, column_keys=columns, schema_translate_map=_TRANSLATED
        )
        binds: dict[str, BindParameter[Any]] = compiled.binds
        self._constants = check_constants(binds)
        self._template = str(compiled)
        self._names: Sequence[str] = tuple(compiled.positiontup or ())
        self._texts: dict[str, str] = {}

    def text(self, schema: str) -> str:
        """The text for tables in this schema."""
        text = self._texts.get(schema)
        if text is None:
            quoted = _DIALECT.identifier_preparer.quote(schema)
            text = self._texts[schema] = self._template.replace(_SCHEMA, quoted)
        return text

    def _arguments(self, values: dict[str, Any]) -> list[Any]:
        if self._constants:
            values |= self._constants
        return [values[name] for name in self._names]

    async def all(self, connection: Connection, **values: Any) -> list[Row]:
        text = self.text(connection.schema)
        return await connection.driver.fetch(text, *self._arguments(values))

    async def one(self, connection: Connection, **values: Any) -> Row | None:
        """The first row, or None."""
        rows = await self.all(connection, **values)
        return rows[0] if rows else None

    async def value(self, connection: Connection, **values: Any) -> Any:
        """The first column of the first row, or None where there is no row."""
        rows = await self.all(connection, **values)
        return rows[0][0] if rows else None

    async def run(self, connection: Connection, **values: Any) -> int:
        """Run for its effect; how many rows it touched."""
        text = self.text(connection.schema)
        done = await connection.driver.execute(text, *self._arguments(values))
        return int(done.rpartition(" ")[2])

    async def many(self, connection: Connection, rows: Iterable[Row]) -> None:
        """Run once for each row of parameters, in the order of the text."""
        await connection.driver.executemany(self.text(connection.schema), rows)


def inserting(table: Table, *, numbered: bool = False) -> Statement:
    """Inserts a row of ``table``; ``numbered`` leaves its ``number`` to the server."""
    columns = [column.name for column in table.columns if not (numbered and column.identity)]
    return Statement(insert(table), columns)
