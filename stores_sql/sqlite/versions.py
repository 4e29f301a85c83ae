"""The stored format: its version, how a file is recognised, and the steps between versions."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from stores_core.errors import SchemaVersionError
from stores_sql.sqlite.statements import Connection, inserting
from stores_sql.sqlite.tables import METADATA, storage

FORMAT = 1
APPLICATION_ID = 0x41535452  # "ASTR", in the file's header


class State(StrEnum):
    """What a file is to this code."""

    CURRENT = "current"
    BEHIND = "behind"
    AHEAD = "ahead"
    ABSENT = "absent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next: a sentence for people, and the work, in a transaction."""

    sentence: str
    work: Callable[[Connection], None]


STEPS: Mapping[int, Step] = {}
"""The step that leads on from each older version. There is none yet: 1 is the first version."""

_INSERT_STORAGE = inserting(storage)


def state_of(connection: Connection) -> State:
    """What this file is. A file with triggers or views is not one that we made."""
    application = _pragma(connection, "PRAGMA application_id")
    if application == 0 and not _pragma(connection, "SELECT count(*) FROM sqlite_schema"):
        return State.ABSENT
    strange = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')"
    if application != APPLICATION_ID or _pragma(connection, strange):
        return State.FOREIGN
    found = version_of(connection)
    if found == FORMAT:
        return State.CURRENT
    return State.BEHIND if 0 < found < FORMAT else State.AHEAD


def version_of(connection: Connection) -> int:
    """The version of the stored format that the file's header names."""
    return _pragma(connection, "PRAGMA user_version")


def _pragma(connection: Connection, text: str) -> int:
    return connection.execute(text).fetchone()[0]


def create(connection: Connection) -> None:
    """Make tables and indexes in an empty file. A transaction is open."""
    dialect = sqlite.dialect()
    for table in METADATA.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    _INSERT_STORAGE.run(connection, identity=secrets.token_hex(16))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(f"PRAGMA user_version = {FORMAT:d}")


def plan(found: int) -> list[str]:
    """A sentence for each step from this version to ours."""
    return [STEPS[version].sentence for version in range(found, FORMAT)]


def migrate(connection: Connection) -> list[str]:
    """Take the steps that are left, in the open transaction; what was done."""
    found = version_of(connection)
    done = plan(found)
    for version in range(found, FORMAT):
        STEPS[version].work(connection)
    connection.execute(f"PRAGMA user_version = {FORMAT:d}")
    return done


def refusal(state: State, found: int) -> SchemaVersionError:
    """Why stores do not work on a file in this state, and what to do."""
    if state is State.FOREIGN:
        return SchemaVersionError(
            "the file is no storage of agent-stores, or somebody added triggers or views to it; "
            "it was left as it is; name another file"
        )
    if state is State.AHEAD:
        return SchemaVersionError(
            f"the file has the stored format {found}, this code knows {FORMAT}; it was left as it "
            "is; update agent-stores"
        )
    return SchemaVersionError(
        f"the file has the stored format {found}, this code needs {FORMAT}; back the file up and "
        "run backend.admin.migrate"
    )
