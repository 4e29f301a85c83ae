"""An application on Postgres before, during and after a migration."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    Backend,
    MemoryItem,
    Message,
    SchemaVersionError,
    StoreUnavailableError,
    ToolResult,
    open_backend,
)
from stores_core.revisions import Revision
from stores_sql.postgres import admin, versions
from tests.golden.filling import exported
from tests.golden.opened import export_of, packed
from tests.postgres_schema import SCHEMA, Server, role, with_a_third

FIRST = "postgres-0001"
LOAD = [Message(role="user", text="hello")]


@pytest.fixture
def server(postgres_url: str) -> Server:
    return Server(postgres_url)


async def work(backend: Backend, id: str) -> None:
    """Write and read something in every store."""
    runs, memory, results = backend.runs, backend.memory, backend.tool_results
    assert runs is not None
    assert memory is not None
    assert results is not None
    await runs.create_run(run_id=id, labels={"a": "b"})
    assert (await runs.append_messages(run_id=id, messages=LOAD, idempotency_key="k")).applied
    assert (await runs.fork_run(run_id=id, new_run_id=f"{id} fork")).created
    assert (await runs.list_runs(labels={"a": "b"})).runs
    assert id in [run.id for run in (await runs.list_runs()).runs]
    await memory.put_memory(item=MemoryItem(key=id, value="v", metadata={"n": 1}))
    assert (await memory.list_memories(query="v", where={"n": 1})).items
    await results.put_tool_result(
        ref=id, result=ToolResult(content=({"type": "text", "text": "x"},))
    )
    assert (await results.list_tool_results()).infos
    assert (await results.delete_tool_result(ref=id)).deleted
    assert (await runs.delete_run(run_id=id)).deleted


def as_if_of(revision: Revision, patch: pytest.MonkeyPatch) -> None:
    for module in (versions, admin):
        patch.setattr(module, "CODE", revision)


async def test_a_golden_database_survives_the_way_up_and_back(server: Server) -> None:
    await server.restore(packed(f"{FIRST}.sql").decode(), export_of(f"{FIRST}.rows"))
    schema, rows = await server.described(), await server.rows()
    async with open_backend(server.url) as backend:
        assert backend.admin is not None
        assert (await backend.admin.check()).schema_state == "behind"
        assert len((await backend.admin.migrate()).applied) == 1
        assert (await backend.admin.verify()).problems == ()
    assert await exported(server.url) == export_of(FIRST)
    await server.migrate("1")
    assert await server.described() == schema
    assert await server.rows() == rows
    await server.migrate()
    assert await exported(server.url, create=False) == export_of(FIRST)


def test_the_first_revision_is_what_it_was() -> None:
    assert versions.migration_sql(SCHEMA, "", "1") == packed(f"{FIRST}.sql").decode()


async def test_stores_refuse_an_older_schema_until_it_is_migrated(server: Server) -> None:
    await server.made_by_chain(1)
    with pytest.raises(SchemaVersionError, match=r"0001.*admin\.migrate"):
        async with open_backend(server.url, create=False):
            pass
    async with open_backend(server.url) as backend:
        assert backend.admin is not None
        assert (await backend.admin.check()).schema_state == "behind"
        for refused in (backend.runs.get_run(run_id="r"), backend.runs.create_run(run_id="r")):
            with pytest.raises(SchemaVersionError, match=r"0001.*0002.*admin\.migrate"):
                await refused
        plan = await backend.admin.plan_migration(sql=True)
        assert len(plan.steps) == 1
        assert "CREATE INDEX CONCURRENTLY newest_runs" in plan.sql
        assert "pg_dump" in plan.advice[0]
        assert (await backend.admin.migrate()).applied == plan.steps
        await work(backend, "r")
        assert (await backend.admin.plan_migration(sql=True)).sql == ""
        assert len((await backend.admin.migrate(target="1")).applied) == 1
        with pytest.raises(SchemaVersionError, match="0001"):
            await backend.runs.get_run(run_id="r")


async def test_an_application_goes_on_while_the_schema_is_migrated_under_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = versions.CODE
    await server.made_by_chain(1)
    as_if_of(Revision(1, 1), monkeypatch)
    async with open_backend(server.url, create=False, pool_size=3) as backend:
        await work(backend, "before")
        turns = 0

        async def go_on(caller: int) -> None:
            nonlocal turns
            while not done.is_set():
                await work(backend, f"{caller} {turns}")
                turns += 1

        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for caller in range(3):
                group.create_task(go_on(caller))
            for target in ("", "1", ""):
                with monkeypatch.context() as patch:
                    as_if_of(code, patch)
                    assert len(await server.migrate(target)) == 1
            done.set()
        assert turns > 3
        await work(backend, "after")
    async with open_backend(server.url, create=False) as started_anew:
        await work(started_anew, "anew")


async def test_code_that_a_migration_leaves_behind_is_refused_while_it_runs(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backend(server.url) as backend:
        await work(backend, "before")
        with monkeypatch.context() as patch:
            with_a_third(tmp_path, patch, renames=True)
            assert len(await server.migrate()) == 1
        for refused in (backend.runs.get_run(run_id="r"), backend.runs.create_run(run_id="r")):
            with pytest.raises(SchemaVersionError):
                await refused
        assert await server.revision() == "0003"


async def test_a_role_with_rights_on_rows_alone_does_everything_with_them(server: Server) -> None:
    await server.prepare(create=True)
    async with role(server, rows=True) as url:
        for create in (False, True):
            async with open_backend(url, create=create) as backend:
                await work(backend, f"r{create}")
                assert backend.admin is not None
                assert (await backend.admin.check()).schema_state == "current"
                with pytest.raises(StoreUnavailableError, match="lacks a right"):
                    await backend.admin.migrate(target="1")


async def test_a_pool_of_one_is_told_that_an_index_takes_two(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "SECOND_WAIT", 0.5)
    await server.made_by_chain(1)
    async with open_backend(server.url, pool_size=1) as backend:
        assert backend.admin is not None
        with pytest.raises(StoreUnavailableError, match="two or more"):
            await backend.admin.migrate()
    assert await server.revision() == "0001"
    assert await server.migrate()


async def test_a_migration_that_was_cancelled_holds_nothing(server: Server) -> None:
    await server.made_by_chain(1)
    async with open_backend(server.url, pool_size=2) as backend:
        assert backend.admin is not None
        for steps in range(0, 60, 4):
            call: asyncio.Task[Any] = asyncio.ensure_future(backend.admin.migrate())
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait({call})
        async with asyncio.timeout(30):
            await backend.admin.migrate()
            await work(backend, "r")
    assert not await server.fetch("SELECT 1 FROM pg_index WHERE NOT indisvalid")
    after = Server(server.url, "chained")
    await after.made_by_chain()
    assert await server.described() == await after.described()
