"""What SQLite's errors mean to a caller: the one place that looks at them.

Nothing of an error's own text is passed on, since it may show data; its code is.
"""

import sqlite3

from stores_core.errors import (
    CorruptRecordError,
    InvalidRequestError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSED = {
    sqlite3.SQLITE_FULL: "there is no room left",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_PERM: "the file may not be opened",
    sqlite3.SQLITE_CANTOPEN: "the file, or one beside it, cannot be opened",
    sqlite3.SQLITE_IOERR: "the file cannot be read or written",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_PROTOCOL: "the locks of the file do not work, as on some network file systems",
}


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, or -1 where the driver gave none."""
    code: int = getattr(error, "sqlite_errorcode", -1)
    return code & 0xFF if code >= 0 else -1


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk was full: a transaction that met it has not happened."""
    return code_of(error) == sqlite3.SQLITE_FULL


def undoes_all(error: Exception) -> bool:
    """Whether the rest of a shared transaction should not be trusted after this error."""
    return isinstance(error, sqlite3.Error) and code_of(error) in (_DAMAGED | _REFUSED.keys())


def not_applied(error: Exception) -> Exception:
    """The error of a read, or of a write that was rolled back."""
    if isinstance(error, OverflowError):
        refused: StoreError = InvalidRequestError(
            field="request", found="a number beyond 64 bits", allowed="numbers below 2**63"
        )
    elif isinstance(error, sqlite3.Error):
        refused = _meaning(error)
    else:
        return error
    refused.__cause__ = error
    return refused


def _meaning(error: sqlite3.Error) -> StoreError:
    code = code_of(error)
    if code in _BUSY:
        return busy()
    if code in _DAMAGED:
        return CorruptRecordError(
            f"SQLite says that its file is damaged ({_name(error)}); it was left as it is; "
            "restore it from a backup, or copy what can be read with the sqlite3 tool's .recover"
        )
    why = _REFUSED.get(code, "SQLite refused")
    return StoreUnavailableError(f"{why} ({_name(error)}); nothing was applied")


def at_commit(error: sqlite3.Error) -> Exception:
    """The error of a commit. A full disk stops it before the end; after others nobody knows."""
    if code_of(error) in _BUSY | {sqlite3.SQLITE_FULL}:
        return not_applied(error)
    unknown = OutcomeUnknownError(
        f"the commit failed ({_name(error)}); what was written may or may not be there"
    )
    unknown.__cause__ = error
    return unknown


def busy() -> StoreUnavailableError:
    """Another process writes and did not come to an end in time."""
    return StoreUnavailableError(
        "another process holds the file's write lock for longer than busy_timeout; "
        "nothing was applied"
    )


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", type(error).__name__)
