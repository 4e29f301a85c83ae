"""Listing notes: order, pages, cursors, caps."""

from datetime import UTC, datetime, timedelta

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import fill, fill_many, keys, listed, walk, write
from stores_core import InvalidRequestError, MemoryItem

LONG_AGO = datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
FAR_AHEAD = datetime(2999, 1, 1, tzinfo=UTC)

MEMORY = ("memory",)


@proves("MEM-3", needs=MEMORY, look_at="the sort key of the listing: created_at, then arrival")
async def test_a_listing_is_oldest_first_by_created_at_whenever_notes_arrived(lab: Lab) -> None:
    space = lab.new_id("notes")
    times = {"b": LONG_AGO, "now": None, "c": LONG_AGO - timedelta(microseconds=1)}
    times |= {"e": FAR_AHEAD, "d": LONG_AGO + timedelta(microseconds=1)}
    times["a"] = LONG_AGO - timedelta(days=9_000)  # before 1970
    for key, created_at in times.items():
        await lab.backend.memory.put_memory(
            item=MemoryItem(key=key, value="", created_at=created_at), namespace=space
        )
    expected = ["a", "c", "b", "d", "now", "e"]  # neither by key nor by arrival
    assert await listed(lab.reader, space) == expected
    assert await walk(lab.reader, space, 2) == expected


@proves("MEM-3", needs=MEMORY, look_at="the tie-break of the listing: arrival, never key or id")
async def test_notes_of_one_moment_are_listed_in_order_of_arrival(lab: Lab) -> None:
    space = lab.new_id("notes")
    order = [f"k{n * 7 % 20:02}" for n in range(20)]
    items = [MemoryItem(key=key, value="", created_at=LONG_AGO) for key in order]
    for item in items[:5]:
        await lab.backend.memory.put_memory(item=item, namespace=space)
    await lab.backend.memory.put_memories(items=items[5:15], namespace=space)
    for item in items[15:]:
        await lab.backend.memory.put_memory(item=item, namespace=space)
    await lab.backend.memory.put_memory(item=items[3], namespace=space)
    assert await listed(lab.reader, space) == order
    for limit in (1, 3, 7):
        assert await walk(lab.reader, space, limit) == order


@proves("MEM-3", needs=MEMORY, look_at="the score of a listing without a query")
async def test_a_listing_scores_everything_0(lab: Lab) -> None:
    space = await fill(lab, [("a", "1"), ("b", "")])
    answer = await lab.reader.memory.list_memories(namespace=space)
    assert_same([scored.score for scored in answer.items], [0.0, 0.0], "scores")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 12, 13])
@proves("MEM-3", "MEM-4", needs=MEMORY, look_at="where a page ends and what its cursor holds")
async def test_pages_give_every_note_once_and_in_order(lab: Lab, limit: int) -> None:
    space = lab.new_id("notes")
    order = [f"k{n:02}" for n in range(12)]
    await fill_many(lab.backend, space, [MemoryItem(key=key, value="v") for key in order])
    assert await walk(lab.reader, space, limit) == order


@proves("MEM-3", needs=MEMORY, look_at="cursors that hold an offset instead of a position")
async def test_pages_miss_and_repeat_nothing_while_notes_come_and_go(lab: Lab) -> None:
    space = await fill(lab, [(f"k{n}", "v") for n in range(10)])
    first = await lab.reader.memory.list_memories(namespace=space, limit=4)
    assert keys(first.items) == ["k0", "k1", "k2", "k3"]
    for gone in ("k0", "k3", "k6"):
        await lab.backend.memory.delete_memory(key=gone, namespace=space)
    await write(lab.backend, space, "k1", "put again")
    await write(lab.backend, space, "late", "v")
    rest: list[str] = []
    cursor = first.next_cursor
    while cursor:
        page = await lab.reader.memory.list_memories(namespace=space, limit=2, cursor=cursor)
        rest += keys(page.items)
        cursor = page.next_cursor
    assert rest == ["k4", "k5", "k7", "k8", "k9", "late"]


@proves("MEM-3", needs=MEMORY, look_at="the check of a cursor before it is used")
async def test_a_cursor_of_another_listing_is_refused(lab: Lab) -> None:
    space = await fill(lab, [("a", "1"), ("b", "2"), ("c", "3")])
    other = await fill(lab, [("a", "1"), ("b", "2"), ("c", "3")])
    cursor = (await lab.reader.memory.list_memories(namespace=space, limit=1)).next_cursor
    assert cursor
    flipped = ("A" if cursor[-2] != "A" else "B").join((cursor[:-2], cursor[-1:]))
    for strange in ("nope", flipped, cursor + "A", cursor[:-4], "x" * 100_000, "\0", "é"):
        with pytest.raises(InvalidRequestError) as refused:
            await lab.reader.memory.list_memories(namespace=space, limit=1, cursor=strange)
        assert refused.value.field == "cursor"
    with pytest.raises(InvalidRequestError):
        await lab.reader.memory.list_memories(namespace=other, limit=1, cursor=cursor)
    with pytest.raises(InvalidRequestError):
        await lab.reader.memory.list_memories(
            namespace=space, limit=1, cursor=cursor, where={"a": 1}
        )
    with pytest.raises(InvalidRequestError):
        await lab.reader.memory.list_memories(namespace=space, query="1", limit=1, cursor=cursor)
    again = await lab.reader.memory.list_memories(namespace=space, limit=5, cursor=cursor)
    assert keys(again.items) == ["b", "c"]


@proves(
    "MEM-4",
    needs=MEMORY,
    thorough=True,
    look_at="limit 0, which is no cap, and limits beyond the notes",
)
async def test_a_limit_caps_the_listing_and_0_does_not(lab: Lab) -> None:
    space = lab.new_id("notes")
    order = [f"k{n:04}" for n in range(1_001)]
    await fill_many(lab.backend, space, [MemoryItem(key=key, value="v") for key in order])
    assert await listed(lab.reader, space) == order
    assert await listed(lab.reader, space, limit=1) == order[:1]
    assert await listed(lab.reader, space, limit=999) == order[:999]
    assert await listed(lab.reader, space, query="v") == order
    assert await listed(lab.reader, space, query="v", limit=3) == order[:3]
    assert await walk(lab.reader, space, 1_000) == order
