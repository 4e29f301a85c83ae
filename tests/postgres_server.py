"""The Postgres that the tests run on, one for a session of tests, a database for each test.

It is the one that ``STORES_TEST_POSTGRES_URL`` names (away means failed, never skipped); else with
``STORES_TEST_CONTAINERS=1`` a container with pgvector; else the embedded one. A named user must be
allowed to make databases, and the extension vector in them.

``python -m tests.postgres_server -- COMMAND ...`` runs a command on one. It is named to the command
by ``STORES_TEST_POSTGRES_URL``, and ``{url}`` in its arguments becomes the URL of a new database.
"""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.postgres_embedded import embedded_postgres
from tests.server_sharing import is_shared, keep, shared_url

asyncpg: Any = import_module("asyncpg")  # which brings no types
NAMED = "STORES_TEST_POSTGRES_URL"
CONTAINERS = "STORES_TEST_CONTAINERS"
IMAGE = "pgvector/pgvector:pg17"
_DEADLINE = 60.0


@contextmanager
def postgres_server(**settings: str | int) -> Generator[str]:
    """The URL of a server, which is ours to fill; ended with the context if it was started here.

    The settings are for the embedded one.
    """
    if named := os.environ.get(NAMED):
        yield named
    elif os.environ.get(CONTAINERS) == "1":
        from testcontainers.community.postgres import PostgresContainer

        with PostgresContainer(IMAGE, driver=None) as container:
            yield container.get_connection_url()
    else:
        with embedded_postgres(**settings) as server:
            yield server.url


async def new_database(server: str, *, extensions: Sequence[str] = ("vector",)) -> str:
    """The URL of a new, empty database on the server, with these extensions."""
    name = f"test_{secrets.token_hex(6)}"
    await _execute(server, f"CREATE DATABASE {name}")
    url = in_database(server, name)
    for extension in extensions:
        await _execute(url, f"CREATE EXTENSION {extension}")
    return url


async def drop_database(server: str, url: str) -> None:
    """Drop a database that `new_database` made, whoever is still connected to it."""
    name = urlsplit(url).path.removeprefix("/")
    await _execute(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def in_database(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=_DEADLINE)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server of this session of tests, started when the first test asks for it."""
    if is_shared(NAMED):
        yield shared_url(tmp_path_factory, "postgres", "tests.postgres_server")
    else:
        with postgres_server() as url:
            yield url


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """The URL of a database with pgvector that no other test has."""
    url = asyncio.run(new_database(postgres))
    yield url
    asyncio.run(drop_database(postgres, url))


@pytest.fixture(scope="session")
def shared_postgres_url(postgres: str) -> Iterator[str]:
    """The URL of a database that tests share, each as a tenant of its own."""
    url = asyncio.run(new_database(postgres))
    yield url
    asyncio.run(drop_database(postgres, url))


def run(command: Sequence[str]) -> int:
    """Run a command on a server, in a database of its own where it says ``{url}``."""
    with postgres_server() as server:
        url = asyncio.run(new_database(server))
        try:
            arguments = [argument.replace("{url}", url) for argument in command]
            environment = os.environ | {NAMED: server}
            return subprocess.run(arguments, env=environment, check=False).returncode
        finally:
            asyncio.run(drop_database(server, url))


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["--keep", told, pid]:
            keep(postgres_server(), Path(told), int(pid))
            return 0
        case ["--", *command] if command:
            return run(command)
        case _:
            print("usage: python -m tests.postgres_server -- COMMAND ...", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
