"""A role with no more rights than docs/postgres.md grants, and what is missing without them."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from stores_core import (
    InvalidRequestError,
    MemoryItem,
    SchemaVersionError,
    StoreUnavailableError,
    WordEmbedder,
    open_backend,
)
from tests.postgres_callers import TURN, work
from tests.postgres_server import asyncpg

PASSWORD = "only_in_tests"


@dataclass
class Roles:
    """The URLs of one database for its owner and for an application's role."""

    owner: str
    application: str
    name: str

    async def run(self, *statements: str) -> None:
        connection = await asyncpg.connect(self.owner)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


async def with_role(owner: str) -> Roles:
    name = "application_" + owner.rpartition("_")[2]
    url = re.sub(r"//[^@]*@", f"//{name}:{PASSWORD}@", owner)
    roles = Roles(owner, url, name)
    await roles.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    return roles


async def without_role(roles: Roles) -> None:
    await roles.run(f"DROP OWNED BY {roles.name}", f"DROP ROLE {roles.name}")


def grants(root: Path, role: str) -> list[str]:
    """The statements of docs/postgres.md under "Rights"."""
    text = (root / "docs" / "postgres.md").read_text("utf-8")
    block = text.partition("## Rights")[2].partition("```sql\n")[2].partition("```")[0]
    found = [line for line in block.split("\n") if line.startswith("GRANT")]
    assert found
    return [line.replace("application", role) for line in found]


async def test_the_documented_grants_are_enough_for_everything(
    postgres_url: str, root: Path
) -> None:
    roles = await with_role(postgres_url)
    try:
        async with open_backend(postgres_url):
            pass
        await roles.run(*grants(root, roles.name))
        async with open_backend(
            roles.application, create=False, embedder=WordEmbedder(), tenant="t"
        ) as backend:
            await work(backend, "caller", 3)
            await backend.memory.put_memory(item=MemoryItem(key="k", value="words"))
            recalled = await backend.memory.list_memories(query="words", limit=1)
            assert recalled.items[0].item.key == "k"
            while (await backend.admin.sweep()).more:
                pass
            assert (await backend.admin.verify()).problems == ()
            checked = await backend.admin.check()
            assert not [warning for warning in checked.warnings if "superuser" in warning]
            assert (await backend.admin.erase_tenant(tenant="t")).erased
    finally:
        await without_role(roles)


async def test_a_role_without_rights_is_told_so_and_changes_nothing(postgres_url: str) -> None:
    roles = await with_role(postgres_url)
    try:
        with pytest.raises(StoreUnavailableError, match="42501"):
            async with open_backend(roles.application):
                pass
        with pytest.raises(SchemaVersionError):
            async with open_backend(roles.application, create=False):
                pass
        async with open_backend(postgres_url) as backend:
            await backend.runs.create_run(run_id="r")
        with pytest.raises((SchemaVersionError, StoreUnavailableError)):
            async with open_backend(roles.application, create=False):
                pass
        await roles.run(
            f"GRANT USAGE ON SCHEMA agent_stores TO {roles.name}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA agent_stores TO {roles.name}",
        )
        async with open_backend(roles.application, create=False) as backend:
            assert (await backend.runs.get_run(run_id="r")).found
            with pytest.raises(StoreUnavailableError, match="lacks a right"):
                await backend.runs.append_messages(run_id="r", messages=TURN)
            with pytest.raises(StoreUnavailableError, match="lacks a right"):
                await backend.runs.create_run(run_id="new")
        async with open_backend(postgres_url) as backend:
            info = (await backend.runs.get_run(run_id="r")).info
            assert info
            assert info.message_count == 0
    finally:
        await without_role(roles)


async def test_a_standby_that_only_reads_refuses_writes(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        await backend.runs.create_run(run_id="r")
    roles = await with_role(postgres_url)
    try:
        database = postgres_url.rpartition("/")[2]
        await roles.run(
            f"GRANT ALL ON SCHEMA agent_stores TO {roles.name}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA agent_stores TO {roles.name}",
            f"ALTER ROLE {roles.name} IN DATABASE {database} "
            "SET default_transaction_read_only = on",
        )
        async with open_backend(roles.application, create=False) as backend:
            assert (await backend.runs.get_run(run_id="r")).found
            with pytest.raises(StoreUnavailableError, match="read-only"):
                await backend.runs.append_messages(run_id="r", messages=TURN)
            checked = await backend.admin.check()
            assert any("read-only" in warning for warning in checked.warnings)
    finally:
        await without_role(roles)


async def test_a_pool_size_of_nothing_is_refused(postgres_url: str) -> None:
    with pytest.raises(InvalidRequestError):
        async with open_backend(f"{postgres_url}?pool_size=0"):
            pass
