"""Where connections come from: a URL, or a client of the host's.

What is sent goes straight to a connection of the driver: its client would send a write again by
itself, and decodes what it reads. Nothing here leaves state on a connection.
"""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from stores_core.errors import InvalidRequestError

IDLE_SECONDS = 300.0
"""A connection that was idle for longer is not used again: something between may have cut it."""

CLOSES_WITHIN = 5.0
"""So many seconds closing waits for what is under way."""

Driver = AbstractConnection


class Source(Protocol):
    """Lends connections. Whoever took one gives it back, whatever state it is in."""

    async def take(self) -> Driver: ...
    async def give_back(self, driver: Driver) -> None: ...
    async def close(self) -> None: ...


class OwnPool:
    """Up to ``size`` connections of our own, made when they are needed."""

    def __init__(self, pool: Any, size: int) -> None:
        self._pool, self._size = pool, size
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[Driver, float]] = []
        self._closed = False

    async def take(self) -> Driver:
        await self._free.acquire()
        try:
            while self._idle:
                driver, since = self._idle.pop()
                if time.monotonic() - since < IDLE_SECONDS and await _is_clean(driver):
                    return driver
                await _ended(driver)
            driver = self._pool.make_connection()
            try:
                await driver.connect()
            except BaseException:
                await _ended(driver)
                raise
        except BaseException:
            self._free.release()
            raise
        return driver

    async def give_back(self, driver: Driver) -> None:
        if self._closed:
            await _ended(driver)
        elif driver.is_connected:
            self._idle.append((driver, time.monotonic()))
        self._free.release()

    async def close(self) -> None:
        # What was begun is finished first, unless that takes long.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSES_WITHIN):
                for _ in range(self._size):
                    await self._free.acquire()
        self._closed = True
        for driver, _ in self._idle:
            await _ended(driver)
        await asyncio.sleep(0)  # in which the event loop lets go of the sockets


class HostPool:
    """The connections of a client that the host made and will close."""

    def __init__(self, client: object) -> None:
        if not isinstance(client, Redis):
            raise InvalidRequestError(
                field="client", found=type(client).__name__, allowed="a redis.asyncio.Redis"
            )
        self._pool: Any = client.connection_pool
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    async def take(self) -> Driver:
        self._users += 1
        self._unused.clear()
        try:
            return await self._pool.get_connection()
        except BaseException:
            self._leave()
            raise

    async def give_back(self, driver: Driver) -> None:
        try:
            # Not to be cut off half-way, or the pool would be a connection short.
            await asyncio.shield(self._pool.release(driver))
        finally:
            self._leave()

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._unused.set()

    async def close(self) -> None:
        # What was begun is finished first, since the host may close its client next.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSES_WITHIN):
                await self._unused.wait()


async def _is_clean(driver: Driver) -> bool:
    writer: Any = getattr(driver, "_writer", None)  # the driver itself does not see a reset
    try:
        return writer is not None and not writer.is_closing() and not await driver.can_read()
    except Exception:
        return False


async def _ended(driver: Driver) -> None:
    with suppress(Exception):
        await driver.disconnect(nowait=True)


def own_pool(url: str, size: int, *, connect_timeout: float, **files: str) -> OwnPool:
    """Connections to ``redis://user:password@host:port/db``, each part percent-encoded.

    ``connect_timeout`` is in seconds; ``files`` are the driver's options for TLS, "" for none.
    Raises InvalidRequestError, without showing any of it.
    """
    scheme, slashes, _ = url.partition("://")
    allowed = "redis://user:password@host:port/db, each part percent-encoded"
    if not slashes or scheme not in ("redis", "rediss"):
        raise InvalidRequestError(field="url", found="no host", allowed=allowed)
    for name, value in files.items():
        if value and not Path(value).is_file():
            raise InvalidRequestError(
                field=name, found="no such file", allowed="the path of a file in PEM"
            )
    try:
        pool: Any = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - its keywords have no types
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,  # each operation has its own
            socket_connect_timeout=connect_timeout,
            socket_keepalive=True,
            **{name: value for name, value in files.items() if value},
        )
        pool.make_connection()
    except Exception:
        # The driver's own words may show parts of it.
        raise InvalidRequestError(
            field="url", found="one that the driver cannot read", allowed=allowed
        ) from None
    return OwnPool(pool, size)
