"""Migrations of many that start at once, and of some that are killed."""

import asyncio
from pathlib import Path

import pytest

from stores_core.revisions import Revision
from stores_sql.postgres import versions
from tests.conftest import Python
from tests.postgres_schema import SCHEMA, Server, with_a_third

HEAD = str(versions.CODE)


@pytest.fixture
def server(postgres_url: str) -> Server:
    return Server(postgres_url)


STARTERS = """
import asyncio, os, sys
import stores_sql.migrations.chain
from stores_sql.postgres import versions
from tests.postgres_schema import Server
async def main(server):
    found = await server.prepare(create=True)
    done = await server.migrate()
    assert (await server.prepare(create=False)).name == str(versions.CODE)
    os.write(1, b'%s %d\\n' % (found.state.encode(), len(done)))
children = []
for _ in range(16):
    child = os.fork()
    if not child:
        asyncio.run(main(Server(sys.argv[1])))
        os._exit(0)
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


@pytest.mark.long
@pytest.mark.parametrize("old", [False, True], ids=["empty", "old"])
def test_sixteen_processes_that_start_at_once_all_succeed_and_each_step_is_taken_once(
    server: Server, root: Path, python: Python, *, old: bool
) -> None:
    if old:
        asyncio.run(server.made_by_chain(1))
    ran = python("-W", "ignore", "-c", STARTERS, server.url, cwd=root)
    assert ran.returncode == 0, ran.stderr
    done = [int(line.split()[1]) for line in ran.stdout.splitlines()]
    assert sorted(done) == [0] * 15 + [1 if old else 0]
    assert asyncio.run(server.revision()) == HEAD


# Each child is killed one statement later than the one before it, the last by none.
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from stores_core.revisions import Revision
from stores_sql.postgres import versions
from stores_sql.postgres.statements import Connection
from tests.postgres_schema import Server
server = Server(sys.argv[1])
if sys.argv[2]:
    versions.REVISIONS, versions.CODE = Path(sys.argv[2]), Revision(3, 3)
class Killing:
    def __init__(self, driver):
        self.driver = driver
    def __getattr__(self, name):
        return getattr(self.driver, name)
    async def execute(self, text):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return await self.driver.execute(text)
async def lend(work):
    async with server.connected() as connection:
        return await work(Connection(Killing(connection.driver), connection.schema))
for left in range(100):
    child = os.fork()
    if not child:
        asyncio.run(versions.migrate(lend))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.WIFSIGNALED(status), asyncio.run(server.revision()), flush=True)
    if not os.WIFSIGNALED(status):
        break
"""


@pytest.mark.long
@pytest.mark.parametrize("third", [False, True], ids=["concurrently", "in a transaction"])
def test_a_step_whose_process_was_killed_at_any_statement_can_be_taken_again(
    server: Server, root: Path, python: Python, tmp_path: Path, *, third: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if third:
            with_a_third(tmp_path, patch)
        start, end = str(Revision(2, 1) if third else Revision(1, 1)), str(versions.CODE)
        asyncio.run(server.made_by_chain(2 if third else 1))
        folder = tmp_path if third else ""
        ran = python("-W", "ignore", "-c", KILLED, server.url, folder, cwd=root, seconds=100)
        assert ran.returncode == 0, ran.stderr
        *killed, last = [line.split() for line in ran.stdout.splitlines()]
        assert len(killed) > 8
        # Before the commit nothing is done, after it all is; a kill while it ends is one or other.
        assert {tuple(line) for line in killed[:8]} == {("True", start)}
        assert {line[1] for line in killed} <= {start, end}
        assert last == ["False", end]
        chained = Server(server.url, "chained")
        asyncio.run(chained.made_by_chain(versions.CODE.number))
        assert asyncio.run(server.described()) == asyncio.run(chained.described())


async def test_a_killed_client_whose_statement_goes_on_is_not_in_the_way(server: Server) -> None:
    await server.made_by_chain(1)
    async with server.connected() as busy:
        await busy.driver.execute("BEGIN")
        await busy.driver.execute(f"LOCK TABLE {SCHEMA}.runs IN ROW EXCLUSIVE MODE")
        cut = asyncio.ensure_future(server.migrate())
        await _until_waiting(server, 1)
        cut.cancel()  # both connections end, but the server works on at the index
        await asyncio.wait({cut})
        again = asyncio.ensure_future(server.migrate())
        await _until_waiting(server, 2)
    async with asyncio.timeout(60):
        await again
    assert await server.revision() == HEAD
    assert not await server.fetch("SELECT 1 FROM pg_index WHERE NOT indisvalid")


async def _until_waiting(server: Server, count: int) -> None:
    """Until so many sessions wait for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while len(await server.fetch(waiting)) < count:  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.05)
