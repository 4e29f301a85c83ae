"""An opened file, and one tenant's part of it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import select, update

from stores_core.errors import StoreUnavailableError
from stores_core.revisions import Revision, State, state_at
from stores_sql.parameters import given
from stores_sql.sqlite.connections import connect_to_read, connect_to_write, locate, prepare
from stores_sql.sqlite.locking import LockFile
from stores_sql.sqlite.readers import Readers
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.tables import storage, tenants
from stores_sql.sqlite.versions import CODE, refusal, version_of
from stores_sql.sqlite.writer import Writer

T = TypeVar("T")

NOBODY = -1
"""The number of a tenant that has written nothing yet: no row has it."""

_IDENTITY = Statement(select(storage.c.identity))
_TENANT = Statement(select(tenants.c.number).where(tenants.c.name == given("name")))
_INSERT_TENANT = inserting(tenants, numbered=True)
_RAISE_FLOOR = Statement(
    update(tenants)
    .values(version_floor=given("floor"))
    .where(tenants.c.number == given("tenant"), tenants.c.version_floor < given("floor"))
)


class Storage:
    """One opened file: a thread that writes, a few that read.

    ``identity`` is the file's own, the same for all who open it. Where the stored format is not one
    that this code works on, reads and writes are refused until it was migrated, by whomever.
    """

    def __init__(
        self, path: Path, lock: LockFile, state: State, *, busy_timeout: float, synchronous: str
    ) -> None:
        self.path = path
        self.state = state
        self._fits = -1
        self._readers = Readers(partial(connect_to_read, path, busy_timeout))
        connect = partial(connect_to_write, path, busy_timeout, synchronous=synchronous)
        self._writer = Writer(connect, lock, busy_timeout)
        self.identity = ""

    @classmethod
    async def open(
        cls, place: str, *, busy_timeout: float, synchronous: str, create: bool
    ) -> "Storage":
        """Open the file. With ``create`` it is made if there is none; without, whatever this code
        does not work on is refused. Raises StoreError."""
        loop = asyncio.get_running_loop()
        path, lock, state = await loop.run_in_executor(None, _prepared, place, busy_timeout, create)
        opened = cls(path, lock, state, busy_timeout=busy_timeout, synchronous=synchronous)
        try:
            opened.identity = await opened.examine(_IDENTITY.value)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` finds in the file as it is at one instant."""
        return await self._readers.run(partial(self._checked, work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Do ``work`` in a transaction; it may run twice, and all but the last is undone."""
        return await self._writer.run(partial(self._checked, work))

    async def examine(self, work: Callable[[Connection], T]) -> T:
        """Read, also where the stored format is not ours."""
        return await self._readers.run(work)

    async def maintain(self, work: Callable[[Connection], T]) -> T:
        """Write, or ask the writer's connection, also where the stored format is not ours."""
        return await self._writer.run(work)

    def _checked(self, work: Callable[[Connection], T], connection: Connection) -> T:
        # Looked at each time, since others may migrate the file at any moment.
        version = version_of(connection)
        if version != self._fits:
            found = Revision.unpacked(version)
            self.state = state_at(found, CODE)
            if self.state is not State.CURRENT:
                raise refusal(self.state, found)
            self._fits = version
        return work(connection)

    async def close(self) -> None:
        """Finish what was begun and let go of the file."""
        await self._readers.close()
        await self._writer.close()


def _prepared(place: str, busy_timeout: float, create: bool) -> tuple[Path, LockFile, State]:
    path = locate(place)
    if not (create or path.exists()):  # then no lock file is left behind either
        raise refusal(State.ABSENT)
    try:
        lock = LockFile(path.with_name(path.name + "-lock"))
    except OSError as error:
        raise StoreUnavailableError(
            f"the lock file beside the database cannot be opened ({type(error).__name__})"
        ) from error
    try:
        return path, lock, prepare(path, lock, busy_timeout, create=create)
    except OSError as error:
        lock.close()
        raise StoreUnavailableError(
            f"the database file cannot be made ({type(error).__name__})"
        ) from error
    except BaseException:
        lock.close()
        raise


class Tenant:
    """What belongs to one tenant. Works are called with the tenant's number after the connection.

    Numbers are looked up each time, since a tenant that was erased goes on under another.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage
        self.name = name

    async def read(self, work: Callable[[Connection, int], T]) -> T:
        """As :meth:`Storage.read`; the number is NOBODY for a tenant without any data."""
        name = self.name
        return await self.storage.read(lambda connection: work(connection, find(connection, name)))

    async def write(self, work: Callable[[Connection, int], T]) -> T:
        """As :meth:`Storage.write`."""
        name = self.name
        return await self.storage.write(
            lambda connection: work(connection, enter(connection, name))
        )


def find(connection: Connection, name: str) -> int:
    """The number of a tenant, or NOBODY."""
    number: int | None = _TENANT.value(connection, name=name)
    return NOBODY if number is None else number


def enter(connection: Connection, name: str) -> int:
    """The number of a tenant, which gets one if it has none."""
    number: int | None = _TENANT.value(connection, name=name)
    if number is not None:
        return number
    return _INSERT_TENANT.number(
        connection, name=name, version_floor=0, embedder=None, result_count=0, result_bytes=0
    )


def raise_version_floor(connection: Connection, tenant: int, floor: int) -> None:
    """Let no new note start at a version up to ``floor``."""
    _RAISE_FLOOR.run(connection, tenant=tenant, floor=floor)
