"""Items of the LangGraph store that expire: hidden at once, freed by sweeps, kept by reads."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("langgraph.store.base", reason="needs the extra langgraph")

from langgraph.store.base import TTLConfig

from stores_adapters.langgraph import BackendStore
from stores_core import open_backend
from tests.langgraph_threads import keys
from tests.meanwhile import Meanwhile


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def go_on(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@asynccontextmanager
async def with_clock(
    url: str, ttl: TTLConfig | None = None
) -> AsyncGenerator[tuple[BackendStore, Clock]]:
    clock = Clock()
    async with open_backend(url, clock=clock) as backend:
        yield BackendStore(backend, fields=["a", "b"], ttl=ttl), clock


async def test_an_expired_item_is_gone_from_every_read_and_a_sweep_frees_it(url: str) -> None:
    async with with_clock(url) as (store, clock):
        await store.aput(("n",), "short", {"a": "tea", "b": "green tea"}, ttl=10)
        await store.aput(("n",), "ever", {"a": "tea"})
        put = await store.aget(("n",), "short", refresh_ttl=False)
        assert put is not None
        assert put.value == {"a": "tea", "b": "green tea"}
        clock.go_on(9.5)
        found = await store.asearch(("n",), query="tea", refresh_ttl=False)
        assert sorted(keys(found)) == ["ever", "short"]
        assert await store.sweep_ttl() == 0
        clock.go_on(0.5)
        assert await store.aget(("n",), "short") is None
        for query in (None, "tea", "green"):
            assert "short" not in keys(await store.asearch(("n",), query=query))
        assert await store.sweep_ttl() == 1
        assert await store.sweep_ttl() == 0
        assert keys(await store.asearch(("n",))) == ["ever"]
        await store.aput(("n",), "short", {"a": "again"}, ttl=10)
        assert (await store.aget(("n",), "short")) is not None


async def test_reads_refresh_unless_told_otherwise_and_change_nothing_else(url: str) -> None:
    ttl: TTLConfig = {"default_ttl": 10, "refresh_on_read": True}
    async with with_clock(url, ttl) as (store, clock):
        for key in ("got", "found", "seen", "left"):
            await store.aput(("n",), key, {"a": key, "b": "text"})
        put = await store.aget(("n",), "got")
        for _ in range(3):
            clock.go_on(8)
            assert await store.aget(("n",), "got") == put
            assert len(await store.asearch(("n",), filter={"a": "found"})) == 1
            await store.aget(("n",), "seen", refresh_ttl=False)
        assert [item.key for item in await store.asearch(("n",), query="text")] == ["got", "found"]
        await store.aput(("n",), "got", {"a": "for ever"}, ttl=None)
        clock.go_on(1_000)
        assert keys(await store.asearch(("n",))) == ["got"]


async def test_what_is_put_again_while_a_sweep_deletes_it_stays(url: str) -> None:
    before_the_delete, clock = Meanwhile("delete_memory"), Clock()
    async with open_backend(url, clock=clock, interceptors=[before_the_delete]) as backend:
        store = BackendStore(backend)
        await store.aput(("n",), "key", {"v": "old"}, ttl=1)
        clock.go_on(2)
        before_the_delete.act = lambda: store.aput(("n",), "key", {"v": "new"}, ttl=1)
        assert await store.sweep_ttl() == 0
        item = await store.aget(("n",), "key")
        assert item is not None
        assert item.value == {"v": "new"}


async def test_a_namespace_of_expired_items_alone_is_omitted_where_that_is_wanted(url: str) -> None:
    async with with_clock(url, {"omit_expired": True, "default_ttl": 10}) as (store, clock):
        await store.aput(("n", "gone"), "a", {"a": "tea"})
        await store.aput(("n", "mixed"), "a", {"a": "tea"}, ttl=5)
        await store.aput(("n", "mixed"), "b", {"a": "tea"}, ttl=None)
        assert await store.alist_namespaces(prefix=("n",)) == [("n", "gone"), ("n", "mixed")]
        clock.go_on(10)
        assert await store.alist_namespaces(prefix=("n",)) == [("n", "mixed")]
        assert await store.alist_namespaces(max_depth=1) == [("n",)]
        # What is expired takes no place on a page.
        await store.aput(("n", "mixed"), "c", {"a": "tea"})
        found = [await store.asearch(("n",), limit=1, offset=at) for at in range(3)]
        assert [keys(page) for page in found] == [["b"], ["c"], []]
        assert await store.sweep_ttl() == 2
