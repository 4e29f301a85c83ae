"""Parameters of statements, and what may stand in their texts."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, literal_column
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.types import TypeEngine


def given(name: str, type: TypeEngine[Any] | type[TypeEngine[Any]] | None = None) -> Any:
    """A parameter that has its value when the statement runs.

    ``type`` is needed where nothing beside the parameter says it.
    """
    return bindparam(name, required=True, type_=type)


def fixed(value: int) -> ColumnElement[int]:
    """A number that is part of the statement's text."""
    return literal_column(str(int(value)))


EMPTY: ColumnElement[str] = literal_column("''")
"""The empty string, as part of a statement's text."""


def check_constants(binds: Mapping[str, BindParameter[Any]]) -> dict[str, int]:
    """The parameters that SQLAlchemy added by itself, as the 0 of "LIMIT ? OFFSET 0".

    Raises ValueError for a value that stands in a statement and is not given() or fixed().
    """
    constants: dict[str, Any] = {
        name: bound.value for name, bound in binds.items() if not bound.required
    }
    if any(type(value) is not int for value in constants.values()):
        raise ValueError("a value stands in a statement; use given() or fixed()")
    return constants
