"""Notes in Postgres: racing writers, statements counted, long queries."""

import asyncio

from stores_core import (
    MemoryItem,
    open_backend,
)
from tests.postgres_notes import keys, value
from tests.postgres_plans import recorded


async def test_racing_puts_to_one_namespace_are_all_there_and_counted(postgres_url: str) -> None:
    async with open_backend(postgres_url) as one, open_backend(postgres_url) as other:
        puts = await asyncio.gather(
            *(
                client.memory.put_memory(
                    item=MemoryItem(key=f"k{n % 10}", value=f"{n}", metadata={"n": n % 3}),
                    namespace="s",
                )
                for n in range(40)
                for client in (one, other)
            )
        )
        assert sum(put.created for put in puts) == 10
        assert sorted(put.version for put in puts) == sorted(list(range(1, 9)) * 10)
        listed = (await one.memory.list_memories(namespace="s")).items
        assert [scored.item.version for scored in listed] == [8] * 10
        for n in range(3):
            found = (await other.memory.list_memories(namespace="s", where={"n": n})).items
            assert {scored.item.key for scored in found} == {
                scored.item.key for scored in listed if scored.item.metadata == {"n": n}
            }
    counts = await value(postgres_url, "SELECT note_count FROM agent_stores.namespaces")
    assert counts == 10


async def test_no_put_that_races_a_delete_starts_below_the_deleted_version(
    postgres_url: str,
) -> None:
    async with open_backend(postgres_url) as one, open_backend(postgres_url) as other:
        highest = 0
        for n in range(40):
            put, _ = await asyncio.gather(
                one.memory.put_memory(item=MemoryItem(key="k", value=f"{n}"), namespace="s"),
                other.memory.delete_memory(key="k", namespace="s")
                if n % 2
                else other.memory.clear_namespace(namespace="s"),
            )
            assert put.version > highest
            highest = put.version
            # Whether it was deleted before or after, the next one starts above.


async def test_a_cap_holds_under_racing_puts(postgres_url: str) -> None:
    async with (
        open_backend(postgres_url, notes_per_namespace=5) as one,
        open_backend(postgres_url, notes_per_namespace=5) as other,
    ):
        await asyncio.gather(
            *(
                client.memory.put_memory(item=MemoryItem(key=f"{index} {n}", value="v"))
                for n in range(15)
                for index, client in enumerate((one, other))
            )
        )
        assert len((await one.memory.list_memories()).items) == 5
    assert await value(postgres_url, "SELECT note_count FROM agent_stores.namespaces") == 5


async def test_a_put_is_one_statement_and_a_batch_too(postgres_url: str) -> None:
    async with recorded(postgres_url) as (backend, sent):
        await backend.memory.put_memory(item=MemoryItem(key="first", value="v"))
        for items in (1, 500):
            batch = [MemoryItem(key=f"k{n}", value="v", metadata={"n": n}) for n in range(items)]
            sent.clear()
            await backend.memory.put_memories(items=batch)
            assert len([one for one in sent if "agent_stores" in one.query]) == 1


async def test_a_long_query_is_matched_to_its_end(postgres_url: str) -> None:
    start = "é%_\\" * 40
    async with open_backend(postgres_url) as backend:
        for n, text in enumerate((start + "x", start + "Y", "z" + start + "y")):
            await backend.memory.put_memory(
                item=MemoryItem(key=f"k{n}", value=text, metadata={"odd": n % 2 == 1})
            )
        assert await keys(backend, "", start, limit=0) == ["k0", "k1", "k2"]
        assert await keys(backend, "", start + "y", limit=0) == ["k1", "k2"]
        assert await keys(backend, "", start + "y", limit=1) == ["k1"]
        assert await keys(backend, "", start + "y", where={"odd": False}) == ["k2"]
