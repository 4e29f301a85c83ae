"""Notes: putting, versions, conditions, batches, deleting."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import fill, is_missing, listed, note, walk, write
from stores_core import DeleteMemoryResponse, InvalidRequestError, MemoryItem, PutMemoryResponse

LONG_AGO = datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
FAR_AHEAD = datetime(2999, 1, 1, tzinfo=UTC)

MEMORY = ("memory",)
NO_METADATA: dict[str, Any] = {}


@proves("MEM-1", needs=MEMORY, look_at="what put_memory answers for a key that is not there")
async def test_a_new_note_is_created_and_found_by_its_key(lab: Lab) -> None:
    space = lab.new_id("notes")
    put = await write(lab.backend, space, "k", "v", {"a": 1})
    assert (put.created, put.conflict) == (True, False)
    assert put.version >= 1, "version 0 means that there is no note"
    kept = await note(lab.reader, space, "k")
    assert_same((kept.value, kept.metadata, kept.version), ("v", {"a": 1}, put.version), "note")


@proves("MEM-1", needs=MEMORY, look_at="the update branch of put_memory: a put is no merge")
async def test_a_second_put_replaces_value_and_metadata_whole(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k", "old", {"a": 1, "b": {"c": [1]}})
    put = await write(lab.backend, space, "k", "new", {"b": {"d": 2}})
    assert not put.created
    kept = await note(lab.reader, space, "k")
    assert_same((kept.value, kept.metadata), ("new", {"b": {"d": 2}}), "replaced note")
    await write(lab.backend, space, "k", "")
    kept = await note(lab.reader, space, "k")
    assert_same((kept.value, kept.metadata), ("", NO_METADATA), "note put without metadata")


@proves("MEM-1", needs=MEMORY, look_at="how put_memory counts versions")
async def test_each_put_raises_the_version_by_one(lab: Lab) -> None:
    space = lab.new_id("notes")
    first = (await write(lab.backend, space, "k", "v")).version
    for step in range(1, 5):
        put = await write(lab.backend, space, "k", "v")  # an equal value is a put too
        assert put.version == first + step
        assert (await note(lab.reader, space, "k")).version == first + step
    assert (await note(lab.reader, space, "k")).version == first + 4, "reading counts as a put"


@proves("MEM-1", needs=MEMORY, look_at="how put_memory counts versions under concurrent puts")
async def test_concurrent_puts_of_one_key_each_get_a_version_of_their_own(lab: Lab) -> None:
    space = lab.new_id("notes")
    clients = (lab.backend, lab.reader)
    puts = await asyncio.gather(
        *(write(clients[n % 2], space, "k", f"value {n}") for n in range(40))
    )
    versions = sorted(put.version for put in puts)
    assert versions == list(range(versions[0], versions[0] + 40))
    assert [put.created for put in puts].count(True) == 1
    last = max(range(40), key=lambda n: puts[n].version)
    kept = await note(lab.reader, space, "k")
    assert (kept.value, kept.version) == (f"value {last}", versions[-1])


@pytest.mark.parametrize(
    "again", [None, LONG_AGO, FAR_AHEAD], ids=["not given", "earlier", "later"]
)
@proves("MEM-1", needs=MEMORY, look_at="whether an update writes created_at or re-inserts the note")
async def test_a_second_put_keeps_place_and_created_at_whatever_the_item_says(
    lab: Lab, again: datetime | None
) -> None:
    space = await fill(lab, [("a", "1"), ("b", "2"), ("c", "3")])
    before = await note(lab.reader, space, "b")
    await lab.backend.memory.put_memory(
        item=MemoryItem(key="b", value="new", created_at=again), namespace=space
    )
    assert (await note(lab.reader, space, "b")).created_at == before.created_at
    assert await listed(lab.reader, space) == ["a", "b", "c"]
    await lab.backend.memory.put_memories(
        items=[
            MemoryItem(key="a", value="new", created_at=again),
            MemoryItem(key="d", value="4"),
            MemoryItem(key="c", value="new", created_at=again),
        ],
        namespace=space,
    )
    assert await listed(lab.reader, space) == ["a", "b", "c", "d"]
    assert await walk(lab.reader, space, 1) == ["a", "b", "c", "d"]


@proves("MEM-2", "ALL-4", needs=MEMORY, look_at="the stamp of a note without created_at")
async def test_a_note_without_created_at_is_stamped_and_a_given_one_is_kept(lab: Lab) -> None:
    space = lab.new_id("notes")
    before = datetime.now(UTC)
    await write(lab.backend, space, "stamped")
    after = datetime.now(UTC)
    stamped = (await note(lab.reader, space, "stamped")).created_at
    assert before <= stamped <= after
    given = datetime(2001, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    await lab.backend.memory.put_memory(
        item=MemoryItem(key="given", value="", created_at=given), namespace=space
    )
    assert_same((await note(lab.reader, space, "given")).created_at, given, "created_at")


@proves("MEM-6", needs=MEMORY, look_at="what delete_memory answers, and what it leaves behind")
async def test_a_deleted_note_is_gone_from_every_listing_at_once(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k", "needle", {"a": 1})
    await write(lab.backend, space, "k2", "needle", {"a": 1})
    assert (await lab.backend.memory.delete_memory(key="k", namespace=space)).deleted
    assert await is_missing(lab.reader, space, "k")
    assert await listed(lab.reader, space, query="needle") == ["k2"]
    assert await listed(lab.reader, space, where={"a": 1}) == ["k2"]
    assert await walk(lab.reader, space, 1) == ["k2"]


@proves("MEM-6", needs=MEMORY, look_at="the count that delete_memory turns into deleted")
async def test_deleting_an_unknown_key_says_so(lab: Lab) -> None:
    space = lab.new_id("notes")
    assert not (await lab.backend.memory.delete_memory(key="k", namespace=space)).deleted
    await write(lab.backend, space, "kk")
    assert not (await lab.backend.memory.delete_memory(key="k", namespace=space)).deleted
    assert (await lab.backend.memory.delete_memory(key="kk", namespace=space)).deleted
    assert not (await lab.backend.memory.delete_memory(key="kk", namespace=space)).deleted


@pytest.mark.parametrize("how", ["delete", "clear"])
@proves("MEM-6", needs=MEMORY, look_at="where the version of a deleted key is remembered")
async def test_a_put_after_a_delete_is_a_new_note_with_a_higher_version(lab: Lab, how: str) -> None:
    space = await fill(lab, [("a", "1"), ("b", "2")])
    await write(lab.backend, space, "a", "1")
    high = (await write(lab.backend, space, "a", "1", {"old": True})).version
    old = await note(lab.reader, space, "a")
    if how == "delete":
        await lab.backend.memory.delete_memory(key="a", namespace=space)
    else:
        await lab.backend.memory.clear_namespace(namespace=space)
        await write(lab.backend, space, "b", "2")
    put = await write(lab.backend, space, "a", "again")
    assert put.created
    assert put.version > high
    kept = await note(lab.reader, space, "a")
    assert_same((kept.value, kept.metadata), ("again", NO_METADATA), "the new note")
    assert kept.created_at >= old.updated_at
    assert await listed(lab.reader, space) == ["b", "a"], "the new note took the old one's place"
    await lab.backend.memory.delete_memory(key="a", namespace=space)
    assert (await write(lab.backend, space, "a")).version > put.version


@proves("MEM-8", needs=MEMORY, look_at="the answer of put_memories, one entry for each item")
async def test_a_batch_answers_for_each_item_in_order(lab: Lab) -> None:
    space = await fill(lab, [("b", "old"), ("d", "old")])
    known = (await note(lab.reader, space, "d")).version
    items = [MemoryItem(key=key, value=f"value {key}") for key in ("c", "d", "a")]
    answer = await lab.backend.memory.put_memories(items=items, namespace=space)
    assert list(answer.created) == [True, False, True]
    assert answer.versions[1] == known + 1
    for item, version in zip(items, answer.versions, strict=True):
        kept = await note(lab.reader, space, item.key)
        assert (kept.value, kept.version) == (item.value, version)
    assert await listed(lab.reader, space) == ["b", "d", "c", "a"]


@proves("MEM-8", "ALL-2", needs=MEMORY, look_at="checking all items before the first is written")
async def test_one_bad_item_keeps_the_whole_batch_out(lab: Lab) -> None:
    space = await fill(lab, [("known", "old")])
    for bad in ({"key": "", "value": "v"}, {"key": "x", "value": 7}, {"key": "x"}):
        items: list[Any] = [{"key": "known", "value": "new"}, {"key": "b", "value": "v"}, bad]
        with pytest.raises(InvalidRequestError) as refused:
            await lab.backend.memory.put_memories(items=items, namespace=space)
        assert "items[2]" in refused.value.field
    with pytest.raises(InvalidRequestError) as refused:
        await lab.backend.memory.put_memories(
            items=[
                MemoryItem(key="b", value="v"),
                MemoryItem(key="x", value="v", metadata={"a": [1, float("nan")]}),
            ],
            namespace=space,
        )
    assert "items[1]" in refused.value.field
    assert await listed(lab.reader, space) == ["known"]
    assert (await note(lab.reader, space, "known")).value == "old"


@proves("MEM-8", needs=MEMORY, look_at="the check for a key that a batch holds twice")
async def test_two_equal_keys_in_a_batch_are_refused_by_their_indexes(lab: Lab) -> None:
    space = lab.new_id("notes")
    items = [MemoryItem(key=key, value=str(n)) for n, key in enumerate("abcb")]
    with pytest.raises(InvalidRequestError) as refused:
        await lab.backend.memory.put_memories(items=items, namespace=space)
    text = str(refused.value)
    assert "[1]" in text
    assert "[3]" in text
    assert await listed(lab.reader, space) == []
    items[3] = MemoryItem(key="B", value="another key")
    await lab.backend.memory.put_memories(items=items, namespace=space)
    assert await listed(lab.reader, space) == ["a", "b", "c", "B"]


@proves("MEM-8", "ALL-6", needs=MEMORY, look_at="whether a reader can look into a batch half-way")
async def test_a_batch_of_notes_is_seen_whole_or_not_at_all(lab: Lab) -> None:
    space = lab.new_id("notes")
    rounds, width = 25, 8
    seen: list[list[str]] = []

    async def write_rounds(by: str) -> None:
        for turn in range(rounds):
            items = [MemoryItem(key=f"k{n}", value=f"{by} {turn}") for n in range(width)]
            await lab.backend.memory.put_memories(items=items, namespace=space)
            await asyncio.sleep(0)  # lets readers in where a put itself never waits

    async def read_rounds() -> None:
        for _ in range(2 * rounds):
            answer = await lab.reader.memory.list_memories(namespace=space)
            seen.append([scored.item.value for scored in answer.items])
            await asyncio.sleep(0)

    await asyncio.gather(write_rounds("one"), write_rounds("two"), read_rounds())
    answer = await lab.reader.memory.list_memories(namespace=space)
    seen.append([scored.item.value for scored in answer.items])
    for values in seen:
        assert len(values) in (0, width)
        assert len(set(values)) <= 1, "one listing shows parts of two batches"
    versions = {scored.item.version for scored in answer.items}
    assert len(versions) == 1, "a batch that was overtaken left some of its notes behind"


@proves("MEM-9", needs=MEMORY, look_at="expected_version 0, which means that the key must be free")
async def test_expected_version_0_writes_only_where_there_is_no_note(lab: Lab) -> None:
    space = lab.new_id("notes")
    first = await _put_if(lab, space, "first", 0)
    assert (first.created, first.conflict) == (True, False)
    second = await _put_if(lab, space, "second", 0)
    assert (second.created, second.conflict) == (False, True)
    assert second.version == first.version
    assert (await note(lab.reader, space, "k")).value == "first"
    await lab.backend.memory.delete_memory(key="k", namespace=space)
    assert (await _put_if(lab, space, "third", 0)).created


@proves("MEM-9", needs=MEMORY, look_at="the comparison of expected_version with the version found")
async def test_a_note_of_another_version_is_left_alone(lab: Lab) -> None:
    space = lab.new_id("notes")
    old = (await write(lab.backend, space, "k", "old")).version
    right = await _put_if(lab, space, "new", old)
    assert (right.conflict, right.version) == (False, old + 1)
    before = await note(lab.reader, space, "k")
    for wrong in (old, old + 2, old + 1_000, 0):
        put = await _put_if(lab, space, "wrong", wrong)
        assert (put.conflict, put.created, put.version) == (True, False, old + 1)
    assert_same(await note(lab.reader, space, "k"), before, "the note after conflicts")


@proves("MEM-9", "MEM-6", needs=MEMORY, look_at="expected_version where no note stands")
async def test_an_expected_version_of_a_missing_note_is_a_conflict_at_0(lab: Lab) -> None:
    space = lab.new_id("notes")
    put = await _put_if(lab, space, "v", 3)
    assert (put.conflict, put.created, put.version) == (True, False, 0)
    assert await is_missing(lab.reader, space, "k")
    version = (await write(lab.backend, space, "k", "v")).version
    await lab.backend.memory.delete_memory(key="k", namespace=space)
    put = await _put_if(lab, space, "v", version)
    assert (put.conflict, put.version) == (True, 0), "a deleted note's version still counts"
    assert await is_missing(lab.reader, space, "k")


@proves("MEM-14", needs=MEMORY, look_at="the version that a delete expects")
async def test_a_delete_leaves_a_note_of_another_version_alone(lab: Lab) -> None:
    space = lab.new_id("notes")
    version = (await write(lab.backend, space, "k", "new")).version
    before = await note(lab.reader, space, "k")
    for wrong in (0, version + 1, version + 1_000):
        answer = await _delete_if(lab, space, wrong)
        assert (answer.deleted, answer.conflict) == (False, True)
    assert_same(await note(lab.reader, space, "k"), before, "the note after conflicts")
    answer = await _delete_if(lab, space, version)
    assert (answer.deleted, answer.conflict) == (True, False)
    assert await is_missing(lab.reader, space, "k")
    answer = await _delete_if(lab, space, version)
    assert (answer.deleted, answer.conflict) == (False, False), "an unknown key is no conflict"


@proves("MEM-14", needs=MEMORY, look_at="whether check and removal of a delete are one step")
async def test_a_put_that_races_a_delete_of_the_version_before_it_stays(lab: Lab) -> None:
    space = lab.new_id("notes")
    for turn in range(20):
        version = (await write(lab.backend, space, "k", f"{turn} old")).version
        deleted, put = await asyncio.gather(
            _delete_if(lab, space, version), write(lab.reader, space, "k", f"{turn} new")
        )
        assert deleted.conflict != deleted.deleted
        assert put.version > version
        assert (await note(lab.reader, space, "k")).value == f"{turn} new"


@proves("MEM-9", needs=MEMORY, look_at="whether check and write of a put are one step")
async def test_of_racing_puts_with_one_expected_version_one_wins(lab: Lab) -> None:
    space = lab.new_id("notes")
    version = 0
    for turn in range(5):
        clients = (lab.backend, lab.reader)
        puts = await asyncio.gather(
            *(
                clients[n % 2].memory.put_memory(
                    item=MemoryItem(key="k", value=f"{turn} {n}"),
                    namespace=space,
                    expected_version=version,
                )
                for n in range(12)
            )
        )
        winners = [n for n, put in enumerate(puts) if not put.conflict]
        assert len(winners) == 1
        version = puts[winners[0]].version
        assert {put.version for put in puts} == {version}
        assert (await note(lab.reader, space, "k")).value == f"{turn} {winners[0]}"


async def _delete_if(lab: Lab, space: str, expected: int) -> DeleteMemoryResponse:
    return await lab.backend.memory.delete_memory(
        key="k", namespace=space, expected_version=expected
    )


async def _put_if(lab: Lab, space: str, value: str, expected: int) -> PutMemoryResponse:
    return await lab.backend.memory.put_memory(
        item=MemoryItem(key="k", value=value), namespace=space, expected_version=expected
    )
