"""Namespaces: apart from one another, cleared whole, listed in order."""

import asyncio
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import (
    fill_many,
    is_missing,
    listed,
    note,
    walk_namespaces,
    write,
)
from stores_core import InvalidRequestError, MemoryItem

MEMORY = ("memory",)


LOOK_ALIKES = ["{}a", "{}/a", "{}:a", "{}%", "{}_", "{}*", "{}.", " {}", "{} ", "{}\n", "{}\u0301"]


@pytest.mark.parametrize("pattern", LOOK_ALIKES)
@proves(
    "MEM-5", "ALL-3", needs=MEMORY, look_at="how a namespace becomes part of a key or a pattern"
)
async def test_namespaces_that_look_alike_share_nothing(lab: Lab, pattern: str) -> None:
    space = lab.new_id("Space_x")
    await _namespaces_are_apart(lab, space, pattern.format(space))


@proves("MEM-5", "ALL-3", needs=MEMORY, look_at="case folding of namespaces")
async def test_namespaces_that_differ_in_case_alone_share_nothing(lab: Lab) -> None:
    space = lab.new_id("Space")
    await _namespaces_are_apart(lab, space, space.swapcase())


@proves("MEM-5", needs=MEMORY, look_at='how the namespace "" is told from the others')
async def test_the_empty_namespace_is_one_like_the_others(lab: Lab) -> None:
    key, space = lab.new_id("key"), lab.new_id("notes")
    await write(lab.backend, "", key, "in the empty one")
    assert await is_missing(lab.reader, space, key)
    await write(lab.backend, space, key, "in another")
    assert (await note(lab.reader, "", key)).value == "in the empty one"
    assert (await lab.backend.memory.delete_memory(key=key)).deleted
    assert await is_missing(lab.reader, "", key)
    assert (await note(lab.reader, space, key)).value == "in another"


async def _namespaces_are_apart(lab: Lab, one: str, two: str) -> None:
    await write(lab.backend, one, "k", "needle one")
    assert await is_missing(lab.reader, two, "k")
    assert (await write(lab.backend, two, "k", "needle two")).created
    assert (await note(lab.reader, one, "k")).value == "needle one"
    assert (await note(lab.reader, two, "k")).value == "needle two"
    for space in (one, two):
        found = await lab.reader.memory.list_memories(namespace=space, query="needle")
        assert len(found.items) == 1
    assert (await lab.backend.memory.clear_namespace(namespace=one)).deleted == 1
    assert await is_missing(lab.reader, one, "k")
    assert (await note(lab.reader, two, "k")).value == "needle two"


@proves("MEM-12", "MEM-5", needs=MEMORY, look_at="clearing by prefix, or a page at a time")
async def test_clearing_removes_one_namespace_whole_and_no_other(lab: Lab) -> None:
    space = lab.new_id("notes")
    count = 300 if lab.quick else 2_500
    neighbours = [f"{space}1", f"{space}/x", space[:-1], f"{space}%", space.upper()]
    await fill_many(
        lab.backend, space, [MemoryItem(key=f"k{n}", value="needle") for n in range(count)]
    )
    for neighbour in neighbours:
        await write(lab.backend, neighbour, "k0", "kept")
    answer = await lab.backend.memory.clear_namespace(namespace=space)
    assert answer.deleted == count
    assert await listed(lab.reader, space) == []
    assert await listed(lab.reader, space, query="needle") == []
    assert await is_missing(lab.reader, space, "k0")
    for neighbour in neighbours:
        assert (await note(lab.reader, neighbour, "k0")).value == "kept"
    assert (await lab.backend.memory.clear_namespace(namespace=space)).deleted == 0


@proves("MEM-12", needs=MEMORY, look_at="the namespace of clear_namespace, which has no default")
async def test_clearing_without_a_name_is_refused(lab: Lab) -> None:
    clear: Any = lab.backend.memory.clear_namespace
    for given in ({}, {"namespace": None}, {"namespace": ["a"]}):
        with pytest.raises(InvalidRequestError) as refused:
            await clear(**given)
        assert refused.value.field == "namespace"


@proves("MEM-12", needs=("memory", "tenant"), look_at='whether clearing "" clears everything')
async def test_clearing_the_empty_namespace_clears_only_that_one(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    await write(client, "", "k", "v")
    await write(client, "other", "k", "v")
    assert (await client.memory.clear_namespace(namespace="")).deleted == 1
    assert await listed(client, "") == []
    assert await listed(client, "other") == ["k"]


@proves("MEM-6", "ALL-7", needs=MEMORY, look_at="where versions of what is gone are remembered")
async def test_no_version_comes_again_where_many_namespaces_are_cleared_at_once(lab: Lab) -> None:
    spaces = [lab.new_id("space") for _ in range(16)]
    for _ in range(2 if lab.quick else 5):
        last: dict[str, int] = {}
        for number, space in enumerate(spaces):
            for _ in range(1 + number):
                last[space] = (await write(lab.backend, space, "k")).version
        clients = (lab.backend, lab.reader)
        clearing = (
            clients[number % 2].memory.clear_namespace(namespace=space)
            for number, space in enumerate(spaces)
        )
        assert [answer.deleted for answer in await asyncio.gather(*clearing)] == [1] * len(spaces)
        for space, version in last.items():
            assert (await write(lab.reader, space, "k")).version > version


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@proves("MEM-13", needs=MEMORY, look_at="the order of list_namespaces: by code point")
async def test_namespaces_are_listed_in_code_point_order_by_any_page(lab: Lab, limit: int) -> None:
    prefix = lab.new_id("space")
    tails = ["", "!", "A", "Z", "_", "a", "a b", "ab", "z", "\x7f", "é", "ﬁ", "\uffff", "😀"]
    tails += ["e\u0301", "\U0010ffff", "a\x01", "a\U0010ffff"]
    for tail in sorted(tails, reverse=True):
        await write(lab.backend, prefix + tail, "k1")
        await write(lab.backend, prefix + tail, "k2")
    expected = sorted(prefix + tail for tail in tails)
    assert await walk_namespaces(lab.reader, prefix, limit) == expected


@proves("MEM-13", needs=MEMORY, look_at="a namespace that outlives its last note")
async def test_a_namespace_without_notes_is_not_listed(lab: Lab) -> None:
    prefix = lab.new_id("space")
    for tail in "abc":
        await write(lab.backend, prefix + tail, "k1")
    await write(lab.backend, prefix + "a", "k2")
    await lab.backend.memory.delete_memory(key="k1", namespace=prefix + "a")
    await lab.backend.memory.delete_memory(key="k1", namespace=prefix + "b")
    await lab.backend.memory.clear_namespace(namespace=prefix + "c")
    assert await walk_namespaces(lab.reader, prefix, 10) == [prefix + "a"]
    await write(lab.backend, prefix + "b", "k1")
    assert await walk_namespaces(lab.reader, prefix, 10) == [prefix + "a", prefix + "b"]
    assert await walk_namespaces(lab.reader, prefix + "b", 10) == [prefix + "b"]
    assert await walk_namespaces(lab.reader, prefix + "x", 10) == []


@pytest.mark.parametrize("sign", ["%", "_", "*", "?", "[ab]", "\\", "'", "{x}", "^"])
@proves("MEM-13", "ALL-3", needs=MEMORY, look_at="how the prefix becomes a pattern")
async def test_every_character_of_a_namespace_prefix_is_literal(lab: Lab, sign: str) -> None:
    start = lab.new_id("space")
    for tail in ("axx", "bxx", sign + "xx"):
        await write(lab.backend, start + tail, "k")
    assert await walk_namespaces(lab.reader, start + sign, 10) == [f"{start}{sign}xx"]


@proves("MEM-13", needs=MEMORY, look_at="cursors of list_namespaces that hold an offset")
async def test_pages_of_namespaces_miss_and_repeat_nothing_meanwhile(lab: Lab) -> None:
    prefix = lab.new_id("space")
    for tail in "bcdef":
        await write(lab.backend, prefix + tail, "k")
    page = await lab.reader.memory.list_namespaces(prefix=prefix, limit=2)
    assert list(page.namespaces) == [prefix + "b", prefix + "c"]
    for tail in ("A", "a"):  # two come and one goes before the cursor, or an offset would fit
        await write(lab.backend, prefix + tail, "k")
    await lab.backend.memory.clear_namespace(namespace=prefix + "c")
    await lab.backend.memory.clear_namespace(namespace=prefix + "d")
    rest = await lab.reader.memory.list_namespaces(prefix=prefix, limit=10, cursor=page.next_cursor)
    assert list(rest.namespaces) == [prefix + "e", prefix + "f"]
    with pytest.raises(InvalidRequestError):
        await lab.reader.memory.list_namespaces(
            prefix=prefix + "b", limit=10, cursor=page.next_cursor
        )
