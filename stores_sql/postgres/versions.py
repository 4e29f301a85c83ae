"""The schema: its revision, who may go on with it, and the way between revisions.

Opening asks for one row and runs no DDL where the tables are there. Whoever changes tables holds an
advisory lock that ends with its transaction, so that of many who start at once one takes each step.
Nobody waits for that lock inside a statement: building an index concurrently waits for all
statements that are under way.
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from sqlalchemy.dialects.postgresql.base import PGDialect

from stores_core.errors import (
    InvalidRequestError,
    SchemaVersionError,
    StoreError,
    StoreUnavailableError,
)
from stores_core.revisions import Revision, State, destination, state_at
from stores_sql.postgres.creating import create_tables
from stores_sql.postgres.failures import is_taken_back, not_applied, of_write, sqlstate_of
from stores_sql.postgres.migration_sql import script
from stores_sql.postgres.revision_table import NAME, changes, lock_of, reading
from stores_sql.postgres.statements import Connection
from stores_sql.postgres.tables import METADATA

if TYPE_CHECKING:
    from stores_sql.migrations.chain import Step

T = TypeVar("T")

CODE = Revision(2, oldest=1)
"""What this code writes. It works on newer ones too whose ``oldest`` is no newer than this."""

REVISIONS = Path(__file__).parent / "revisions"

ADVICE = (
    "back the schema up first: pg_dump --schema=NAME",
    "a step waits for transactions that use its tables, 5 seconds at most, and others wait behind "
    "it; take it at a quiet time",
)

TRIES = 5
"""So often a step is tried that the server takes back because of others."""

LOCK_WAIT = 120.0
"""So many seconds one waits for others who change the tables."""

SECOND_WAIT = 10.0
"""So many seconds one waits for the connection on which an index is built."""

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_NOTHING = Revision(0, 0)
_SETTINGS = (
    # A lock on a table is waited for only so long, since everybody else waits behind.
    "SET LOCAL lock_timeout = '5s'",
    # The host's limits are meant for queries, not for building an index.
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_OF_OUR_NAMES = (
    "SELECT c.relname::pg_catalog.text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = ANY ($2::pg_catalog.text[])"
)
_NOT_THERE = {"42P01", "3F000"}


class Lend(Protocol):
    """Does ``work`` with a connection that is in no transaction.

    However the work ends, cancelled too, whoever lends it sees to what is left of a transaction.
    """

    async def __call__(self, work: Callable[[Connection], Awaitable[T]], /) -> T: ...


class Found(NamedTuple):
    """What a schema is to this code, and the name of its revision as it is stored."""

    state: State
    revision: Revision
    name: str


async def look(connection: Connection) -> Found:
    """What is in the schema. No transaction is open."""
    # In one transaction, since behind a pooler only that keeps to one server process.
    try:
        return await _looked(connection)
    except Exception as error:
        meant = not_applied(error)
        raise meant from meant.__cause__


async def _looked(connection: Connection) -> Found:
    driver = connection.driver
    await driver.execute("BEGIN READ ONLY")
    try:
        rows = await driver.fetch(reading(connection.schema))
    except Exception as error:
        await driver.execute("ROLLBACK")
        if sqlstate_of(error) not in _NOT_THERE:
            raise
        return await _without_revision(connection)
    await driver.execute("ROLLBACK")
    return _judged([name for (name,) in rows])


async def _without_revision(connection: Connection) -> Found:
    driver = connection.driver
    await driver.execute("BEGIN READ ONLY")
    rows = await driver.fetch(_OF_OUR_NAMES, connection.schema, [*METADATA.tables, NAME])
    await driver.execute("ROLLBACK")
    there = {name for (name,) in rows}
    if NAME in there:  # made since we looked, and the tables with it
        return await _looked(connection)
    return Found(State.FOREIGN if there else State.ABSENT, _NOTHING, "")


def _judged(names: Sequence[str]) -> Found:
    name = " and ".join(names)
    revision = Revision.named(name)
    if revision is None:  # a name of somebody else's, several, or none
        return Found(State.FOREIGN, _NOTHING, name)
    return Found(state_at(revision, CODE), revision, name)


async def prepare(connection: Connection, *, create: bool) -> Found:
    """See to it that the tables are there, and say what they are. No transaction is open.

    With ``create`` they are made where there are none, and those of an older revision are left for
    ``migrate``; without, nothing is changed and whatever this code does not work on is refused.
    Raises SchemaVersionError, StoreUnavailableError.
    """
    found = await look(connection)
    if found.state is State.ABSENT and create:
        await _create(connection)
        found = await look(connection)
    if found.state is State.CURRENT or (found.state is State.BEHIND and create):
        return found
    raise refusal(found, connection.schema)


async def _create(connection: Connection) -> None:
    try:
        async with _changing(connection):
            there = await connection.driver.fetch(_OF_OUR_NAMES, connection.schema, [NAME])
            if not there:
                await create_tables(connection, CODE)
    except Exception as error:
        meant = of_write(error)
        raise meant from meant.__cause__


@asynccontextmanager
async def _changing(connection: Connection) -> AsyncGenerator[None]:
    """A transaction in which nobody else changes the tables; committed at the end."""
    driver = connection.driver
    text = f"SELECT pg_try_advisory_xact_lock({lock_of(connection.schema):d})"
    end = time.monotonic() + LOCK_WAIT
    while True:
        # Read committed, to see what the one who had the lock before has done.
        await driver.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            [(locked,)] = await driver.fetch(text)
            if locked:
                for setting in _SETTINGS:
                    await driver.execute(setting)
                yield
        except Exception:
            if not driver.is_closed():
                await driver.execute("ROLLBACK")
            raise
        await driver.execute("COMMIT")
        if locked:
            return
        if time.monotonic() > end:
            raise StoreUnavailableError(
                f"another client has been changing the schema for over {LOCK_WAIT:.0f} seconds; "
                "nothing was applied"
            )
        await asyncio.sleep(random.uniform(0.05, 0.15))  # noqa: S311 - so that not all ask at once


def check_schema(name: str) -> None:
    """Raise InvalidRequestError for a name that could mean something else in a statement."""
    if not _SCHEMA_NAME.fullmatch(name):
        raise InvalidRequestError(
            field="schema",
            found="a name with other characters, or too long",
            allowed="up to 41 of a-z, 0-9 and _, with no digit first",
        )


def migration_sql(schema: str, start: str = "", target: str = "") -> str:
    """A script for psql from revision ``start`` (or from nothing) to ``target`` (or the code's).

    Needs no connection. Raises InvalidRequestError.
    """
    check_schema(schema)
    found = Revision(destination(start, _NOTHING, CODE), 0) if start else _NOTHING
    return script(plan(found, schema, target), schema)


def plan(found: Revision, schema: str, target: str = "") -> "Sequence[Step]":
    """The steps to the revision that ``target`` names, or to the code's.

    Raises InvalidRequestError. Alembic is needed only where there are some.
    """
    end = destination(target, found, CODE)
    if end == found.number:
        return ()
    from stores_sql.migrations.chain import chain_in

    return chain_in(REVISIONS).steps(found, end, PGDialect(), schema)


async def migrate(lend: Lend, target: str = "") -> list[str]:
    """Take the steps that are left, each in a transaction of its own; those that were taken here.

    Steps that build indexes concurrently use a second connection. Raises SchemaVersionError,
    InvalidRequestError and StoreUnavailableError; steps that are done then stay done.
    """
    done: list[str] = []
    tries = 0
    while True:
        try:
            sentence = await lend(partial(_take_step, lend=lend, target=target))
        except Exception as error:
            meant = of_write(error)
            tries += 1
            # The statement of a client that was killed may go on and be in the way.
            if isinstance(meant, StoreError) and is_taken_back(meant) and tries < TRIES:
                continue
            raise meant from meant.__cause__
        if sentence is None:
            return done
        done.append(sentence)


async def _take_step(connection: Connection, lend: Lend, target: str) -> str | None:
    found = await look(connection)
    if found.state in (State.ABSENT, State.FOREIGN):
        raise refusal(found, connection.schema)
    if not plan(found.revision, connection.schema, target):
        return None
    async with _changing(connection):
        rows = await connection.driver.fetch(reading(connection.schema))
        revision = _judged([name for (name,) in rows]).revision
        steps = plan(revision, connection.schema, target)
        if not steps:
            return None
        step = steps[0]
        if step.concurrently:
            # The portal of the last query keeps its snapshot, which a build would wait for, until
            # the next statement.
            await connection.driver.execute("SELECT")
            await _execute_beside(lend, step.statements)
        else:
            await _execute(connection, step.statements)
        await _execute(connection, changes(connection.schema, step.start, step.end))
    return step.sentence


async def _execute_beside(lend: Lend, texts: Sequence[str]) -> None:
    """Run statements on a second connection, each in no transaction."""

    async def work(connection: Connection) -> None:
        waiting.reschedule(None)
        await _execute(connection, texts)

    waiting = asyncio.timeout(SECOND_WAIT)
    try:
        async with waiting:
            await lend(work)
    except TimeoutError as error:
        if not waiting.expired():
            raise
        raise StoreUnavailableError(
            f"no second connection was to be had in {SECOND_WAIT:.0f} seconds, and an index is "
            "built on one; give the pool two or more; nothing was applied"
        ) from error


async def _execute(connection: Connection, texts: Sequence[str]) -> None:
    for text in texts:
        await connection.driver.execute(text)


def refusal(found: Found, schema: str) -> SchemaVersionError:
    """Why stores do not work on a schema in this state, and what to do."""
    name = f"the schema {schema!r}"
    if found.state is State.ABSENT:
        return SchemaVersionError(
            f"{name} has no tables of agent-stores, this code needs those of revision {CODE}; open "
            "it once with create=True, as a role that may make them",
            state=found.state,
        )
    if found.state is State.FOREIGN:
        stands = f"the revision {found.name!r}" if found.name else "tables of somebody else's"
        return SchemaVersionError(
            f"{name} has {stands}, this code knows {CODE}; it was left as it is; name another "
            "schema, or restore the table agent_stores_revision",
            state=found.state,
        )
    if found.state is State.AHEAD:
        return SchemaVersionError(
            f"{name} is of revision {found.name}, this code knows {CODE}; it was left as it is; "
            "update agent-stores",
            state=found.state,
        )
    return SchemaVersionError(
        f"{name} is of revision {found.name}, this code needs {CODE}; open it with create=True, as "
        "a role that may change tables, and run `await backend.admin.migrate()`",
        state=found.state,
    )
