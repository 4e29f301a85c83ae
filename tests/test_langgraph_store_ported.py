"""The LangGraph store beside LangGraph's own: the same answers, and what the tests of those ask.

LangGraph tests its stores each by itself, so what those tests ask is put here in our words.
"""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest

pytest.importorskip("langgraph.store.memory", reason="needs the extra langgraph")

from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from stores_adapters.langgraph import BackendStore
from stores_core import WordEmbedder, open_backend
from tests.langgraph_threads import keys

LABELS = ["a", "b", "ab", "A", "*", "a*", "a?", "[a]", "a_b", "a%", "+", "a\n", "\u00fc"]
KEYS = ["k", "K", "k/1", "k 2"]
VALUES: list[dict[str, Any]] = [
    {"tag": "red", "size": 1, "flag": True},
    {"tag": "green", "size": 9, "user": {"access-level": "public", "n": 3}},
    {"tag": "O'Brien", "size": 10.5, "list": ["draft", 1]},
    {"tag": "red", "size": -1, "flag": False, "123abc": "ok"},
    {"size": 10, "user": {"n": 4}, "none": None},
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"tag": "red"},
    {"tag": "red", "size": {"$lt": 0}},
    {"size": {"$gt": 9}},
    {"size": {"$gte": 9, "$lt": 10.5}},
    {"size": {"$lt": 10**100}},
    {"size": {"$lt": float("inf"), "$gt": float("-inf")}},
    {"size": {"$eq": float("nan")}},
    {"size": {"$eq": 10}},
    {"tag": {"$ne": "red"}},
    {"flag": False},
    {"list": ["draft", 1]},
    {"list": ["draft"]},
    {"user": {"access-level": "public"}},
    {"user": {"n": {"$gt": 3}, "access-level": None}},
    {"none": None},
    {"123abc": "ok"},
    {"tag": "O'Brien"},
    *({"tag": hostile} for hostile in ("red' OR '1'='1", "red'; --", "red\0' OR 1", "''''", "r%")),
    {"tag') = 'red' OR json_extract(value, '$.": "x"},
]


class Both(NamedTuple):
    """One storage of ours and LangGraph's store in memory."""

    ours: BackendStore
    reference: InMemoryStore

    async def same(self, ops: Sequence[Op]) -> None:
        """Gives both the same batch, and compares the answers."""
        # That one goes on listing a namespace that was read from, or that lost its last item.
        spaces = cast("dict[tuple[str, ...], dict[str, Item]]", vars_of(self.reference))
        for empty in [space for space, items in spaces.items() if not items]:
            del spaces[empty]
        theirs = await self.reference.abatch(ops)
        ours = await self.ours.abatch(ops)
        for op, one, other in zip(ops, ours, theirs, strict=True):
            assert told(one) == told(other), op


def vars_of(reference: InMemoryStore) -> object:
    return reference._data  # type: ignore[reportPrivateUsage] - there is no other way to see it


def told(result: Result) -> object:
    """What both have to agree on: all but the times, and the order of a search without a query."""
    match result:
        case Item():
            return result.namespace, result.key, result.value
        case [SearchItem(), *_]:
            found = cast("list[SearchItem]", result)
            return sorted((item.namespace, item.key, repr(item.value)) for item in found)
        case _:
            return result


@asynccontextmanager
async def both(url: str) -> AsyncGenerator[Both]:
    async with open_backend(url) as backend:
        yield Both(BackendStore(backend), InMemoryStore())


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_the_calls_it_answers_as_langgraphs_own_store(url: str, seed: int) -> None:
    draw = random.Random(seed)
    labels = draw.sample(LABELS, 3)

    def space(least: int = 1) -> tuple[str, ...]:
        return tuple(draw.choices(labels, k=draw.randint(least, 2)))

    def path() -> tuple[str, ...]:
        return tuple("*" if draw.random() < 0.3 else label for label in space())

    def operation() -> Op:
        match draw.randint(0, 9):
            case 0:
                return GetOp(space(), draw.choice(KEYS))
            case 1 | 2:
                return SearchOp(space(0), filter=draw.choice(FILTERS), limit=1_000)
            case 3:
                return PutOp(space(), draw.choice(KEYS), None)
            case 4 | 5:
                ends = draw.sample(["prefix", "suffix"], draw.randint(0, 2))
                return ListNamespacesOp(
                    tuple(MatchCondition(cast("Any", end), path()) for end in ends),
                    max_depth=draw.choice([None, 1, 2]),
                    limit=draw.choice([2, 100]),
                    offset=draw.choice([0, 1]),
                )
            case _:
                return PutOp(space(), draw.choice(KEYS), draw.choice(VALUES))

    async with both(url) as stores:
        for _ in range(20):
            await stores.same([operation() for _ in range(draw.randint(1, 4))])
        await stores.same([ListNamespacesOp(limit=1_000), SearchOp((), limit=1_000)])


async def test_a_filter_keeps_what_it_keeps_in_langgraphs_own_store(url: str) -> None:
    async with both(url) as stores:
        await stores.same([PutOp(("a",), f"{n}", value) for n, value in enumerate(VALUES)])
        await stores.same([SearchOp(("a",), filter=filter, limit=100) for filter in FILTERS])


async def test_namespaces_are_cut_at_labels_and_no_label_is_a_pattern(url: str) -> None:
    spaces = [
        *(("foo",), ("foo", "child"), ("foo", "child", "deep"), ("foobar",), ("foobar", "baz")),
        *(("Foo",), ("uid", "users", "alice"), ("uid", "users", "malice"), ("users", "alice\n")),
        *(("star*",), ("starX",), ("q?m",), ("qXm",), ("br[ack]et",), ("brXacXket",)),
        *(
            ("user_1",),
            ("userX1",),
            ("a%b",),
            ("axxb",),
            ("plus+",),
            ("plusX",),
            ("users", "alice"),
        ),
    ]
    prefixes = [space[:depth] for space in spaces for depth in range(1, len(space) + 1)]
    async with both(url) as stores:
        await stores.same([PutOp(space, "k", {"v": 1}) for space in spaces])
        await stores.same([SearchOp(prefix, limit=100) for prefix in [(), ("fo",), *prefixes]])
        # A label "*" in a condition stands for any one label, a longer one with "*" for itself.
        conditions = [*prefixes, ("alice",), ("*", "alice"), ("uid", "*", "alice"), ("*",)]
        await stores.same(
            [
                ListNamespacesOp((MatchCondition(end, path),), limit=100)
                for path in conditions
                for end in ("prefix", "suffix")
            ]
        )


@asynccontextmanager
async def embedding(url: str, fields: Sequence[str]) -> AsyncGenerator[BackendStore]:
    async with open_backend(url, embedder=WordEmbedder()) as backend:
        yield BackendStore(backend, fields=fields)


async def test_a_put_is_found_by_its_new_text_and_by_its_old_one_less(url: str) -> None:
    async with embedding(url, ["text"]) as store:

        async def score(query: str, key: str) -> float:
            found = {item.key: item.score for item in await store.asearch(("t",), query=query)}
            return found[key] or 0.0

        await store.aput(("t",), "one", {"text": "zany zebra Xerxes"})
        await store.aput(("t",), "two", {"text": "something about dogs"})
        before = await score("zany Xerxes", "one")
        assert keys(await store.asearch(("t",), query="zany Xerxes"))[0] == "one"
        await store.aput(("t",), "one", {"text": "new text about dogs"})
        assert await score("zany Xerxes", "one") < before
        assert await score("new text about dogs", "one") > await score("zany Xerxes", "one")
        await store.aput(("t",), "three", {"text": "new text about dogs"}, index=False)
        assert keys(await store.asearch(("t",), query="new text", limit=2)) == ["one", "two"]
        assert keys(await store.asearch(("t",), query="new text"))[2:] == ["three"]


async def test_a_query_ranks_what_passes_the_filter_in_pages(url: str) -> None:
    async with embedding(url, ["text"]) as store:
        for key, (text, color, score) in {
            "d1": ("red apple", "red", 4.5),
            "d2": ("red car", "red", 3.0),
            "d3": ("green apple", "green", 4.0),
            "d4": ("blue car", "blue", 3.5),
        }.items():
            await store.aput(("t",), key, {"text": text, "color": color, "score": score})

        async def found(query: str, **filter: Any) -> list[str]:
            return keys(await store.asearch(("t",), query=query, filter=filter))

        assert await found("apple", color="red") == ["d1", "d2"]
        assert await found("car", color="red") == ["d2", "d1"]
        assert (await found("blue", score={"$gt": 3.2}))[0] == "d4"
        assert {*await found("blue", score={"$gt": 3.2})} == {"d1", "d3", "d4"}
        assert await found("apple", color="green", score={"$gte": 4.0}) == ["d3"]
        whole = await store.asearch(("t",), query="apple")
        pages = [await store.asearch(("t",), query="apple", limit=3, offset=at) for at in (0, 3, 6)]
        assert [item for page in pages for item in page] == whole
        scores = [item.score or 0.0 for item in whole]
        assert scores == sorted(scores, reverse=True)


async def test_the_paths_of_the_store_or_of_the_put_say_what_a_query_sees(url: str) -> None:
    async with embedding(url, ["k0", "k1", "k3"]) as store:
        await store.aput(("t",), "1", {"k1": "xxx", "k2": "yyy", "k3": "zzz"})
        await store.aput(("t",), "2", {"k0": "uuu", "k1": "vvv", "k2": "www", "k3": "xxx"})
        for query, best in {"uuu": "2", "zzz": "1"}.items():
            first, second = await store.asearch(("t",), query=query)
            assert first.key == best
            assert (first.score or 0) > (second.score or 0)
        for unseen in ("www", "yyy"):
            assert all((i.score or 0) < 0.5 for i in await store.asearch(("t",), query=unseen))
        await store.aput(("o",), "3", {"k0": "aaa", "k1": "bbb", "k2": "ccc"}, index=["k0", "k2"])
        await store.aput(("o",), "4", {"k0": "eee", "k1": "bbb", "k2": "fff"}, index=["k1"])
        for query, best in {"aaa": "3", "ccc": "3", "bbb": "4"}.items():
            assert keys(await store.asearch(("o",), query=query))[0] == best


async def test_any_text_may_be_asked_for(url: str) -> None:
    texts = {
        "1": "\u8fd9\u662f\u4e2d\u6587",
        "2": "\u3053\u308c\u306f\u65e5\u672c\u8a9e\u3067\u3059",
        "3": "\uc774\uac74 \ud55c\uad6d\uc5b4\uc57c",
        "4": "\u042d\u0442\u043e \u0440\u0443\u0441\u0441\u043a\u0438\u0439",
        "5": "\u092f\u0939 \u0930\u0942\u0938\u0940 \u0939\u0948",
    }
    async with embedding(url, ["text"]) as store:
        await store.abatch([PutOp(("t",), key, {"text": text}) for key, text in texts.items()])
        for key, text in texts.items():
            assert keys(await store.asearch(("t",), query=text))[0] == key
        for query in ("", None, "test " * 100, "test!@#$%^&*()"):
            assert len(await store.asearch(("t",), query=query)) == len(texts)
