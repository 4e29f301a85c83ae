"""The extension pgvector: where it lives, what its version has, and its expressions for vectors.

Its types, functions and operators are named with its schema, wherever that is.
"""

from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Float,
    LargeBinary,
    Text,
    cast,
    column,
    func,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import dialect
from sqlalchemy.types import UserDefinedType

from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Statement

VECTOR_DIMENSIONS, HALF_DIMENSIONS = 2_000, 4_000
"""So many can be indexed as ``vector``, and as ``halfvec``."""

quoted: Any = dialect().identifier_preparer.quote  # pyright: ignore[reportUnknownMemberType] - it has no types
"""A name of a schema as it stands in a statement."""

_extensions = table(
    "pg_extension", column("extname", Text), column("extversion", Text), column("extnamespace"),
    schema="pg_catalog",
)  # fmt: skip
_schemas = table("pg_namespace", column("oid"), column("nspname", Text), schema="pg_catalog")
_FOUND = Statement(
    select(cast(_schemas.c.nspname, Text), _extensions.c.extversion)
    .where(_extensions.c.extname == given("extension", Text))
    .where(_schemas.c.oid == _extensions.c.extnamespace)
)


class Extension(NamedTuple):
    """The extension as it was found: in which schema, and its version."""

    schema: str
    version: tuple[int, ...]

    @property
    def can_iterate(self) -> bool:
        """Whether an index goes on proposing until enough of what it proposed is wanted."""
        return self.version >= (0, 8)

    @property
    def has_halves(self) -> bool:
        """Whether there is the type ``halfvec``, and a function that scales to length 1."""
        return self.version >= (0, 7)

    def can_index(self, dimensions: int) -> bool:
        most = HALF_DIMENSIONS if self.has_halves else VECTOR_DIMENSIONS
        return self.version >= (0, 5) and dimensions <= most


async def schema_and_version(connection: Connection, extension: str) -> tuple[str, str] | None:
    """Where an extension lives, and which it is, if this database has it."""
    row = await _FOUND.one(connection, extension=extension)
    return None if row is None else (row[0], row[1])


async def find_extension(connection: Connection) -> Extension | None:
    """The extension pgvector, if this database has it."""
    found = await schema_and_version(connection, "vector")
    if found is None:
        return None
    numbers = tuple(int(part) for part in found[1].split(".") if part.isdigit())
    return Extension(found[0], numbers)


class _Typed(UserDefinedType[Any]):
    """A type of the extension."""

    cache_ok = True

    def __init__(self, schema: str, name: str, dimensions: int) -> None:
        self.schema, self.name, self.dimensions = schema, name, dimensions

    def get_col_spec(self, **_: Any) -> str:
        return f"{quoted(self.schema)}.{self.name}({int(self.dimensions)})"


class Forms:
    """The expressions of one extension for vectors of one length."""

    def __init__(self, extension: Extension, dimensions: int) -> None:
        self.extension = extension
        self.dimensions = dimensions
        self._vector = _Typed(extension.schema, "vector", dimensions)
        self._functions = getattr(func, extension.schema)

    def _operator(self, name: str, one: Any, other: Any) -> ColumnElement[float]:
        schema = quoted(self.extension.schema)
        return one.op(f"OPERATOR({schema}.{name})", return_type=Float())(other)

    def typed(self, array: Any) -> Any:
        """An array as the extension's type."""
        return cast(array, self._vector)

    def indexed(self, array: Any) -> Any:
        """What the index holds of an array. A half has no room for long vectors, nor for the
        numbers of short ones, so halves are scaled to length 1 before."""
        typed = self.typed(array)
        if self.dimensions <= VECTOR_DIMENSIONS:
            return typed
        scaled = self._functions.l2_normalize(typed)
        return cast(scaled, _Typed(self.extension.schema, "halfvec", self.dimensions))

    @property
    def operators(self) -> str:
        """The operator class of the index."""
        kind = "vector" if self.dimensions <= VECTOR_DIMENSIONS else "halfvec"
        return f"{quoted(self.extension.schema)}.{kind}_cosine_ops"

    def proposing(self, array: Any, asked: Any) -> ColumnElement[float]:
        """The distance by which the index is ordered."""
        return self._operator("<=>", self.indexed(array), self.indexed(asked))

    def distance(self, array: Any, asked: Any) -> ColumnElement[float]:
        """The negative cosine, where ``asked`` has length 1; 0 for a zero vector. It never squares
        a number in float32, where that could overflow or vanish."""
        typed, asked = self.typed(array), self.typed(asked)
        if self.extension.has_halves:
            return self._operator("<#>", self._functions.l2_normalize(typed), asked)
        length = func.nullif(self._functions.vector_norm(typed), fixed(0))
        return func.coalesce(self._operator("<#>", typed, asked) / length, fixed(0))

    def sent(self, array: Any) -> Any:
        """A vector as ``vector_from_sent`` reads it."""
        return self._functions.vector_send(self.typed(array), type_=LargeBinary)
