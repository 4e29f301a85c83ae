"""Embedders that fail, answer nonsense, change, or were not there when a note was put."""

import asyncio
import time
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, name_of
from conformance_tests.suite.notes import (
    beside,
    fill_many,
    is_missing,
    listed,
    note,
    reembed_all,
    write,
)
from conformance_tests.suite.spelled import Answering, Failing, Spelled, Waiting, recalled, spell
from stores_core import (
    EmbeddingMismatchError,
    InvalidRequestError,
    MemoryItem,
    StoreUnavailableError,
)

EMBEDDINGS = ("memory", "embeddings", "tenant")
EAST, NORTH, WEST = spell(1, 0), spell(0, 1), spell(-1, 0)


@proves("EMB-1", "ALL-8", needs=EMBEDDINGS, look_at="writing a note before its vector is there")
async def test_when_the_embedder_fails_nothing_is_written(lab: Lab) -> None:
    embedder, space = Failing(), lab.new_id("notes")
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
    await write(client, space, "known", EAST, {"a": 1})
    before = await note(client, space, "known")
    embedder.broken = True
    items = [MemoryItem(key="new", value=NORTH), MemoryItem(key="known", value=NORTH)]
    for put in (
        lambda: client.memory.put_memory(item=items[0], namespace=space),
        lambda: client.memory.put_memory(item=items[1], namespace=space),
        lambda: client.memory.put_memories(items=items, namespace=space),
    ):
        with pytest.raises(StoreUnavailableError) as failed:
            await put()
        assert isinstance(failed.value.__cause__, ConnectionError)
        assert "sk-secret" not in str(failed.value)
    assert await is_missing(client, space, "new")
    assert_same(await note(client, space, "known"), before, "the note that was to be replaced")
    embedder.broken = False
    assert await recalled(client, space, EAST) == [("known", 1.0)]


@proves("EMB-1", needs=EMBEDDINGS, look_at="what a recall does when the embedder fails")
async def test_when_the_embedder_fails_only_recall_by_query_does(lab: Lab) -> None:
    embedder, space = Failing(), lab.new_id("notes")
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
    await write(client, space, "k", EAST, {"a": 1})
    embedder.broken = True
    with pytest.raises(StoreUnavailableError) as failed:
        await recalled(client, space, EAST)
    assert isinstance(failed.value.__cause__, ConnectionError)
    assert await listed(client, space, where={"a": 1}) == ["k"]
    assert (await client.memory.delete_memory(key="k", namespace=space)).deleted


@proves("ALL-8", "EMB-1", needs=EMBEDDINGS, look_at="the timeout of a call that still embeds")
async def test_an_embedder_that_never_answers_ends_with_the_timeout_and_nothing_sent(
    lab: Lab,
) -> None:
    embedder, space = Waiting(), lab.new_id("notes")
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
    begun = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        await client.memory.put_memory(
            item=MemoryItem(key="k", value="slow"), namespace=space, timeout=0.05
        )
    assert time.monotonic() - begun < 5
    embedder.go.set()
    await asyncio.sleep(0.01)
    assert await is_missing(client, space, "k")


UNFIT: list[Sample] = [
    Sample("too narrow", [1.0]),
    Sample("too wide", [1.0, 0.0, 0.0]),
    Sample("empty", []),
    Sample("NaN", [float("nan"), 0.0]),
    Sample("infinity", [0.0, float("-inf")]),
    Sample("more than float32 holds", [1e39, 0.0]),
    Sample("text", ["a", "b"]),
    Sample("nothing", None),
    Sample("nested", [[1.0], [0.0]]),
]


@pytest.mark.parametrize("sample", UNFIT, ids=name_of)
@proves("EMB-6", "MEM-8", needs=EMBEDDINGS, look_at="the checks on what the embedder answers")
async def test_an_unfit_vector_is_refused_by_its_index(lab: Lab, sample: Sample) -> None:
    embedder, space = Answering(), lab.new_id("notes")
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
    embedder.answer = [[1.0, 0.0], sample.value, [0.0, 1.0]]
    items = [MemoryItem(key=f"k{n}", value="v") for n in range(3)]
    with pytest.raises(InvalidRequestError) as refused:
        await client.memory.put_memories(items=items, namespace=space)
    assert "[1]" in str(refused.value)
    assert await listed(client, space) == []
    embedder.answer = None
    await write(client, space, "k", EAST)
    embedder.answer = [sample.value]
    with pytest.raises(InvalidRequestError) as refused:
        await recalled(client, space, EAST)
    assert "[0]" in str(refused.value)
    with pytest.raises(InvalidRequestError):
        await write(client, space, "k", WEST)
    embedder.answer = None
    assert await recalled(client, space, EAST) == [("k", 1.0)]


@proves("EMB-6", needs=EMBEDDINGS, look_at="the number of vectors that the embedder answers")
async def test_a_wrong_number_of_vectors_is_refused(lab: Lab) -> None:
    embedder, space = Answering(), lab.new_id("notes")
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
    items = [MemoryItem(key=f"k{n}", value="v") for n in range(2)]
    answers: list[Any] = [[], [[1.0, 0.0]], [[1.0, 0.0]] * 3]
    for embedder.answer in answers:
        with pytest.raises(InvalidRequestError):
            await client.memory.put_memories(items=items, namespace=space)
    assert await listed(client, space) == []


@pytest.mark.parametrize(
    "other",
    [Spelled(2, "another"), Spelled(3, "spelled"), Spelled(3, "another")],
    ids=["another name", "other dimensions", "both"],
)
@proves("EMB-5", needs=EMBEDDINGS, look_at="where the storage records which embedder it is for")
async def test_another_embedder_is_refused_on_recall_and_puts_while_all_else_works(
    lab: Lab, other: Spelled
) -> None:
    tenant, space = lab.new_id("tenant"), lab.new_id("notes")
    other.calls.clear()
    first = await lab.open(tenant=tenant, embedder=Spelled(2, "spelled"))
    await write(first, space, "a", EAST, {"x": 1})
    await write(first, space, "b", NORTH)
    before = await note(first, space, "a")
    second = await beside(lab, tenant, (space, "a"), other)
    note_again = MemoryItem(key="a", value=NORTH)
    for call in (
        lambda: second.memory.put_memory(item=note_again, namespace=space),
        lambda: second.memory.put_memory(item=note_again, namespace=lab.new_id("notes")),
        lambda: second.memory.put_memories(items=[note_again], namespace=space),
        lambda: second.memory.list_memories(namespace=space, query=EAST),
    ):
        with pytest.raises(EmbeddingMismatchError) as refused:
            await call()
        text = str(refused.value)
        assert "spelled" in text
        assert other.name in text
        assert "reembed" in text
    assert not other.calls, "an embedding was made, and paid for, in vain"
    assert_same(await note(second, space, "a"), before, "the note after refused puts")
    assert await listed(second, space) == ["a", "b"]
    assert await listed(second, space, where={"x": 1}) == ["a"]
    assert (await second.memory.delete_memory(key="b", namespace=space)).deleted
    assert await recalled(first, space, EAST) == [("a", 1.0)]
    assert (await second.memory.clear_namespace(namespace=space)).deleted == 1


@proves("EMB-5", needs=EMBEDDINGS, look_at="notes that were put without an embedder")
async def test_notes_without_a_vector_are_embedded_by_the_next_query(lab: Lab) -> None:
    tenant, space, other = lab.new_id("tenant"), lab.new_id("notes"), lab.new_id("notes")
    plain = await lab.open(tenant=tenant)
    await write(plain, space, "north", NORTH)
    await write(plain, space, "east", EAST)
    await write(plain, other, "west", WEST)
    embedder = Spelled()
    client = await beside(lab, tenant, (space, "north"), embedder)
    assert await recalled(client, space, EAST) == [("east", 1.0), ("north", 0.0)]
    texts = [text for batch, purpose in embedder.calls if purpose == "note" for text in batch]
    assert sorted(texts) == [f"east {EAST}", f"north {NORTH}"], "only this namespace is embedded"
    calls = len(embedder.calls)
    assert await recalled(client, space, NORTH, limit=1) == [("north", 1.0)]
    assert len(embedder.calls) == calls + 1, "the vectors of the first query were not kept"
    kept = await note(client, space, "east")
    assert kept.version == (await note(plain, space, "east")).version


@proves("EMB-5", needs=EMBEDDINGS, look_at="what a query that embeds notes leaves on record")
async def test_the_embedder_of_a_query_that_embedded_notes_is_on_record(lab: Lab) -> None:
    tenant, space = lab.new_id("tenant"), lab.new_id("notes")
    plain = await lab.open(tenant=tenant)
    await write(plain, space, "k", EAST)
    first = await beside(lab, tenant, (space, "k"), Spelled(2, "first"))
    assert await recalled(first, space, EAST) == [("k", 1.0)]
    second = await beside(lab, tenant, (space, "k"), Spelled(2, "second"))
    with pytest.raises(EmbeddingMismatchError):
        await recalled(second, space, EAST)
    with pytest.raises(EmbeddingMismatchError):
        await write(second, space, "k", WEST)
    assert await recalled(first, space, EAST) == [("k", 1.0)]


@proves("EMB-5", needs=EMBEDDINGS, look_at="a vector that outlives a put without an embedder")
async def test_a_vector_belongs_to_one_version_of_a_note(lab: Lab) -> None:
    tenant, space = lab.new_id("tenant"), lab.new_id("notes")
    client = await lab.open(tenant=tenant, embedder=Spelled())
    await write(client, space, "k", EAST)
    plain = await beside(lab, tenant, (space, "k"))
    await write(client, space, "still", spell(1, 1))
    await write(plain, space, "k", WEST)
    found = await recalled(client, space, EAST)
    assert [key for key, _ in found] == ["still", "k"]
    assert found[1][1] == -1.0


@proves("EMB-5", needs=EMBEDDINGS, look_at="how many notes a query embeds by itself")
async def test_a_query_embeds_up_to_1000_notes_and_beyond_names_the_command(lab: Lab) -> None:
    tenant, space = lab.new_id("tenant"), lab.new_id("notes")
    plain = await lab.open(tenant=tenant)
    items = [MemoryItem(key=f"k{n:04}", value=spell(1, n)) for n in range(1_001)]
    await fill_many(plain, space, items)
    client = await beside(lab, tenant, (space, "k0000"), Spelled())
    with pytest.raises(EmbeddingMismatchError) as refused:
        await recalled(client, space, EAST)
    assert "reembed" in str(refused.value)
    assert len(await listed(client, space, limit=5)) == 5
    await client.memory.delete_memory(key="k1000", namespace=space)
    found = await recalled(client, space, EAST, limit=2)
    assert [key for key, _ in found] == ["k0000", "k0001"]


@proves(
    "EMB-5", needs=(*EMBEDDINGS, "admin"), look_at="reembed: notes that it misses, or the switch"
)
async def test_reembedding_hands_all_notes_over_to_the_new_embedder(lab: Lab) -> None:
    tenant, space = lab.new_id("tenant"), lab.new_id("notes")
    old = await lab.open(tenant=tenant, embedder=Spelled(2, "old"))
    count = 25
    items = [MemoryItem(key=f"k{n:02}", value=spell(1, n, 5)) for n in range(count)]
    await fill_many(old, space, items)
    before = await note(old, space, "k03")
    new = await beside(lab, tenant, (space, "k03"), Spelled(3, "new"))
    embedded, done = 0, False
    for step in range(100):
        answer = await new.admin.reembed(limit=10)
        assert answer.embedded <= 10
        embedded, done = embedded + answer.embedded, answer.done
        if done:
            break
        assert len(await recalled(old, space, EAST)) == len(await listed(old, space))
        await write(old, space, f"late{step}", spell(-1, 0, 0))  # old clients go on writing
        await write(old, space, "k00", spell(0, 0, 1))
        if step == 2:
            break
    while not done:
        answer = await new.admin.reembed(limit=10)
        embedded, done = embedded + answer.embedded, answer.done
    assert embedded >= count
    found = await recalled(new, space, spell(0, 0, 1))
    assert sorted(key for key, _ in found) == sorted(await listed(new, space))
    assert found[0] == ("k00", 1.0), "a note put meanwhile kept the vector of its old value"
    assert_same(await note(new, space, "k03"), before, "a note after reembedding")
    await write(new, space, "after", spell(0, 0, 2))
    with pytest.raises(EmbeddingMismatchError):
        await recalled(old, space, EAST)
    with pytest.raises(EmbeddingMismatchError):
        await write(old, space, "k01", EAST)


@proves(
    "EMB-5",
    needs=(*EMBEDDINGS, "admin"),
    look_at="whether a put still has the embedder of the storage once its own has answered",
)
async def test_a_put_that_embeds_while_another_embedder_takes_over_is_refused(lab: Lab) -> None:
    tenant, space, embedder = lab.new_id("tenant"), lab.new_id("notes"), Waiting(2, "old")
    old = await lab.open(tenant=tenant, embedder=embedder)
    await write(old, space, "k", EAST)
    new = await beside(lab, tenant, (space, "k"), Spelled(2, "new"))
    late = [MemoryItem(key=f"late {n}", value=f"slow {NORTH}") for n in range(2)]
    puts = [
        asyncio.create_task(old.memory.put_memory(item=late[0], namespace=space)),
        asyncio.create_task(old.memory.put_memories(items=late, namespace=space)),
    ]
    await embedder.asked.wait()
    await reembed_all(new)
    embedder.go.set()
    for put in puts:
        with pytest.raises(EmbeddingMismatchError):
            await put
    assert await listed(new, space) == ["k"]
    assert await recalled(new, space, EAST) == [("k", 1.0)]
