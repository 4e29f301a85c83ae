"""The database file: where it may be, who may read it, and how a connection to it is set up."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from stores_core.disks import is_on_network
from stores_core.errors import InvalidRequestError
from stores_core.revisions import State
from stores_sql.sqlite.failures import code_of, not_applied
from stores_sql.sqlite.locking import LockFile
from stores_sql.sqlite.statements import Connection
from stores_sql.sqlite.versions import create_tables, refusal, revision_of, state_of

PAGE_BYTES = 8192
"""Entries are some kilobytes each: on pages of this size less room is left over than on 4 KiB."""

_NEEDED = (3, 35, 0)
_CACHED_STATEMENTS = 256


def locate(place: str) -> Path:
    """The path that a URL names, checked. Raises InvalidRequestError."""
    if sqlite3.sqlite_version_info < _NEEDED:
        raise _unfit(f"SQLite {sqlite3.sqlite_version}", "SQLite 3.35 or newer")
    if place in ("", ":memory:"):
        raise _unfit("no path", "sqlite:path, or memory: for what need not last")
    if "\0" in place:
        raise _unfit("a path with NUL", "sqlite:path")
    path = Path(place)
    folder = Path(os.path.realpath(path.parent))
    if not folder.is_dir():
        raise _unfit("a folder that does not exist", "a folder that exists")
    path = folder / path.name
    _check_file(path)
    if is_on_network(folder):
        raise _unfit("a network file system, where SQLite's locks fail", "a local one")
    return path


def _check_file(path: Path) -> None:
    # A link could lead what we write to anywhere; and with two names for one file, each process
    # would have its own lock file and write-ahead log.
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unfit("a path that cannot be looked at", "a file") from error
    if stat.S_ISLNK(found.st_mode):
        raise _unfit("a symbolic link", "the path of the file itself")
    if not stat.S_ISREG(found.st_mode):
        raise _unfit("no regular file", "a file, or a path where none is yet")
    if found.st_nlink > 1:
        raise _unfit("a file with several names (hard links)", "a file with one name")


def _unfit(found: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(field="url", found=found, allowed=allowed)


def prepare(path: Path, lock: LockFile, busy_timeout: float, *, create: bool) -> State:
    """See to it that the file is there, with its tables; what it is then.

    With ``create`` they are made where there are none, and those of an older revision are left for
    ``migrate``; without, nothing is changed and whatever this code does not work on is refused.

    Everything happens under the lock file, so that of several processes that open a new file at
    once one makes it and the others find it made.
    """
    with lock.held(busy_timeout):
        _check_file(path)
        if not path.exists():
            if not create:
                raise refusal(State.ABSENT)
            # Made by us first, since SQLite would leave the mode to the umask.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)
        try:
            with closing(_connected(path, busy_timeout)) as connection:
                return _prepared(connection, create=create)
        except sqlite3.Error as error:
            if code_of(error) == sqlite3.SQLITE_NOTADB:
                raise refusal(State.FOREIGN) from error
            raise not_applied(error) from error


def _prepared(connection: Connection, *, create: bool) -> State:
    state = state_of(connection)
    if state is State.ABSENT and create:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES:d}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        create_tables(connection)
        connection.execute("COMMIT")
        return State.CURRENT
    if state is not State.CURRENT and not (state is State.BEHIND and create):
        raise refusal(state, revision_of(connection))
    connection.execute("PRAGMA journal_mode = WAL")
    return state


def connect_to_write(path: Path, busy_timeout: float, *, synchronous: str) -> Connection:
    """The connection of a writer. SQLite checkpoints inside COMMIT, so under the lock file."""
    connection = _connected(path, busy_timeout)
    connection.execute(
        "PRAGMA synchronous = FULL" if synchronous == "full" else "PRAGMA synchronous = NORMAL"
    )
    return connection


def connect_to_read(path: Path, busy_timeout: float) -> Connection:
    """A connection that cannot change anything."""
    connection = _connected(path, busy_timeout)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connected(path: Path, busy_timeout: float) -> Connection:
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout,
        isolation_level=None,  # transactions begin and end where we say so
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
    )
    # Whatever schema the file has: no functions run from it, and no page is trusted unseen.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    return connection
