"""A user with no more rights than docs/redis.md grants, and what is missing without them."""

import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import Durability, MemoryItem, StoreUnavailableError, WordEmbedder, open_backend
from tests.postgres_callers import TURN, work
from tests.redis_embedded import EmbeddedRedis, embedded_redis

Redis: Any = TypedRedis  # its types are partly unknown


def rights(root: Path) -> list[list[str]]:
    """The lines of docs/redis.md under "Rights", in their two blocks."""
    text = (root / "docs" / "redis.md").read_text("utf-8").partition("## Rights")[2]
    blocks = re.findall(r"```\n(ACL SETUSER application.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    return [block.strip().split("\n") for block in blocks]


async def grant(server: EmbeddedRedis, *lines: str) -> str:
    """The URL of the user who has these rights."""
    async with Redis.from_url(server.url) as client:
        for line in lines:
            await client.execute_command(*line.split())
    return f"redis://application:password@127.0.0.1:{server.port}/0"


async def refusals(server: EmbeddedRedis) -> set[str]:
    """What the user was refused."""
    async with Redis.from_url(server.url) as client:
        return {entry["object"].lower() for entry in await client.acl_log()}


@pytest.mark.parametrize("looks", [False, True], ids=["least", "and settings"])
async def test_the_documented_rights_are_enough_for_everything(root: Path, looks: bool) -> None:
    least, more = rights(root)
    with embedded_redis() as server:
        url = await grant(server, *least, *(more if looks else []))
        async with open_backend(url, embedder=WordEmbedder(), tenant="t") as backend:
            level = Durability.BOUNDED if looks else Durability.UNVERIFIED
            assert backend.durability is level
            await work(backend, "caller", 3)
            await backend.memory.put_memory(item=MemoryItem(key="k", value="words" * 2_000))
            recalled = await backend.memory.list_memories(query="words", limit=1)
            assert recalled.items[0].item.key == "k"
            assert (await backend.admin.reembed()).done
            assert (await backend.admin.measure()).bytes
            while (await backend.admin.sweep()).more:
                pass
            assert (await backend.admin.verify()).problems == ()
            checked = await backend.admin.check()
            told = [warning for warning in checked.warnings if "unverified" in warning]
            assert bool(told) is not looks
            assert (await backend.admin.list_tenants()).tenants == ("t",)
            assert (await backend.admin.erase_tenant(tenant="t")).erased
        refused = await refusals(server)
    assert refused <= (set() if looks else {"config|get", "info", "vcard"})


async def test_a_user_without_rights_is_told_so_and_changes_nothing(root: Path) -> None:
    least, _ = rights(root)
    with embedded_redis() as server:
        async with open_backend(server.url) as backend:
            await backend.runs.create_run(run_id="r")
        url = await grant(server, *least, "ACL SETUSER application -@write")
        async with open_backend(url) as backend:
            assert (await backend.runs.get_run(run_id="r")).found
            with pytest.raises(StoreUnavailableError, match="lacks a right"):
                await backend.runs.append_messages(run_id="r", messages=TURN)
            with pytest.raises(StoreUnavailableError, match="lacks a right"):
                await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        with pytest.raises(StoreUnavailableError, match="lacks a right"):
            async with open_backend(f"{url}?prefix=another"):
                pass
        async with open_backend(server.url) as backend:
            assert (await backend.runs.load_run(run_id="r")).run
            assert (await backend.memory.list_memories()).items == ()
