"""The servers that the tests run on: started, named, killed."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psutil import process_iter
from redis.asyncio import Redis as TypedRedis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.conftest import Python
from tests.redis_embedded import INSTALLED, EmbeddedRedis, embedded_redis
from tests.redis_server import NAMED, redis_server

Redis: Any = TypedRedis  # its types are partly unknown


async def answer(url: str, *command: str) -> str:
    """What the server at the URL says to a command."""
    async with Redis.from_url(url, decode_responses=True) as client:
        return str(await client.execute_command(*command))


async def test_a_killed_server_comes_back_with_what_it_had() -> None:
    with embedded_redis(appendfsync="always") as server:
        url = server.url
        await answer(url, "SET", "seven", "7")
        server.kill()
        with pytest.raises(RedisConnectionError):
            await answer(url, "GET", "seven")
        server.start()
        assert server.url == url
        assert await answer(url, "GET", "seven") == "7"


@pytest.mark.parametrize("truncated", ["yes", "no"])
async def test_a_torn_transaction_comes_back_in_part_unless_the_server_refuses_it(
    truncated: str, tmp_path: Path
) -> None:
    """A fault of Redis, for which `disk` asks for `aof-load-truncated no`. Once it is mended this
    test fails, and that condition can go."""
    server = EmbeddedRedis(tmp_path, {"appendfsync": "always", "aof-load-truncated": truncated})
    server.start()
    both = "redis.call('SET', 'torn', '1') redis.call('SET', 'long', ARGV[1])"
    await answer(server.url, "EVAL", both, "0", "x" * 100_000)
    server.kill()
    _tear(tmp_path)
    server.start()
    assert await answer(server.url, "DBSIZE") == "0"
    both = "redis.call('SET', 'next', '1') redis.call('SET', 'last', '1')"
    await answer(server.url, "EVAL", both, "0")
    server.kill()
    server.start()
    names = ("torn", "next", "last")
    there = [name for name in names if await answer(server.url, "GET", name) == "1"]
    server.stop()
    assert there == [*(["torn"] if truncated == "yes" else []), "next", "last"]


def _tear(folder: Path) -> None:
    """Cut the largest file of commands in the middle of its last transaction."""
    file = max(folder.rglob("*.aof"), key=lambda file: file.stat().st_size)
    file.write_bytes(file.read_bytes()[:-60_000])


async def test_each_wheel_brings_the_version_that_it_is_asked_for(wheel_version: str) -> None:
    with embedded_redis(wheel_version) as server:
        assert f"'redis_version': '{wheel_version}." in await answer(server.url, "INFO", "server")


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", INSTALLED)
def test_what_else_is_installed_conforms(name: str) -> None:
    """A few samples of each test of the suite, on the servers of distributions."""
    found = shutil.which(INSTALLED[name])
    if found is None:
        pytest.skip(f"no {INSTALLED[name]} is installed: {name} is not tried here")
    with embedded_redis(found) as server:
        command = (sys.executable, "-m", "conformance_tests", "--url", server.url, "--quick", "-q")
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert ran.returncode == 0, ran.stdout[-3_000:]
        assert "conformant (quick profile)" in ran.stdout


async def test_a_server_takes_nobody_without_its_password_and_shows_it_to_nobody() -> None:
    with embedded_redis() as server:
        password = server.url.partition("//:")[2].partition("@")[0]
        shown = [" ".join(process.info["cmdline"] or ()) for process in process_iter(["cmdline"])]
        assert any("redis-server" in line for line in shown)
        assert not [line for line in shown if password in line]
        with pytest.raises(RedisConnectionError, match="authenticate"):
            await answer(server.url.replace(f":{password}@", ""), "PING")


@pytest.mark.long
def test_a_named_server_that_is_away_fails_the_tests(
    monkeypatch: pytest.MonkeyPatch, python: Python, root: Path
) -> None:
    monkeypatch.setenv(NAMED, "redis://u:hunter2@127.0.0.1:1/0")
    with redis_server() as url:
        assert url.endswith(":1/0")
    ran = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_redis_server.py"),
        *("-k", "a_prefix_of_its_own"),
        cwd=root,
    )
    assert ran.returncode == 1
    assert "1 failed" in ran.stdout


async def test_a_test_gets_a_prefix_of_its_own(redis_url: str) -> None:
    server, _, prefix = redis_url.partition("?prefix=")
    assert prefix.startswith("test-")
    assert await answer(server, "PING") == "True"


def test_a_command_runs_on_a_server_and_gives_its_exit_code(root: Path, python: Python) -> None:
    says = f"import os, sys; print(os.environ['{NAMED}'], *sys.argv[1:]); sys.exit(3)"
    command = ("-m", "tests.redis_server", "--", sys.executable, "-c", says, "{url}&a=1")
    ran = python(*command, cwd=root)
    assert ran.returncode == 3, ran.stderr
    server, url = ran.stdout.split()
    assert url.startswith(f"{server}?prefix=test-")
    assert url.endswith("&a=1")
