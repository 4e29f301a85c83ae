"""The stored format of a tenant: entered once, recognised, refused, migrated."""

import asyncio
import re
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import (
    InvalidRequestError,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    SchemaVersionError,
    ToolResult,
    open_backend,
)
from stores_core.revisions import Revision
from stores_redis import versions
from stores_redis.storage import Tenant
from stores_redis.versions import Step

Redis: Any = TypedRedis  # its types are partly unknown
TURN = [Message(role="user", text="x")]


def meta_of(url: str, tenant: str = "") -> str:
    prefix = re.findall("prefix=([^&]+)", url)[0]
    return f"{prefix}:{{{tenant}}}:meta"


async def do(url: str, *command: object, decode: bool = True) -> Any:
    async with Redis.from_url(url.partition("?")[0], decode_responses=decode) as client:
        return await client.execute_command(*command)


async def dump(url: str) -> bytes:
    """The meta key of the tenant, whatever it is."""
    return await do(url, "DUMP", meta_of(url), decode=False)


async def test_clients_that_come_first_together_agree(redis_url: str) -> None:
    async def work() -> str:
        async with open_backend(redis_url, tenant="t") as backend:
            await backend.runs.create_run()
            await backend.runs.create_run()
            return (await backend.runs.list_runs(limit=1)).next_cursor

    cursors = await asyncio.gather(*(work() for _ in range(8)))
    meta = await do(redis_url, "HGETALL", meta_of(redis_url, "t"))
    assert meta == {"format": "1", "oldest": "1", "buckets": "1"}
    async with open_backend(redis_url, tenant="t") as backend:
        for cursor in cursors:  # bound to the identity of the storage
            assert (await backend.runs.list_runs(cursor=cursor)).runs
        assert len((await backend.runs.list_runs()).runs) == 16


async def test_another_prefix_is_another_storage(redis_url: str) -> None:
    async with open_backend(redis_url) as one, open_backend(f"{redis_url}-2") as other:
        await one.runs.create_run(run_id="r")
        await one.runs.create_run(run_id="s")
        assert not (await other.runs.get_run(run_id="r")).found
        cursor = (await one.runs.list_runs(limit=1)).next_cursor
        with pytest.raises(InvalidRequestError, match="cursor"):
            await other.runs.list_runs(cursor=cursor)
        assert (await other.admin.list_tenants()).tenants == ()
        assert (await one.admin.list_tenants()).tenants == ("",)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("SET", "foreign"), "another prefix"),
        (("HSET", "name", "foreign"), "another prefix"),
        (("HSET", "format", "x", "oldest", "1", "buckets", "1"), "another prefix"),
        (("HSET", "format", "3", "oldest", "2", "buckets", "1"), "update agent-stores"),
    ],
)
async def test_what_is_foreign_or_newer_is_left_as_it_is(
    redis_url: str, command: tuple[str, ...], words: str
) -> None:
    name, *rest = command
    await do(redis_url, name, meta_of(redis_url), *rest)
    before = await dump(redis_url)
    async with open_backend(redis_url) as backend:
        for operation in (
            backend.runs.create_run(run_id="r"),
            backend.runs.get_run(run_id="r"),
            backend.memory.list_memories(),
            backend.tool_results.delete_tool_result(ref="r"),
        ):
            with pytest.raises(SchemaVersionError, match=words):
                await operation
        state = (await backend.admin.check()).schema_state
        assert state == ("ahead" if "update" in words else "foreign")
    assert await dump(redis_url) == before
    async with open_backend(redis_url, tenant="another") as backend:
        assert (await backend.runs.create_run(run_id="r")).created


async def test_a_newer_format_that_this_code_knows_enough_of_is_used(redis_url: str) -> None:
    await do(redis_url, "HSET", meta_of(redis_url), "format", 2, "oldest", 1, "buckets", 3)
    async with open_backend(redis_url) as backend:
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        assert (await backend.admin.check()).settings["buckets"] == "3"
        assert (await backend.admin.plan_migration()).steps == ()


async def test_an_older_format_is_refused_until_its_steps_were_taken(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backend(redis_url) as backend:
        await backend.runs.create_run(run_id="r")
    taken: list[str] = []

    async def work(tenant: Tenant) -> None:
        taken.append(tenant.name)
        if len(taken) == 1:
            raise RuntimeError("cut off")

    steps = [Step(Revision(2, 2), "0002: first", work), Step(Revision(3, 3), "0003: then", work)]
    monkeypatch.setattr(versions, "STEPS", steps)
    monkeypatch.setattr(versions, "CODE", Revision(3, 3))
    async with open_backend(redis_url) as backend:
        with pytest.raises(SchemaVersionError, match=r"0001.*0003.*migrate"):
            await backend.runs.append_messages(run_id="r", messages=TURN)
        assert (await backend.admin.check()).schema_state == "behind"
        plan = await backend.admin.plan_migration()
        assert plan.steps == ("0002: first", "0003: then")
        assert plan.advice
        assert (await backend.admin.plan_migration(target="2")).steps == ("0002: first",)
        with pytest.raises(OutcomeUnknownError):
            await backend.admin.migrate()
        assert (await backend.admin.check()).versions["format"] == "0001 (code: 0001)"
        assert (await backend.admin.migrate(target="2")).applied == ("0002: first",)
        with pytest.raises(SchemaVersionError):
            await backend.runs.get_run(run_id="r")
        assert (await backend.admin.migrate()).applied == ("0003: then",)
        assert (await backend.admin.migrate()).applied == ()
        assert (await backend.runs.get_run(run_id="r")).found
    assert len(taken) == 3


async def test_erasing_a_tenant_leaves_its_mark_and_nothing_else(redis_url: str) -> None:
    prefix = re.findall("prefix=([^&]+)", redis_url)[0]
    async with open_backend(redis_url, tenant="a*b") as backend:
        await backend.runs.create_run(run_id="r", labels={"l": "v"})
        await backend.runs.append_messages(run_id="r", messages=TURN, idempotency_key="k")
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v" * 5_000))
        await backend.tool_results.put_tool_result(ref="r", result=ToolResult())
        async with open_backend(redis_url, tenant="axb") as other:
            await other.runs.create_run(run_id="r")
            assert (await other.admin.list_tenants()).tenants == ("a*b", "axb")
            assert (await other.admin.erase_tenant(tenant="a*b")).erased
            assert not (await other.admin.erase_tenant(tenant="a*b")).erased
            assert (await other.admin.list_tenants()).tenants == ("axb",)
            assert (await other.runs.get_run(run_id="r")).found
        left = await do(redis_url, "KEYS", f"{prefix}:{{a%2ab*")
        assert left == [meta_of(redis_url, "a%2ab")]
        assert (await backend.runs.create_run(run_id="r")).created
        assert (await backend.memory.list_memories()).items == ()
