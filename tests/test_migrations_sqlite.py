"""Files of older and newer revisions: what an operator does with them, and what must not happen."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from stores_core import Backend, InvalidRequestError, Message, SchemaVersionError
from stores_core.revisions import Revision
from stores_sql.migrations.chain import NOTHING, chain_in
from stores_sql.sqlite import admin, storage, versions
from stores_sql.sqlite.backend import open_sqlite
from stores_sql.sqlite.tables import METADATA
from tests.conftest import Python
from tests.golden.filling import exported
from tests.golden.opened import export_of, packed

FIRST = "sqlite-0001"


def use(path: Path, work: Callable[[Backend], Awaitable[Any]], **options: Any) -> Any:
    """Open the file, do something with it, close it; what came of it."""

    async def run() -> Any:
        async with open_sqlite(f"sqlite:{path}", **options) as backend:
            return await work(backend)

    return asyncio.run(run())


def ask(path: Path, text: str) -> list[Any]:
    """Rows of the file, read with nothing of ours."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(text).fetchall()
        connection.commit()
        return rows


def schema_of(path: Path) -> set[tuple[str, str]]:
    """Every table and index with the text that made it, however that was laid out."""
    rows = ask(path, "SELECT name, coalesce(sql, '') FROM sqlite_schema")
    return {(name, " ".join(text.split())) for name, text in rows}


def rows_of(path: Path) -> dict[str, list[Any]]:
    return {name: ask(path, f"SELECT * FROM {name} ORDER BY 1") for name in METADATA.tables}  # noqa: S608 - names of ours


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that the code of the first revision made and filled."""
    path = tmp_path / "old.db"
    path.touch(mode=0o600)
    path.write_bytes(packed(f"{FIRST}.db"))
    return path


def test_an_old_file_survives_the_way_up_and_back(old: Path) -> None:
    schema, rows = schema_of(old), rows_of(old)
    head = str(versions.CODE.number)

    async def up(backend: Backend) -> None:
        assert backend.admin is not None
        assert (await backend.admin.check()).schema_state == "behind"
        applied = (await backend.admin.migrate()).applied
        assert [sentence[:5] for sentence in applied] == ["0002:"]
        assert (await backend.admin.check()).schema_state == "current"
        assert (await backend.admin.verify()).problems == ()
        assert (await backend.admin.migrate()).applied == ()

    async def down(backend: Backend) -> None:
        assert backend.admin is not None
        assert (await backend.runs.get_run(run_id="root")).found
        assert len((await backend.admin.migrate(target="1")).applied) == 1
        with pytest.raises(SchemaVersionError):
            await backend.runs.get_run(run_id="root")
        assert (await backend.admin.check()).schema_state == "behind"

    use(old, up)
    assert asyncio.run(exported(f"sqlite:{old}")) == export_of(FIRST)
    use(old, down)
    assert ask(old, "PRAGMA user_version") == [(1,)]
    assert schema_of(old) == schema
    assert rows_of(old) == rows
    use(old, lambda backend: backend.admin.migrate(target=head))  # pyright: ignore[reportOptionalMemberAccess]
    assert asyncio.run(exported(f"sqlite:{old}")) == export_of(FIRST)


def test_an_older_file_is_refused_by_stores_and_named_with_the_way_out(old: Path) -> None:
    before = old.read_bytes()

    async def work(backend: Backend) -> None:
        assert backend.admin is not None
        for refused in (backend.runs.get_run(run_id="root"), backend.runs.create_run(run_id="s")):
            with pytest.raises(
                SchemaVersionError, match=r"format 0001, .* needs 0002.*admin\.migr"
            ):
                await refused
        plan = await backend.admin.plan_migration()
        assert len(plan.steps) == 1
        assert "back" in plan.advice[0]
        assert plan.sql == ""
        check = await backend.admin.check()
        assert check.versions["format"] == f"0001 (code: {versions.CODE})"

    use(old, work)
    assert old.read_bytes() == before


def test_the_sql_that_is_shown_does_what_migrate_does(old: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown.db"
    shown.write_bytes(old.read_bytes())
    for target, version in (("", versions.CODE.packed), ("1", 1)):

        async def plan(backend: Backend, target: str = target) -> str:
            assert backend.admin is not None
            return (await backend.admin.plan_migration(target=target, sql=True)).sql

        script = use(old, plan)
        with contextlib.closing(sqlite3.connect(shown, isolation_level=None)) as connection:
            connection.executescript(script)
        use(old, lambda backend, target=target: backend.admin.migrate(target=target))
        assert schema_of(shown) == schema_of(old)
        assert ask(shown, "PRAGMA user_version") == [(version,)]


@pytest.mark.parametrize("target", ["0", "3", "head"])
def test_a_target_that_is_not_known_changes_nothing(old: Path, target: str) -> None:
    before = old.read_bytes()

    async def work(backend: Backend) -> None:
        assert backend.admin is not None
        for refused in (backend.admin.migrate, backend.admin.plan_migration):
            with pytest.raises(InvalidRequestError, match="target"):
                await refused(target=target)

    use(old, work)
    assert old.read_bytes() == before


def made_by_chain(path: Path, end: int) -> None:
    """Make the tables by the chain of revisions, up to one of them."""
    dialect = versions.sqlite.dialect()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for step in chain_in(versions.REVISIONS).steps(NOTHING, end, dialect):
            for text in step.statements:
                connection.execute(text)


def test_the_first_revision_is_what_it_was(old: Path, tmp_path: Path) -> None:
    made_by_chain(tmp_path / "chained.db", 1)
    assert schema_of(tmp_path / "chained.db") == schema_of(old)


def test_the_chain_makes_what_is_declared(tmp_path: Path) -> None:
    made, chained = tmp_path / "made.db", tmp_path / "chained.db"
    use(made, lambda backend: backend.runs.get_run(run_id="none"))
    made_by_chain(chained, versions.CODE.number)
    assert schema_of(chained) == schema_of(made)
    assert ask(chained, "PRAGMA application_id") == ask(made, "PRAGMA application_id")
    assert [len(identity) for (identity,) in ask(chained, "SELECT identity FROM storage")] == [32]
    engine = create_engine(f"sqlite:///{chained}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def as_if_of(revision: Revision, patch: pytest.MonkeyPatch) -> None:
    """Let this code be of another revision."""
    for module in (versions, storage, admin):
        patch.setattr(module, "CODE", revision)


async def write_and_read(backend: Backend) -> None:
    appended = await backend.runs.append_messages(
        run_id="root", messages=[Message(role="user", text="more")]
    )
    assert appended.applied
    assert (await backend.runs.list_runs()).runs
    assert (await backend.tool_results.list_tool_results()).infos  # pyright: ignore[reportOptionalMemberAccess]


def test_code_of_the_revision_before_works_on_while_the_file_is_migrated(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = versions.CODE
    assert code.oldest == 1

    async def work(backend: Backend) -> None:
        await write_and_read(backend)
        with monkeypatch.context() as patch:
            as_if_of(code, patch)
            async with open_sqlite(f"sqlite:{old}") as newer:
                assert newer.admin is not None
                assert (await newer.admin.migrate()).applied
                await write_and_read(newer)
        await write_and_read(backend)
        assert backend.admin is not None
        check = await backend.admin.check()
        assert check.schema_state == "current"
        assert check.versions["format"] == "0002_from_0001 (code: 0001)"
        assert (await backend.admin.migrate()).applied == ()

    as_if_of(Revision(1, 1), monkeypatch)
    use(old, work)
    use(old, write_and_read)  # started anew meanwhile


def test_code_that_a_migration_leaves_behind_is_refused_while_it_runs(old: Path) -> None:
    async def work(backend: Backend) -> None:
        assert backend.admin is not None
        await backend.admin.migrate()
        await write_and_read(backend)
        ask(old, "PRAGMA user_version = 3")
        for refused in (
            backend.runs.get_run(run_id="root"),
            backend.runs.delete_run(run_id="root"),
        ):
            with pytest.raises(SchemaVersionError, match=r"format 0003, .* knows 0002.*update"):
                await refused
        ask(old, f"PRAGMA user_version = {versions.CODE.packed}")
        await write_and_read(backend)

    use(old, work)


def test_tables_of_the_host_in_the_file_stay_as_they_are(old: Path) -> None:
    ask(old, "CREATE TABLE alembic_version (version_num TEXT)")
    ask(old, "INSERT INTO alembic_version VALUES ('theirs')")
    for target in ("", "1"):
        use(old, lambda backend, target=target: backend.admin.migrate(target=target))
        assert ask(old, "SELECT * FROM alembic_version") == [("theirs",)]


def test_of_sixteen_processes_that_migrate_at_once_one_takes_each_step(
    old: Path, root: Path, python: Python
) -> None:
    # Forked from one that has everything imported, so that they start at the same moment.
    program = (
        "import asyncio, os, sys\n"
        "import stores_sql.migrations.chain\n"
        "from stores_sql.sqlite.backend import open_sqlite\n"
        "async def main():\n"
        "    async with open_sqlite(f'sqlite:{sys.argv[1]}', busy_timeout=60) as backend:\n"
        "        applied = (await backend.admin.migrate(timeout=60)).applied\n"
        "        assert (await backend.runs.get_run(run_id='root')).found\n"
        "        os.write(1, b'%d\\n' % len(applied))\n"
        "children = []\n"
        "for _ in range(16):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        asyncio.run(main())\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "sys.exit(any(os.waitpid(child, 0)[1] for child in children))\n"
    )
    ran = python("-W", "ignore", "-c", program, old, cwd=root)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.split()) == ["0"] * 15 + ["1"]


@pytest.mark.long
def test_a_process_killed_at_any_statement_leaves_the_file_as_it_was(
    old: Path, root: Path, python: Python
) -> None:
    # Each child is killed one statement later than the one before it, the last by none.
    program = (
        "import os, signal, sqlite3, sys\n"
        "from stores_sql.sqlite import versions\n"
        "class Killing(sqlite3.Connection):\n"
        "    left = 1_000\n"
        "    def execute(self, *args):\n"
        "        if self.left == 0:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        self.left -= 1\n"
        "        return super().execute(*args)\n"
        "def migrate(left):\n"
        "    connection = sqlite3.connect(sys.argv[1], isolation_level=None, factory=Killing)\n"
        "    connection.execute('BEGIN IMMEDIATE')\n"
        "    connection.left = left\n"
        "    versions.migrate(connection)\n"
        "    connection.execute('COMMIT')\n"
        "    os._exit(0)\n"
        "for left in range(100):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        migrate(left)\n"
        "    _, status = os.waitpid(child, 0)\n"
        "    after = sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version').fetchone()[0]\n"
        "    print(left, os.WIFSIGNALED(status), after)\n"
        "    if not os.WIFSIGNALED(status):\n"
        "        break\n"
    )
    schema = schema_of(old)
    ran = python("-W", "ignore", "-c", program, old, cwd=root)
    assert ran.returncode == 0, ran.stderr
    *killed, last = [line.split()[1:] for line in ran.stdout.splitlines()]
    assert len(killed) >= 6
    assert killed == [["True", "1"]] * len(killed)
    assert last == ["False", str(versions.CODE.packed)]
    assert schema_of(old) != schema
    assert asyncio.run(exported(f"sqlite:{old}")) == export_of(FIRST)


def test_opening_and_working_imports_nothing_of_alembic(
    tmp_path: Path, root: Path, python: Python
) -> None:
    program = (
        "import asyncio, sys\n"
        "from stores_sql.sqlite.backend import open_sqlite\n"
        "async def main():\n"
        "    for _ in range(2):\n"
        "        async with open_sqlite(f'sqlite:{sys.argv[1]}') as backend:\n"
        "            await backend.runs.create_run(run_id='r')\n"
        "            assert (await backend.admin.plan_migration()).steps == ()\n"
        "            assert (await backend.admin.migrate()).applied == ()\n"
        "    print(sorted({'alembic', 'mako'} & set(sys.modules)))\n"
        "asyncio.run(main())\n"
    )
    ran = python("-c", program, tmp_path / "a.db", cwd=root)
    assert ran.stdout == "[]\n", ran.stderr
