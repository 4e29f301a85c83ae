"""The stored format: its revision, how a file is recognised, and the way between revisions.

The revision stands in the file's header as ``user_version``, packed into one number, so that it is
read without any table and changes with the transaction that changes the tables.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from stores_core.errors import SchemaVersionError
from stores_core.revisions import Revision, State, destination, state_at
from stores_sql.sqlite.statements import Connection, inserting
from stores_sql.sqlite.tables import METADATA, storage

if TYPE_CHECKING:
    from stores_sql.migrations.chain import Step

CODE = Revision(2, oldest=1)
"""What this code writes. It works on newer ones too whose ``oldest`` is no newer than this."""

APPLICATION_ID = 0x41535452  # "ASTR", in the file's header
REVISIONS = Path(__file__).parent / "revisions"

ADVICE = (
    "back the file up first: sqlite3 FILE \".backup COPY\", or VACUUM INTO 'COPY'",
    "the file cannot be written to by others until all steps are done",
)

_INSERT_STORAGE = inserting(storage)


def state_of(connection: Connection) -> State:
    """What this file is. A file with triggers or views is not one that we made."""
    application = _pragma(connection, "PRAGMA application_id")
    if application == 0 and not _pragma(connection, "SELECT count(*) FROM sqlite_schema"):
        return State.ABSENT
    strange = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')"
    if application != APPLICATION_ID or _pragma(connection, strange):
        return State.FOREIGN
    return state_at(revision_of(connection), CODE)


def version_of(connection: Connection) -> int:
    """What the file's header names as its version: a packed revision."""
    return _pragma(connection, "PRAGMA user_version")


def revision_of(connection: Connection) -> Revision:
    return Revision.unpacked(version_of(connection))


def _pragma(connection: Connection, text: str) -> int:
    return connection.execute(text).fetchone()[0]


def create_tables(connection: Connection) -> None:
    """Make tables and indexes in an empty file. A transaction is open."""
    dialect = sqlite.dialect()
    for table in METADATA.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    _INSERT_STORAGE.run(connection, identity=secrets.token_hex(16))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(f"PRAGMA user_version = {CODE.packed:d}")


def plan(found: Revision, target: str = "") -> "Sequence[Step]":
    """The steps to the revision ``target`` names, or to the code's. Raises InvalidRequestError.

    Alembic is needed only where there are some.
    """
    end = destination(target, found, CODE)
    if end == found.number:
        return ()
    from stores_sql.migrations.chain import chain_in

    return chain_in(REVISIONS).steps(found, end, sqlite.dialect())


def migrate(connection: Connection, target: str = "") -> list[str]:
    """Take the steps that are left, in the open transaction; what was done."""
    steps = plan(revision_of(connection), target)
    for step in steps:
        for text in step.statements:
            connection.execute(text)
        connection.execute(f"PRAGMA user_version = {step.end.packed:d}")
    return [step.sentence for step in steps]


def sql(steps: "Sequence[Step]") -> str:
    """The same as a script for ``sqlite3 -bail``; nothing else may have the file open."""
    lines = ["PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;"]
    for step in steps:
        lines += [f"-- {step.sentence}", *(f"{text};" for text in step.statements)]
        lines.append(f"PRAGMA user_version = {step.end.packed};")
    return "\n\n".join([*lines, "COMMIT;"]) + "\n" if steps else ""


def refusal(state: State, found: Revision | None = None) -> SchemaVersionError:
    """Why stores do not work on a file in this state, and what to do."""
    message = {
        State.ABSENT: "there is no storage of agent-stores at this path; name another file, or "
        "open it with create=True",
        State.FOREIGN: "the file is no storage of agent-stores, or somebody added triggers or "
        "views to it; it was left as it is; name another file",
        State.AHEAD: f"the file has the stored format {found}, this code knows {CODE}; it was left "
        "as it is; update agent-stores",
    }.get(
        state,
        f"the file has the stored format {found}, this code needs {CODE}; back the file up and "
        "run `await backend.admin.migrate()`",
    )
    return SchemaVersionError(message, state=state)
