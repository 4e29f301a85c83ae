"""The stored format of a tenant: entered once, recognised, refused, migrated."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from conformance_tests.faults.proxy import Fault, proxied
from stores_core import (
    InvalidRequestError,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    SchemaVersionError,
    StoreUnavailableError,
    ToolResult,
    open_backend,
)
from stores_core.revisions import Revision
from stores_redis import steps, versions
from stores_redis.connections import HostPool
from stores_redis.revisions import r0002_counts
from stores_redis.scripts import Script
from stores_redis.storage import Storage, Tenant
from tests.golden.filling import TENANTS, exported
from tests.golden.opened import export_of
from tests.redis_keys import commands_of, put_there

Redis: Any = TypedRedis  # its types are partly unknown
FIRST = "redis-0001"
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
    assert meta == {"format": "2", "oldest": "2", "buckets": "1"}
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
        (("HSET", "format", "3", "oldest", "3", "buckets", "1"), "update agent-stores"),
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
    await do(redis_url, "HSET", meta_of(redis_url), "format", 3, "oldest", 2, "buckets", 3)
    async with open_backend(redis_url) as backend:
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        assert (await backend.admin.check()).settings["buckets"] == "3"
        assert (await backend.admin.plan_migration()).steps == ()
        with pytest.raises(InvalidRequestError, match="update agent-stores"):
            await backend.admin.migrate(target="1")


@pytest.fixture
def old(redis_url: str) -> str:
    """A storage that the code of the first revision made and filled."""
    asyncio.run(put_there(redis_url, export_of(f"{FIRST}.commands")))
    return redis_url


def without_steps(commands: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without the marks of steps that were taken."""
    left = {key: words for key, words in commands.items() if not key.endswith(":step")}
    for key, (name, *pairs) in left.items():
        if key.endswith(":meta"):
            fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
            fields.pop("steps", None)
            left[key] = [name, *(part for pair in sorted(fields.items()) for part in pair)]
    return left


async def migrated(url: str, tenant: str, target: str = "") -> Sequence[str]:
    async with open_backend(url, tenant=tenant) as backend:
        return (await backend.admin.migrate(target=target)).applied


async def test_a_golden_storage_survives_the_way_up_and_back(old: str) -> None:
    before = await commands_of(old)
    assert before == export_of(f"{FIRST}.commands")
    for tenant in TENANTS:
        async with open_backend(old, tenant=tenant) as backend:
            assert (await backend.admin.check()).schema_state == "behind"
            plan = await backend.admin.plan_migration()
            assert plan.advice
            assert (await backend.admin.migrate()).applied == plan.steps
            assert [sentence[:5] for sentence in plan.steps] == ["0002:"]
            assert (await backend.admin.check()).schema_state == "current"
            assert (await backend.admin.verify()).problems == ()
            assert (await backend.admin.migrate()).applied == ()
    assert await exported(old) == export_of(FIRST)
    counts = (await commands_of(old))["{.0}:note-counts"]
    assert counts == ["ZADD", "5", "", "7", "fruit"]
    for tenant in TENANTS:
        assert len(await migrated(old, tenant, "1")) == 1
        async with open_backend(old, tenant=tenant) as backend:
            with pytest.raises(SchemaVersionError, match=r"0001.*0002.*admin\.migrate"):
                await backend.runs.get_run(run_id="root")
    assert without_steps(await commands_of(old)) == before
    for tenant in TENANTS:
        await migrated(old, tenant)
    assert await exported(old) == export_of(FIRST)


async def test_an_older_storage_is_refused_by_stores_and_left_as_it_is(old: str) -> None:
    before = await commands_of(old)
    async with open_backend(old) as backend:
        for refused in (
            backend.runs.get_run(run_id="root"),
            backend.runs.append_messages(run_id="root", messages=TURN),
            backend.memory.list_memories(),
            backend.tool_results.list_tool_results(),
        ):
            with pytest.raises(SchemaVersionError, match=r"0001.*0002.*admin\.migrate"):
                await refused
        for target in ("0", "3", "head"):
            with pytest.raises(InvalidRequestError, match="target"):
                await backend.admin.migrate(target=target)
    assert await commands_of(old) == before


async def test_what_notes_do_keeps_the_counts_that_a_step_would_make(redis_url: str) -> None:
    async with open_backend(f"{redis_url}&notes_per_namespace=30") as backend:
        memory = backend.memory
        for space, count in (("a", 40), ("b", 3), ("c:{%}", 2), ("", 1)):
            items = [MemoryItem(key=f"{n}", value="v") for n in range(count)]
            await memory.put_memories(items=items, namespace=space)
            await memory.put_memory(item=items[0], namespace=space)
        await memory.delete_memory(key="0", namespace="c:{%}")
        await memory.delete_memory(key="0", namespace="")
        await memory.put_memory(item=items[0], namespace="gone")
        await memory.clear_namespace(namespace="gone")
        kept = (await commands_of(redis_url))["{.0}:note-counts"]
        assert kept == ["ZADD", "1", "c:{%}", "3", "b", "30", "a"]
        await backend.admin.migrate(target="1")
        assert "{.0}:note-counts" not in await commands_of(redis_url)
        await backend.admin.migrate()
        assert (await commands_of(redis_url))["{.0}:note-counts"] == kept


async def test_many_that_migrate_at_once_take_each_step_once(redis_url: str) -> None:
    url = f"{redis_url}&buckets=5"
    async with open_backend(url) as backend:
        for n in range(20):
            item = MemoryItem(key="k", value="v")
            await backend.memory.put_memory(item=item, namespace=f"{n}")
    for target in ("1", "", "1", ""):
        done = await asyncio.gather(*(migrated(url, "", target) for _ in range(16)))
        assert sorted(map(len, done)) == [0] * 15 + [1]
    async with open_backend(url) as backend:
        assert len((await backend.memory.list_namespaces()).namespaces) == 20
        assert (await backend.admin.verify()).problems == ()
    counts = [key for key in await commands_of(url) if key.endswith("note-counts")]
    assert len(counts) == 5


@pytest.mark.long
@pytest.mark.parametrize("back", [False, True])
async def test_a_step_goes_on_or_back_wherever_its_taker_dies(
    old: str, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind each request in turn the connection is lost, and the taker never comes back."""
    monkeypatch.setattr(steps, "HOLDS", 0)  # it is overtaken at once
    before = await commands_of(old)
    died = 0
    async with proxied(old) as proxy:
        for requests in range(12):
            async with open_backend(proxy.url(old), pool_size=1) as backend:
                proxy.cut(Fault(reply=0, after=requests))
                with suppress(OutcomeUnknownError, StoreUnavailableError):
                    await backend.admin.migrate()
                proxy.cut(None)
            found = await versions_of(old)
            if found.is_unfinished:
                died += 1
                async with open_backend(old) as backend:
                    assert (await backend.admin.check()).schema_state == "behind"
                    with pytest.raises(SchemaVersionError, match="half-way"):
                        await backend.memory.list_memories()
            if back:
                await migrated(old, "", "1")
                assert without_steps(await commands_of(old)) == before
            else:
                await migrated(old, "")
                assert (await commands_of(old))["{.0}:note-counts"][1::2] == ["5", "7"]
                await migrated(old, "", "1")
    assert died == 3, "begun, gone on, worked: what follows ends it"


async def versions_of(url: str) -> versions.Found:
    prefix = re.findall("prefix=([^&]+)", url)[0]
    async with Redis.from_url(url.partition("?")[0]) as client:
        return await versions.look(Storage(HostPool(client), prefix), "")


async def test_one_who_was_overtaken_does_nothing_any_more(old: str) -> None:
    prefix = re.findall("prefix=([^&]+)", old)[0]
    async with Redis.from_url(old.partition("?")[0]) as client:
        tenant = Tenant(Storage(HostPool(client), prefix), "")
        slow = await steps.begin(tenant, Revision(1, 1), versions.CODE, is_unfinished=False)
        with pytest.raises(steps.OvertakenError):
            await steps.begin(tenant, Revision(1, 1), versions.CODE, is_unfinished=False)
        await do(old, "HDEL", meta_of(old), "until")  # as if it had been silent for long
        assert len(await migrated(old, "")) == 1
        done = await commands_of(old)
        with pytest.raises(steps.OvertakenError):
            await r0002_counts.downgrade(tenant, slow)
        with pytest.raises(steps.OvertakenError):
            await slow.end(Revision(1, 1))
        # Nor does what was sent before and comes late.
        [bucket] = tenant.buckets
        keys = bucket.step(), bucket.note_counts(), bucket.pending_notes()
        late = await tenant.run(Script("r0002_downgrade"), keys, (b"1",), writes=True)
        assert late == [b"lost"]
        assert await commands_of(old) == done


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
