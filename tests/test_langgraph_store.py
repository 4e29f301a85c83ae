"""The LangGraph store on working memory: namespaces, filters, searches, batches."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict, cast

import pytest

pytest.importorskip("langgraph.store.base", reason="needs the extra langgraph")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from stores_adapters.langgraph import BackendStore
from stores_adapters.langgraph.items import KEPT
from stores_adapters.langgraph.namespaces import beside, flat, labels_of
from stores_core import (
    Backend,
    InvalidRequestError,
    MemoryItem,
    StoreError,
    WordEmbedder,
    open_backend,
)
from tests.langgraph_threads import keys
from tests.meanwhile import Meanwhile


@asynccontextmanager
async def opened(
    url: str, *, embedding: bool = False, fields: Sequence[str] = ("$",)
) -> AsyncGenerator[tuple[Backend, BackendStore]]:
    async with open_backend(url, embedder=WordEmbedder() if embedding else None) as backend:
        yield backend, BackendStore(backend, fields=fields)


async def put_all(store: BackendStore, *namespaces: tuple[str, ...]) -> None:
    for namespace in namespaces:
        await store.aput(namespace, "key", {"in": list(namespace)})


async def test_an_item_comes_back_equal_and_keeps_when_it_was_created(url: str) -> None:
    value: dict[str, Any] = {
        "text": "a\0b \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        "numbers": [1, 1.0, -0.0, 750727362669608961],
        "nested": {"lc": 1, "type": "constructor", "id": ["x", "Y"], "kwargs": {}},
        "": None,
    }
    async with opened(url) as (_, store):
        await store.aput(("a",), "key", {"first": True})
        first = await store.aget(("a",), "key")
        await store.aput(("a",), "key", value)
        second = await store.aget(("a",), "key")
        assert first is not None
        assert second is not None
        assert second.value == value
        assert repr(second.value) == repr(value)
        assert second.created_at == first.created_at
        assert second.updated_at >= first.updated_at
        await store.adelete(("a",), "key")
        await store.adelete(("a",), "key")
        assert await store.aget(("a",), "key") is None


async def test_a_value_that_is_not_json_is_refused_before_anything_is_written(url: str) -> None:
    async with opened(url) as (_, store):
        for value in ({"x": (1, 2)}, {"x": float("nan")}, {"x": b"bytes"}, {"x": "\ud800"}):
            with pytest.raises(InvalidRequestError):
                await store.aput(("a",), "key", value)
        assert await store.asearch(()) == []


labels = st.text(st.characters(exclude_characters=".\0", exclude_categories=["Cs"]), min_size=1)
tuples = st.lists(labels, max_size=4).map(tuple)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw makes Unicode tables
@given(tuples, tuples)
def test_names_are_injective_and_prefixes_end_at_labels(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert labels_of(flat(one)) == one
    assert (flat(one) == flat(other)) == (one == other)
    assert flat(one).startswith(flat(other)) == (one[: len(other)] == other)


async def test_a_namespace_search_takes_no_character_for_a_pattern(url: str) -> None:
    namespaces = [
        ("users", "john-doe"),
        ("users", "john_doe"),
        ("users", "john%doe"),
        ("t", "a"),
        ("t", "ab"),
        ("t", "a", "child"),
        ("a", "b:c"),
        ("a", "b", "c"),
        ("a", "b/c"),
        ("a/b", "c"),
        ("a", "b~1c"),
    ]
    async with opened(url) as (_, store):
        await put_all(store, *namespaces)
        for prefix in [*namespaces, ("t",), ("a",), ()]:
            found = {item.namespace for item in await store.asearch(prefix, limit=100)}
            assert found == {space for space in namespaces if space[: len(prefix)] == prefix}


async def test_the_empty_prefix_means_every_item_of_the_store_and_no_other_note(url: str) -> None:
    async with opened(url) as (backend, store):
        await put_all(store, ("a",), ("b", "c"))
        for namespace in ("", "scratch", "a/"):
            await backend.memory.put_memory(
                item=MemoryItem(key="key", value="theirs"), namespace=namespace
            )
        assert [item.namespace for item in await store.asearch(())] == [("a",), ("b", "c")]
        assert await store.alist_namespaces() == [("a",), ("b", "c")]


@pytest.mark.parametrize("namespace", [("foo.bar",), ("foo\x00",), ("foo", ""), (123,)])
async def test_labels_that_langgraph_forbids_are_refused_in_a_batch_too(namespace: Any) -> None:
    async with opened("memory:") as (_, store):
        for op in (
            GetOp(namespace, "key"),
            PutOp(namespace, "key", {}),
            SearchOp(namespace),
            ListNamespacesOp((MatchCondition("prefix", namespace),)),
        ):
            with pytest.raises(InvalidNamespaceError):
                await store.abatch([PutOp(("fine",), "key", {}), op])
        assert await store.asearch(()) == []


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ({"color": "red"}, "ac"),
        ({"color": {"$eq": "red"}, "size": {"$gte": 2}}, "c"),
        ({"size": {"$gt": 1, "$lt": 3}}, "b"),
        ({"size": {"$lte": 1.0}}, "a"),
        ({"color": {"$ne": "red"}}, "bd"),
        ({"color": {"$gt": "green"}}, "ac"),
        ({"color": {"$gt": 5}}, ""),
        ({"size": True}, ""),
        ({"flag": True}, "a"),
        ({"flag": 1}, ""),
        ({"size": 2.0}, "b"),
        ({"nested": {"deep": {"er": 1}}}, "b"),
        ({"nested": {"deep": {"er": {"$gt": 5}}}}, ""),
        ({"list": [1, 2]}, "d"),
        ({"list": [1]}, ""),
        ({"flag": None}, "bcd"),
        ({"a') OR 1=1 --": "x"}, ""),
        ({"unknown": "x"}, ""),
        ({}, "abcd"),
    ],
)
async def test_a_filter_keeps_what_it_says_and_nothing_else(
    filter: dict[str, Any], wanted: str
) -> None:
    async with opened("memory:") as (_, store):
        for key, value in {
            "a": {"color": "red", "size": 1, "flag": True},
            "b": {"color": "green", "size": 2, "nested": {"deep": {"er": 1, "x": 2}}},
            "c": {"color": "red", "size": 3},
            "d": {"color": "blue", "list": [1, 2]},
        }.items():
            await store.aput(("n",), key, value)
        assert keys(await store.asearch(("n",), filter=filter)) == [*wanted]
        assert keys(await store.asearch(("n",), query="color", filter=filter)) == [*wanted]


async def test_an_unknown_operator_or_a_wrong_limit_is_refused(url: str) -> None:
    async with opened(url) as (_, store):
        await put_all(store, ("a",))
        with pytest.raises(InvalidRequestError, match="filter"):
            await store.asearch((), filter={"x": {"$where": "1"}})
        for wrong in (-1, cast("int", "1; DROP TABLE x"), cast("int", True)):
            with pytest.raises(InvalidRequestError, match="limit"):
                await store.asearch((), limit=wrong)
            with pytest.raises(InvalidRequestError, match="offset"):
                await store.asearch((), offset=wrong)
        for wrong in (0, -1, float("nan"), float("inf"), cast("float", True), cast("float", "1")):
            with pytest.raises(InvalidRequestError, match="ttl"):
                await store.aput(("a",), "other", {}, ttl=wrong)
        with pytest.raises(InvalidRequestError, match="value"):
            await store.aput(("a",), "other", {KEPT: 1})
        assert len(await store.asearch(())) == 1
        assert await store.asearch((), limit=0) == []


async def test_pages_of_a_search_are_the_whole_of_it_in_one_order(url: str) -> None:
    async with opened(url) as (_, store):
        namespaces = [("a",), ("a", "b"), ("a", "c", "d")]
        for namespace in [*namespaces, ("ab",)]:
            for number in range(7):
                await store.aput(namespace, f"k{number}", {"even": number % 2 == 0})
        for filter in (None, {"even": True}, {"even": {"$ne": True}}):
            whole = await store.asearch(("a",), filter=filter, limit=100)
            pages = [
                item
                for offset in range(0, len(whole), 4)
                for item in await store.asearch(("a",), filter=filter, limit=4, offset=offset)
            ]
            assert pages == whole
            assert {item.namespace for item in whole} == set(namespaces)


async def test_without_an_embedder_a_query_finds_substrings(url: str) -> None:
    async with opened(url, fields=["text", "tags[*]"]) as (_, store):
        await store.aput(
            ("a",), "one", {"text": "100% \u0427\u0435\u0440\u0432\u043e\u043d\u0438\u0439"}
        )
        await store.aput(("b",), "two", {"text": "other", "hidden": "100%", "tags": ["x", "100%"]})
        await store.aput(("c",), "three", {"text": "100% sure"}, index=False)
        await store.aput(("d",), "four", {"note": "100%"}, index=["note"])
        assert keys(await store.asearch((), query="100%")) == ["one", "two", "four"]
        assert keys(await store.asearch((), query="\u0447\u0435\u0440\u0432\u043e\u043d")) == [
            "one"
        ]
        assert {item.score for item in await store.asearch((), query="100%")} == {1.0}


async def test_with_an_embedder_a_query_ranks_over_all_namespaces(url: str) -> None:
    async with opened(url, embedding=True, fields=["text"]) as (_, store):
        await store.aput(("u", "1"), "tea", {"text": "green tea from Japan", "n": 1})
        await store.aput(("u", "2"), "train", {"text": "the train leaves at nine", "n": 2})
        await store.aput(("u", "3"), "drink", {"text": "she drinks green tea", "n": 3})
        await store.aput(("v",), "tea", {"text": "green tea"})
        for number in range(5):
            await store.aput(("u", "1"), f"green tea {number}", {"text": "x"}, index=False)
        found = await store.asearch(("u",), query="green tea from Japan", limit=2)
        assert keys(found) == ["tea", "drink"]
        assert found[0].score is not None
        assert found[1].score is not None
        assert 1.0 >= found[0].score > found[1].score > 0
        ranked = await store.asearch(("u",), query="tea", limit=3, offset=2)
        assert [(item.key, item.score is None) for item in ranked] == [
            ("train", False),
            ("green tea 0", True),
            ("green tea 1", True),
        ]
        left = await store.asearch(("u",), query="green tea", filter={"n": {"$gt": 1}}, limit=1)
        assert keys(left) == ["drink"]
        await store.adelete(("u", "3"), "drink")
        assert "drink" not in keys(await store.asearch(("u",), query="drinks", limit=100))


async def test_each_field_of_an_item_is_compared_by_itself_and_the_best_one_counts(
    url: str,
) -> None:
    async with opened(url, embedding=True, fields=["title", "body", "tags[*]"]) as (
        backend,
        store,
    ):
        long = " ".join(f"word{number}" for number in range(60))
        items: dict[str, dict[str, Any]] = {
            "by-body": {"title": long, "body": "green tea"},
            "by-tag": {"title": long, "body": long, "tags": ["nothing", "green tea from Japan"]},
            "by-title": {"title": "tea", "body": long},
            "neither": {"title": long, "body": long},
        }
        for key, value in items.items():
            await store.aput(("a",), key, value)
        found = await store.asearch(("a",), query="green tea")
        assert keys(found)[:3] == ["by-body", "by-tag", "by-title"]
        assert [item.value for item in found] == [items[item.key] for item in found]
        for limit in (1, 2, 3):
            assert await store.asearch(("a",), query="green tea", limit=limit) == found[:limit]
        assert keys(await store.asearch((), query="green tea", filter={"title": "tea"})) == [
            "by-title"
        ]
        # What is put anew, or deleted, is found by its old texts no more, and they leave.
        await store.aput(("a",), "by-body", {"title": "train"})
        await store.adelete(("a",), "by-tag")
        assert keys(await store.asearch(("a",), query="green tea", limit=1)) == ["by-title"]
        left = await backend.memory.list_memories(namespace=beside(flat(("a",))))
        assert {scored.item.key for scored in left.items} == {"by-title/1", "neither/1"}
        assert await store.alist_namespaces() == [("a",)]


async def test_a_text_that_a_cut_off_put_left_is_not_found(url: str) -> None:
    before_the_items = Meanwhile("put_memories")
    async with open_backend(url, interceptors=[before_the_items]) as backend:
        store = BackendStore(backend, fields=["title", "body"])
        await store.aput(("a",), "key", {"title": "old", "body": "old body"})

        async def go_on() -> None:
            before_the_items.act = cut_off

        async def cut_off() -> None:
            raise ConnectionError

        before_the_items.act = go_on
        with pytest.raises(StoreError):
            await store.aput(("a",), "key", {"title": "new", "body": "new body"})
        assert await store.asearch(("a",), query="new") == []
        assert keys(await store.asearch(("a",), query="old")) == ["key"]


async def test_namespaces_are_listed_by_prefix_suffix_wildcard_and_depth(url: str) -> None:
    spaces = [
        ("a",),
        ("a!", "f"),
        ("a", "b", "c"),
        ("a", "b", "d", "e"),
        ("a", "b", "f"),
        ("a", "c", "f"),
        ("ab", "f"),
    ]
    async with opened(url) as (_, store):
        await put_all(store, *spaces)
        listing = store.alist_namespaces
        assert await listing() == sorted(spaces)
        assert await listing(prefix=("a", "b")) == [*spaces[2:5]]
        assert await listing(suffix=("f",)) == sorted([spaces[1], *spaces[4:]])
        assert await listing(prefix=("a", "*", "f")) == [spaces[4], spaces[5]]
        assert await listing(prefix=("*", "b"), suffix=("*", "e")) == [spaces[3]]
        assert await listing(prefix=("a",), max_depth=2) == [("a",), ("a", "b"), ("a", "c")]
        assert await listing(prefix=("a",), limit=2, offset=1) == [spaces[2], spaces[3]]
        assert await listing(prefix=("x",)) == []


async def test_a_batch_reads_what_was_there_before_it_and_its_last_put_counts(url: str) -> None:
    async with opened(url) as (_, store):
        await store.aput(("a",), "old", {"v": 1})
        results = await store.abatch(
            [
                PutOp(("a",), "old", None),
                GetOp(("a",), "old"),
                PutOp(("a",), "new", {"v": 1}),
                SearchOp(("a",)),
                PutOp(("a",), "new", {"v": 2}),
                ListNamespacesOp(),
            ]
        )
        old = results[1]
        assert getattr(old, "value", None) == {"v": 1}
        assert [result is None for result in results] == [True, False, True, False, True, False]
        assert keys(cast("list[SearchItem]", results[3])) == ["old"]
        assert [(item.key, item.value) for item in await store.asearch(("a",))] == [
            ("new", {"v": 2})
        ]


async def test_more_notes_and_namespaces_than_a_page_are_all_found() -> None:
    async with opened("memory:") as (_, store):
        await store.abatch([PutOp(("many", f"{n:04}"), "key", {"n": n}) for n in range(1_100)])
        await store.abatch([PutOp(("one",), f"{n:04}", {"n": n}) for n in range(1_000)])
        await store.abatch([PutOp(("one",), f"{n:04}", {"n": n}) for n in range(1_000, 1_100)])
        assert len(await store.alist_namespaces(limit=2_000)) == 1_101
        assert len(await store.asearch(("many",), limit=2_000)) == 1_100
        last = await store.asearch(("one",), filter={"n": {"$gte": 1_050}}, limit=1_000)
        assert [item.value["n"] for item in last] == [*range(1_050, 1_100)]


async def test_a_synchronous_node_uses_the_store_from_its_thread(url: str) -> None:
    class State(TypedDict):
        found: Annotated[list[str], "keys"]

    def remember(state: State, runtime: Runtime[None]) -> dict[str, list[str]]:
        assert runtime.store is not None
        runtime.store.put(("facts",), "tea", {"text": "likes tea"})
        return {"found": keys(runtime.store.search(("facts",), query="tea"))}

    async with opened(url) as (_, store):
        graph: Any = StateGraph(State)
        graph.add_node(remember)
        graph.add_edge(START, "remember")
        graph.add_edge("remember", END)
        answer = await graph.compile(store=store).ainvoke({"found": []})
        assert answer == {"found": ["tea"]}
        with pytest.raises(InvalidRequestError, match="loop"):
            store.get(("facts",), "tea")
        assert await asyncio.to_thread(store.get, ("facts",), "none") is None
