"""The Redis that the tests run on, one for a session of tests; each test has a prefix of its own.

It is the one that ``STORES_TEST_REDIS_URL`` names (away means failed, never skipped); else with
``STORES_TEST_CONTAINERS=1`` a container; else the embedded one.

``python -m tests.redis_server [--version 6.2] -- COMMAND ...`` runs a command on one. It is named
to the command by ``STORES_TEST_REDIS_URL``, and ``{url}`` in its arguments becomes its URL with a
new prefix.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.redis_embedded import WHEELS, embedded_redis

NAMED = "STORES_TEST_REDIS_URL"
CONTAINERS = "STORES_TEST_CONTAINERS"
IMAGE = "redis:8.2"
_DEADLINE = 60.0


@contextmanager
def redis_server(version: str = "8.2", **settings: str | int) -> Generator[str]:
    """The URL of a server; ended with the context if it was started here.

    ``version`` and the settings are for the embedded one.
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
    if "PYTEST_XDIST_WORKER" not in os.environ or os.environ.get(NAMED):
        with redis_server() as url:
            yield url
        return
    # Workers share one. The first to come starts it, in a process that ends with their parent.
    folder = tmp_path_factory.getbasetemp().parent / "redis"
    told = folder / "url"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        command = [sys.executable, "-m", "tests.redis_server", "--keep", told, str(os.getppid())]
        root = Path(__file__).parent.parent
        with (folder / "log").open("wb") as log:
            subprocess.run(command, cwd=root, stdout=log, stderr=log, check=True)
    end = time.monotonic() + _DEADLINE
    while not told.exists():
        if time.monotonic() > end:
            raise RuntimeError(f"no Redis:\n{(folder / 'log').read_text()[-2_000:]}")
        time.sleep(0.05)
    yield told.read_text()


@pytest.fixture
def redis_url(redis: str) -> str:
    """The URL of the server with a prefix that no other test has."""
    return with_prefix(redis)


def keep(told: Path, pid: int) -> None:
    """Keep a server, in the background, as long as the process ``pid`` lives.

    Its URL is in the file ``told`` once it can be used.
    """
    if os.fork():
        return
    os.setsid()
    with redis_server() as url:
        part = told.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(url)
        part.replace(told)
        while psutil.pid_exists(pid):
            time.sleep(0.1)


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
        keep(Path(arguments[1]), int(arguments[2]))
        return 0
    options, command = arguments, list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        options, command = arguments[:cut], list(arguments[cut + 1 :])
    parser = argparse.ArgumentParser(prog="python -m tests.redis_server -- COMMAND ...")
    parser.add_argument("--version", choices=list(WHEELS), default="8.2")
    chosen = parser.parse_args(options)
    if not command:
        parser.error("a command after -- is needed")
    return run(command, chosen.version)


if __name__ == "__main__":
    sys.exit(main())
