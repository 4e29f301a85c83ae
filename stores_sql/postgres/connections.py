"""Where connections come from: a URL, or a pool or an engine of the host's.

Nothing here leaves state on a connection, so that a pooler may hand each transaction to another
server process, and nothing is reset when a connection is given back, which would cost a round trip.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast
from urllib.parse import quote, urlencode

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from stores_core.errors import InvalidRequestError
from stores_sql.postgres.statements import Driver

IDLE_SECONDS = 300.0
"""A connection that was idle for longer is not used again: something between may have cut it."""

CLOSES_WITHIN = 5.0
"""So many seconds closing waits for what is under way."""

CACHED_STATEMENTS = 256

_connect: Callable[..., Awaitable[Driver]] = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - its keywords have no types


class Source(Protocol):
    """Lends connections. Whoever took one gives it back, whatever state it is in."""

    async def take(self) -> Driver: ...
    async def give_back(self, driver: Driver) -> None: ...
    async def close(self) -> None: ...


class OwnPool:
    """Up to ``size`` connections of our own, made when they are needed."""

    def __init__(self, connect: Callable[[], Awaitable[Driver]], size: int) -> None:
        self._connect, self._size = connect, size
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[Driver, float]] = []
        self._all = set[Driver]()
        self._closed = False

    async def take(self) -> Driver:
        await self._free.acquire()
        try:
            while self._idle:
                driver, since = self._idle.pop()
                if time.monotonic() - since < IDLE_SECONDS and not driver.is_closed():
                    return driver
                self._end(driver)
            driver = await self._connect()
        except BaseException:
            self._free.release()
            raise
        self._all.add(driver)
        return driver

    async def give_back(self, driver: Driver) -> None:
        if self._closed or driver.is_closed() or driver.is_in_transaction():
            self._end(driver)
        else:
            self._idle.append((driver, time.monotonic()))
        self._free.release()

    def _end(self, driver: Driver) -> None:
        self._all.discard(driver)
        driver.terminate()

    async def close(self) -> None:
        # What was begun is finished first, unless that takes long.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSES_WITHIN):
                for _ in range(self._size):
                    await self._free.acquire()
        self._closed = True
        idle = [cast(Any, driver) for driver, _ in self._idle]
        closing = (driver.close(timeout=1.0) for driver in idle)
        await asyncio.gather(*closing, return_exceptions=True)
        for driver in list(self._all):
            self._end(driver)
        await asyncio.sleep(0)  # in which the event loop lets go of the sockets


class HostPool:
    """A pool of asyncpg that the host made and will close."""

    def __init__(self, pool: Any) -> None:
        if not isinstance(pool, asyncpg.Pool):
            raise InvalidRequestError(
                field="pool", found=type(pool).__name__, allowed="what asyncpg.create_pool made"
            )
        self._pool: Any = pool

    async def take(self) -> Driver:
        return await self._pool.acquire()

    async def give_back(self, driver: Driver) -> None:
        await self._pool.release(driver)

    async def close(self) -> None:
        pass


class HostEngine:
    """An engine of SQLAlchemy with the driver asyncpg that the host made and will dispose of."""

    def __init__(self, engine: Any) -> None:
        # Its class is not imported: SQLAlchemy's asyncio part needs a package that we do not.
        driver = getattr(getattr(engine, "dialect", None), "driver", type(engine).__name__)
        if driver != "asyncpg" or not hasattr(engine, "sync_engine"):
            raise InvalidRequestError(
                field="engine",
                found=f"one of {driver}",
                allowed='what create_async_engine("postgresql+asyncpg://...") made',
            )
        self._engine = engine
        self._lent: dict[Driver, Any] = {}

    async def take(self) -> Driver:
        connection = await self._engine.connect()
        try:
            raw = await connection.get_raw_connection()
        except BaseException:
            await connection.close()
            raise
        driver = cast(Driver, raw.driver_connection)
        self._lent[driver] = connection
        return driver

    async def give_back(self, driver: Driver) -> None:
        connection = self._lent.pop(driver)
        # Not to be cut off half-way, or the engine would be a connection short.
        await asyncio.shield(_returned(connection, broken=driver.is_closed()))

    async def close(self) -> None:
        pass


async def _returned(connection: Any, *, broken: bool) -> None:
    if broken:
        await connection.invalidate()
    await connection.close()


def address(url: str, parameters: Mapping[str, str | int]) -> str:
    """The URL for the driver: ``url``, which has no query, with libpq's ``parameters`` as one.

    Raises InvalidRequestError, without showing any of it.
    """
    scheme, slashes, _ = url.partition("://")
    if not slashes or scheme not in ("postgresql", "postgres"):
        raise InvalidRequestError(
            field="url", found="no host", allowed="postgresql://user:password@host:port/database"
        )
    told = {name: value for name, value in parameters.items() if value}
    return f"{url}?{urlencode(told, quote_via=quote, safe='')}" if told else url


def connecting(dsn: str, *, timeout: float, prepare: bool) -> Callable[[], Awaitable[Driver]]:
    """Makes connections to where ``dsn`` leads; ``prepare`` keeps statements prepared there."""

    async def connect() -> Driver:
        try:
            return await _connect(
                dsn,
                timeout=timeout,
                statement_cache_size=CACHED_STATEMENTS if prepare else 0,
                max_cached_statement_lifetime=0,
            )
        except (ValueError, asyncpg.ClientConfigurationError):
            # Of the URL, or of a file that it names; the driver's own words may show parts of it.
            raise InvalidRequestError(
                field="url",
                found="one that the driver cannot read",
                allowed="postgresql://user:password@host:port/database, each part percent-encoded",
            ) from None

    return connect


async def settled(source: Source, driver: Driver, within: float) -> None:
    """Give back a connection on which something was cut off, with nothing of it left.

    The driver has asked the server to cancel what ran; the next command waits for that. What takes
    longer than ``within`` seconds ends with the connection.
    """
    try:
        async with asyncio.timeout(within):
            await driver.execute("ROLLBACK" if driver.is_in_transaction() else "")
    except Exception:
        driver.terminate()
    with suppress(Exception):
        await source.give_back(driver)
