"""What errors of Postgres and of its driver mean to a caller: the one place that looks at them.

Nothing of an error's own text is passed on, since it may show data; its SQLSTATE is. The driver's
error stays as the cause, with its texts taken out.
"""

from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from stores_core.errors import (
    CorruptRecordError,
    InvalidRequestError,
    OutcomeUnknownError,
    SchemaVersionError,
    StoreError,
    StoreUnavailableError,
)

_TAKEN_BACK = {"40001", "40P01", "0A000"}
_LOST = ("08", "57P")
"""The connection or the server went away, and with it the answer."""

_DAMAGED = {"XX001", "XX002", "22P02", "22P05"}
_NO_TABLES = {"42P01", "42703", "3F000"}
_REFUSED = {
    "26000": "behind this pooler open with prepared_statements=False",
    "42P05": "behind this pooler open with prepared_statements=False",
    "25006": "the server is read-only, as a standby is",
    "28000": "the server does not let this role in",
    "28P01": "the server refused the password",
    "3D000": "there is no database of this name",
    "42501": "the role lacks a right on the tables",
    "53100": "the server's disk is full",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left",
    "55P03": "a lock was not to be had in time",
    "57014": "the server cancelled the statement, as statement_timeout makes it",
    "57P03": "the server is starting, stopping or recovering",
}

_TEXTS = (
    "message", "detail", "hint", "query", "context", "internal_query", "column_name",
    "server_source_line",
)  # fmt: skip


def is_taken_back(error: StoreError) -> bool:
    """Whether the server undid something because of others, so that it may be tried again.

    A deadlock is such a case, and so is a prepared statement whose tables a migration changed.
    """
    return sqlstate_of(error.__cause__) in _TAKEN_BACK


def is_duplicate(error: StoreError) -> bool:
    """Whether the server refused because something of that name came to be meanwhile."""
    return sqlstate_of(error.__cause__) == "23505"


def sqlstate_of(error: BaseException | None) -> str:
    """The SQLSTATE that an error carries, or ""."""
    return getattr(error, "sqlstate", None) or ""


def not_applied(error: Exception) -> Exception:
    """The error of a read, or of a write that certainly did not happen."""
    if isinstance(error, StoreError):
        return error
    code = sqlstate_of(error)
    if code in _DAMAGED:
        meaning: StoreError = CorruptRecordError(
            f"Postgres says that what is stored is damaged ({code}); `verify` lists all damage"
        )
    elif code.startswith("22"):  # also where the driver could not encode it
        meaning = InvalidRequestError(
            field="request", found="a value that the database does not take", allowed="another"
        )
    elif code in _NO_TABLES:
        meaning = SchemaVersionError(
            f"the tables are not there, or not as this code knows them ({code}); open with "
            "create=True, or run backend.admin.migrate"
        )
    elif isinstance(error, _drivers()):
        meaning = StoreUnavailableError(f"{_why(error, code)}; nothing was applied")
    else:
        return error
    meaning.__cause__ = _without_texts(error)
    return meaning


def of_write(error: Exception) -> Exception:
    """The error of a write that was under way: what the server refused has not happened."""
    code = sqlstate_of(error)
    if isinstance(error, StoreError) or not isinstance(error, _drivers()):
        return error
    if code and not code.startswith(_LOST):
        return not_applied(error)
    unknown = OutcomeUnknownError(
        f"the connection to Postgres was lost ({_name(error, code)}); what was written may or may "
        "not be there"
    )
    unknown.__cause__ = _without_texts(error)
    return unknown


def _drivers() -> tuple[type[Exception], ...]:
    return asyncpg.PostgresError, asyncpg.InterfaceError, OSError, EOFError


def _why(error: Exception, code: str) -> str:
    why = _REFUSED.get(code)
    if why is None:
        lost = not code or code.startswith(_LOST)
        why = "Postgres cannot be reached" if lost else "Postgres refused"
    return f"{why} ({_name(error, code)})"


def _name(error: Exception, code: str) -> str:
    return code or type(error).__name__


def _without_texts(error: Exception) -> Exception:
    cleaned: Any = error
    for name in _TEXTS:
        if getattr(error, name, None):
            setattr(cleaned, name, None)
    if not isinstance(error, OSError):
        error.args = (sqlstate_of(error) or type(error).__name__,)
    error.__cause__ = error.__context__ = None  # such as the value that could not be encoded
    return error
