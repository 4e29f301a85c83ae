"""An opened database, and one tenant's part of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy import insert, select
from sqlalchemy.dialects.postgresql import insert as insert_or_not

from stores_core.errors import StoreClosedError, StoreError, StoreUnavailableError
from stores_core.revisions import State
from stores_core.sending import nothing_sent
from stores_sql.parameters import fixed, given
from stores_sql.postgres.connections import Source, settled
from stores_sql.postgres.failures import is_taken_back, not_applied, of_write
from stores_sql.postgres.statements import Connection, Driver, Statement
from stores_sql.postgres.tables import storage, tenant_states, tenants
from stores_sql.postgres.versions import look, refusal

T = TypeVar("T")

Work = Callable[[Connection], Awaitable[T]]
TenantWork = Callable[[Connection, int], Awaitable[T]]

NOBODY = -1
"""The number of a tenant that has written nothing yet: no row has it."""

TRIES = 5
"""So often something is tried that the server takes back because of others."""

_SETTLES_WITHIN, _WAITS_FOR_THAT = 5.0, 0.05
_PAUSE = 0.005

# Said each time, since a role may have other defaults. What waits for a lock must see, in its next
# statement, what the one who had the lock before has done.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

IDENTITY = Statement(select(storage.c.identity))

TENANT = select(tenants.c.number).where(tenants.c.name == given("name")).scalar_subquery()
"""The number of the tenant ``name``, for statements that stand alone."""

HELD_TENANT = (
    select(tenants.c.number)
    .where(tenants.c.name == given("name"))
    .with_for_update(read=True, key_share=True)
)
"""The same, held so that nobody erases it meanwhile, for statements that bring something new into
being. Without a row the tenant has none yet, and :meth:`Tenant.enter` gives it one."""

_FIND = Statement(select(TENANT))
_HOLD = Statement(HELD_TENANT)
_entered = (
    insert_or_not(tenants).values(name=given("name")).on_conflict_do_nothing()
    .returning(tenants.c.number).cte("entered")
)  # fmt: skip
_ENTER = Statement(
    insert(tenant_states).from_select(
        ["tenant", "version_floor", "result_count", "result_bytes"],
        select(_entered.c.number, fixed(0), fixed(0), fixed(0)),
    )
)


class Storage:
    """One opened schema of a database. ``identity`` is the same for all who open it.

    Where the tables are not those that this code works on, reads and writes are refused until they
    were migrated, by whomever. ``prepare`` says that a statement may be prepared in one round trip
    and run in the next without a transaction around both; behind some poolers it may not.
    """

    def __init__(self, source: Source, schema: str, *, prepare: bool = True) -> None:
        self.schema = schema
        self.identity = ""
        self._source = source
        self._prepare = prepare
        self._is_current = False
        self._settling = set[asyncio.Task[None]]()
        self._closed = False

    async def read(self, work: Work[T]) -> T:
        """What ``work`` finds at one instant, however many statements it takes."""

        async def found(connection: Connection) -> T:
            await connection.driver.execute(_BEGIN_READING)
            done = await _or_roll_back(connection, work)
            await connection.driver.execute("COMMIT")
            return done

        return await self._checked(found, not_applied)

    async def read_once(self, work: Work[T]) -> T:
        """Let ``work`` read with one statement."""
        return await self._checked(work, not_applied) if self._prepare else await self.read(work)

    async def write(self, work: Work[T]) -> T:
        """Do ``work`` in a transaction; it may run again, and all but the last is undone."""
        return await self._until_done(lambda connection: _committed(connection, work))

    async def write_once(self, work: Work[T]) -> T:
        """Let ``work`` write with one statement, which is a transaction of its own."""
        return await self._until_done(work) if self._prepare else await self.write(work)

    async def _until_done(self, work: Work[T]) -> T:
        for attempt in range(TRIES):
            try:
                return await self._checked(work, of_write)
            except StoreError as error:
                if not is_taken_back(error):
                    raise
            await asyncio.sleep(_PAUSE * 2**attempt * random.random())  # noqa: S311 - no secret
        raise StoreUnavailableError(f"others were in the way {TRIES} times; nothing was applied")

    async def examine(self, work: Work[T]) -> T:
        """Let ``work`` use a connection that is in no transaction, whatever tables there are."""
        return await self._run(work, of_write)

    def look_again(self) -> None:
        """Let the next operation see whether this code works on the tables still."""
        self._is_current = False

    async def _checked(self, work: Work[T], meaning: Callable[[Exception], Exception]) -> T:
        if not self._is_current:
            found = await self.examine(look)
            if found.state is not State.CURRENT:
                raise refusal(found, self.schema)
            self._is_current = True
        return await self._run(work, meaning)

    async def _run(self, work: Work[T], meaning: Callable[[Exception], Exception]) -> T:
        """Run ``work`` with a connection, and give that back clean, whatever happens."""
        driver = await self._taken()
        try:
            done = await work(Connection(driver, self.schema))
        except asyncio.CancelledError:
            await self._cut_off(driver)
            raise
        except Exception as error:
            await self._source.give_back(driver)
            meant = meaning(error)
            raise meant from meant.__cause__
        await self._source.give_back(driver)
        return done

    async def _taken(self) -> Driver:
        if self._closed:
            raise StoreClosedError
        try:
            with nothing_sent():
                return await self._source.take()
        except Exception as error:
            meant = not_applied(error)
            raise meant from meant.__cause__

    async def _cut_off(self, driver: Driver) -> None:
        settling = asyncio.create_task(settled(self._source, driver, _SETTLES_WITHIN))
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)
        await asyncio.wait({settling}, timeout=_WAITS_FOR_THAT)

    async def close(self) -> None:
        """Finish what was begun and let go of the connections that are ours."""
        self._closed = True
        if self._settling:
            await asyncio.wait(self._settling)
        await self._source.close()


async def _or_roll_back(connection: Connection, work: Work[T]) -> T:
    driver = connection.driver
    try:
        return await work(connection)
    except Exception:
        if not driver.is_closed():
            await driver.execute("ROLLBACK")
        raise


async def _committed(connection: Connection, work: Work[T]) -> T:
    """Do ``work`` in a transaction. What fails before its end certainly did not happen."""
    driver = connection.driver
    try:
        with nothing_sent():
            await driver.execute(_BEGIN)
            done = await _or_roll_back(connection, work)
    except Exception as error:
        meant = not_applied(error)
        raise meant from meant.__cause__
    if await driver.execute("COMMIT") != "COMMIT":
        raise StoreUnavailableError("Postgres rolled the transaction back; nothing was applied")
    return done


class Tenant:
    """What belongs to one tenant.

    Works of several statements are called with the tenant's number after the connection. It is
    looked up each time, since a tenant that was erased goes on under another.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage
        self.name = name

    async def read(self, work: TenantWork[T]) -> T:
        """As :meth:`Storage.read`; the number is NOBODY for a tenant without any data."""

        async def found(connection: Connection) -> T:
            return await work(connection, await find(connection, self.name))

        return await self.storage.read(found)

    async def write(self, work: TenantWork[T]) -> T:
        """As :meth:`Storage.write`. The tenant is held, so nobody erases it meanwhile."""

        async def done(connection: Connection) -> T:
            return await work(connection, await enter(connection, self.name))

        return await self.storage.write(done)

    async def enter(self) -> None:
        """Give the tenant a number if it has none."""
        await self.storage.write(lambda connection: enter(connection, self.name))


async def find(connection: Connection, name: str) -> int:
    """The number of a tenant, or NOBODY."""
    number: int | None = await _FIND.value(connection, name=name)
    return NOBODY if number is None else number


async def enter(connection: Connection, name: str) -> int:
    """The number of a tenant, held; it gets one if it has none."""
    for _ in range(TRIES):
        number: int | None = await _HOLD.value(connection, name=name)
        if number is not None:
            return number
        await _ENTER.run(connection, name=name)
    raise StoreUnavailableError("the tenant is erased again and again; nothing was applied")
