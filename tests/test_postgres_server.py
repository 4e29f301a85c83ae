"""The servers that the tests run on: started, named, killed."""

import sys
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.postgres_embedded import embedded_postgres
from tests.postgres_server import NAMED, asyncpg, postgres_server


async def test_a_killed_server_comes_back_with_what_it_had() -> None:
    with embedded_postgres() as server:
        connection = await asyncpg.connect(server.url)
        await connection.execute("CREATE TABLE t (n int)")
        await connection.execute("INSERT INTO t VALUES (7)")
        server.kill()
        with pytest.raises((OSError, asyncpg.PostgresError)):
            await connection.fetch("SELECT n FROM t")
        url = server.url
        server.start()
        assert server.url == url
        connection = await asyncpg.connect(server.url)
        assert await connection.fetchval("SELECT n FROM t") == 7
        await connection.close()


@pytest.mark.long
def test_a_named_server_that_is_away_fails_the_tests(
    monkeypatch: pytest.MonkeyPatch, python: Python, root: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv(NAMED, "postgresql://u:hunter2@127.0.0.1:1/none")
    with postgres_server() as url:
        assert url.endswith(":1/none")
    ran = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_postgres_server.py"),
        *("-k", "a_database_of_its_own"),
        cwd=root,
    )
    assert ran.returncode == 1
    assert "1 error" in ran.stdout


async def test_a_test_gets_a_database_of_its_own_with_pgvector(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT '[1,2]'::vector::text") == "[1,2]"
    assert (
        await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname='public'") == 0
    )
    await connection.close()


@pytest.mark.long
def test_a_command_runs_on_a_server_and_gives_its_exit_code(root: Path, python: Python) -> None:
    says = f"import os, sys; print(os.environ['{NAMED}'], *sys.argv[1:]); sys.exit(3)"
    command = ("-m", "tests.postgres_server", "--", sys.executable, "-c", says, "{url}?a=1")
    ran = python(*command, cwd=root)
    assert ran.returncode == 3, ran.stderr
    server, url = ran.stdout.split()
    assert server.startswith("postgresql://")
    assert url.startswith(server.rpartition("/")[0] + "/test_")
    assert url.endswith("?a=1")
