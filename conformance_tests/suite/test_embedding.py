"""Recall by embedding: what is embedded, scores, order, exactly k, and vectors that keep up."""

import asyncio
import math
import random
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import fill_many, listed, note, write
from conformance_tests.suite.spelled import Spelled, Waiting, recalled, spell
from stores_core import Backend, MemoryItem, WordEmbedder
from stores_core.embedding import Embedder

EMBEDDINGS = ("memory", "embeddings", "tenant")
TOLERANCE = 1e-6
EAST, NORTH, WEST = spell(1, 0), spell(0, 1), spell(-1, 0)


async def opened(lab: Lab, embedder: Embedder) -> Backend:
    """A client of a tenant of its own: one tenant's vectors are of one embedder."""
    return await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)


def exact(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine over float32 values, in plain Python: it shares no code with any store."""
    a, b = (struct.unpack(f"{len(v)}f", struct.pack(f"{len(v)}f", *v)) for v in (one, other))
    length = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0


def assert_ranked(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    assert [key for key, _ in found] == [key for key, _ in expected]
    for (key, score), (_, wanted) in zip(found, expected, strict=True):
        assert abs(score - wanted) <= TOLERANCE, f"{key} scores {score}, not {wanted}"


@proves("EMB-1", needs=EMBEDDINGS, look_at="what of a note is embedded, and how often")
async def test_each_batch_is_embedded_by_one_call_as_key_space_value(lab: Lab) -> None:
    embedder, space = Spelled(), lab.new_id("notes")
    client = await opened(lab, embedder)
    await write(client, space, "k 1", "value\none", {"not": "embedded"})
    assert embedder.calls == [(["k 1 value\none"], "note")]
    items = [MemoryItem(key=f"k{n}", value=f"v{n}") for n in range(5)]
    await client.memory.put_memories(items=items, namespace=space)
    assert embedder.calls[1:] == [([f"k{n} v{n}" for n in range(5)], "note")]
    await recalled(client, space, "What now?")
    assert embedder.calls[2:] == [(["What now?"], "query")]
    await listed(client, space)
    await client.memory.get_memory(key="k1", namespace=space)
    await client.memory.delete_memory(key="k1", namespace=space)
    assert len(embedder.calls) == 3, "reading and deleting need no vectors"


@proves("EMB-1", "ALL-6", needs=EMBEDDINGS, look_at="vectors that arrive after the put returned")
async def test_a_note_can_be_recalled_as_soon_as_put_returns(lab: Lab) -> None:
    space, tenant = lab.new_id("notes"), lab.new_id("tenant")
    writer = await lab.open(tenant=tenant, embedder=Spelled())
    for n in range(10):
        await write(writer, space, f"k{n}", spell(1, n))
        assert len(await recalled(writer, space, EAST)) == n + 1
        assert (await recalled(writer, space, spell(1, n), limit=1))[0][0] == f"k{n}"


@proves("EMB-1", "ALL-6", needs=(*EMBEDDINGS, "shared"), look_at="vectors that one client keeps")
async def test_another_client_recalls_what_was_just_put(lab: Lab) -> None:
    space, tenant = lab.new_id("notes"), lab.new_id("tenant")
    writer = await lab.open(tenant=tenant, embedder=Spelled())
    reader = await lab.open(tenant=tenant, embedder=Spelled())
    for key, text in (("east", EAST), ("north", NORTH), ("west", WEST)):
        await write(writer, space, key, text)
        assert (await recalled(reader, space, text, limit=1))[0][0] == key
    await writer.memory.delete_memory(key="west", namespace=space)
    assert_ranked(await recalled(reader, space, EAST), [("east", 1), ("north", 0)])


@proves("EMB-1", "ALL-7", needs=EMBEDDINGS, look_at="a lock or transaction held while embedding")
async def test_an_embedder_that_takes_its_time_holds_nobody_up(lab: Lab) -> None:
    embedder, space = Waiting(), lab.new_id("notes")
    client = await opened(lab, embedder)
    slow = asyncio.create_task(write(client, space, "slow", EAST))
    await embedder.asked.wait()

    async def meanwhile() -> None:
        await write(client, space, "quick", NORTH)
        assert await listed(client, space) == ["quick"]
        assert await recalled(client, space, NORTH, limit=1) != []

    others = asyncio.create_task(meanwhile())
    done, _ = await asyncio.wait([others], timeout=5)
    assert done, "others wait until the embedder has answered"
    await others
    assert not slow.done()
    embedder.go.set()
    await slow
    assert {key for key, _ in await recalled(client, space, EAST)} == {"slow", "quick"}


@proves("EMB-5", "EMB-1", needs=EMBEDDINGS, look_at="the vector of a put that another one overtook")
async def test_racing_puts_leave_a_note_with_the_vector_of_its_own_value(lab: Lab) -> None:
    embedder, space = Waiting(), lab.new_id("notes")
    client = await opened(lab, embedder)
    slow = asyncio.create_task(write(client, space, "k", f"slow {EAST}"))
    await embedder.asked.wait()
    await write(client, space, "k", f"quick {NORTH}")
    embedder.go.set()
    await slow
    value = (await note(client, space, "k")).value
    vector = [1.0, 0.0] if value.startswith("slow") else [0.0, 1.0]
    assert_ranked(await recalled(client, space, EAST), [("k", exact(vector, [1, 0]))])


@proves("EMB-2", "MEM-7", needs=EMBEDDINGS, look_at="a distance or a bare product as the score")
async def test_the_score_is_the_cosine_and_the_best_comes_first(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    for key, text in (("north", NORTH), ("west", WEST), ("east", EAST)):
        await write(client, space, key, text)
    await write(client, space, "long", spell(300, 400))
    await write(client, space, "short", spell(0.004, 0.003))
    expected = [("east", 1.0), ("short", 0.8), ("long", 0.6), ("north", 0.0), ("west", -1.0)]
    assert_ranked(await recalled(client, space, EAST), expected)
    assert_ranked(await recalled(client, space, spell(50, 0)), expected)
    assert_ranked(await recalled(client, space, spell(0.001, 0), limit=2), expected[:2])


@proves("EMB-2", needs=EMBEDDINGS, look_at="the division by the length of a zero vector")
async def test_a_zero_vector_scores_0_and_never_nan(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    for key, text in (("zero", spell(0, 0)), ("west", WEST), ("east", EAST), ("bare", "no bar")):
        await write(client, space, key, text)
    expected = [("east", 1.0), ("zero", 0.0), ("bare", 0.0), ("west", -1.0)]
    assert_ranked(await recalled(client, space, EAST), expected)
    assert_ranked(await recalled(client, space, EAST, limit=2), expected[:2])
    nothing = [("zero", 0.0), ("west", 0.0), ("east", 0.0), ("bare", 0.0)]
    assert_ranked(await recalled(client, space, spell(0, 0)), nothing)


@proves("EMB-2", needs=EMBEDDINGS, look_at="squares that overflow or vanish in float32")
async def test_huge_and_tiny_vectors_have_true_cosines(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    await write(client, space, "huge", spell(3e37, 4e37))
    await write(client, space, "tiny", spell(4e-37, 3e-37))
    for query in (spell(1, 0), spell(2e38, 0), spell(1e-37, 0)):
        assert_ranked(await recalled(client, space, query), [("tiny", 0.8), ("huge", 0.6)])


@proves("EMB-2", "EMB-3", needs=EMBEDDINGS, look_at="the precision in which scores are computed")
async def test_scores_and_order_of_many_notes_are_those_of_the_definition(lab: Lab) -> None:
    chance = random.Random(7)
    client, space = await opened(lab, Spelled(dimensions=6)), lab.new_id("notes")
    vectors = {f"k{n:03}": [chance.gauss(0, 3) for _ in range(6)] for n in range(200)}
    await fill_many(
        client, space, [MemoryItem(key=key, value=spell(*v)) for key, v in vectors.items()]
    )
    for _ in range(5):
        query = [chance.gauss(0, 1) for _ in range(6)]
        scores = {key: exact(vector, query) for key, vector in vectors.items()}
        found = await recalled(client, space, spell(*query))
        assert len(found) == len(vectors) == len(dict(found))
        for key, score in found:
            assert -1 - TOLERANCE <= score <= 1 + TOLERANCE
            assert abs(score - scores[key]) <= TOLERANCE
        assert [score for _, score in found] == sorted(scores_of(found), reverse=True)
        assert await recalled(client, space, spell(*query), limit=10) == found[:10]


def scores_of(found: list[tuple[str, float]]) -> list[float]:
    return [score for _, score in found]


@proves("MEM-7", "EMB-3", needs=EMBEDDINGS, look_at="the order of notes with equal scores")
async def test_ties_come_in_listing_order_by_every_limit(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    order = [f"k{n * 17 % 40:02}" for n in range(40)]
    await fill_many(client, space, [MemoryItem(key=key, value=NORTH) for key in order])
    await write(client, space, order[5], NORTH)
    await write(client, space, "best", spell(3, 4))
    assert await listed(client, space, query=spell(1, 1)) == ["best", *order]
    for limit in (1, 2, 7, 40, 41):
        for _ in range(2):
            assert (
                await listed(client, space, query=spell(1, 1), limit=limit)
                == (["best", *order][:limit])
            )


@proves("EMB-3", "MEM-5", needs=EMBEDDINGS, look_at="the namespace filter, applied after the top k")
async def test_a_small_namespace_gives_k_notes_beside_a_large_and_nearer_one(lab: Lab) -> None:
    client = await opened(lab, Spelled())
    space, other = lab.new_id("notes"), lab.new_id("notes")
    near = 300 if lab.quick else 2_000
    await fill_many(
        client, other, [MemoryItem(key=f"near{n}", value=spell(1, n * 1e-5)) for n in range(near)]
    )
    far = [MemoryItem(key=f"far{n:02}", value=spell(-1, 1 + n)) for n in range(30)]
    await fill_many(client, space, far)
    best = [item.key for item in reversed(far)]
    for limit in (1, 20, 30, 31, 1_000):
        assert await listed(client, space, query=EAST, limit=limit) == best[:limit]
    assert await listed(client, space, query=EAST) == best


@proves("EMB-3", "MEM-10", needs=EMBEDDINGS, look_at="the where filter, applied after the top k")
async def test_where_leaves_k_notes_however_many_are_nearer(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    items = [MemoryItem(key=f"near{n}", value=spell(1, n * 1e-4)) for n in range(400)]
    wanted = [
        MemoryItem(key=f"far{n}", value=spell(-1, 1 + n), metadata={"who": "ours", "n": n})
        for n in range(5)
    ]
    await fill_many(client, space, [*items[:200], *wanted, *items[200:]])
    best = [item.key for item in reversed(wanted)]
    for limit in (1, 3, 5, 6, 0):
        found = await listed(client, space, query=EAST, limit=limit, where={"who": "ours"})
        assert found == best[: limit or 5]
    assert await listed(client, space, query=EAST, limit=3, where={"n": 2.0}) == ["far2"]
    assert await listed(client, space, query=EAST, limit=3, where={"who": "theirs"}) == []


@proves("EMB-3", "MEM-10", needs=EMBEDDINGS, look_at="which row of the vectors is which note's")
async def test_where_that_fits_all_notes_gives_the_best_whatever_their_age(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    newest = datetime(2024, 1, 1, tzinfo=UTC)
    items = [
        MemoryItem(
            key=f"k{n}",
            value=spell(1, n),
            metadata={"who": "ours"},
            created_at=newest - timedelta(days=n),
        )
        for n in range(40)
    ]
    await fill_many(client, space, items)
    best = [item.key for item in items]
    for limit in (1, 3, 39, 40, 0):
        found = await listed(client, space, query=EAST, limit=limit, where={"who": "ours"})
        assert found == best[: limit or 40]


@proves("EMB-4", needs=EMBEDDINGS, look_at="the settings of the index, and when it is passed over")
async def test_the_ten_best_are_nearly_all_found_also_in_one_percent_of_the_notes(
    lab: Lab,
) -> None:
    chance = random.Random(11)
    large, wide = (500, 16) if lab.quick else (2_000, 24)
    client = await opened(lab, Spelled(dimensions=wide))
    for count in (large, large // 100 * 2):
        space = lab.new_id("notes")
        vectors = {f"k{n}": [chance.gauss(0, 1) for _ in range(wide)] for n in range(count)}
        await fill_many(
            client, space, [MemoryItem(key=key, value=spell(*v)) for key, v in vectors.items()]
        )
        queries, hits = 10, 0
        for _ in range(queries):
            query = [chance.gauss(0, 1) for _ in range(wide)]
            best = sorted(vectors, key=lambda key: -exact(vectors[key], query))[:10]
            found = await listed(client, space, query=spell(*query), limit=10)
            assert len(found) == len(set(found)) == min(10, count)
            hits += len(set(best) & set(found))
        assert hits >= 0.98 * queries * min(10, count)


@proves("EMB-5", "MEM-1", needs=EMBEDDINGS, look_at="the old vector of a note that was put again")
async def test_a_note_is_recalled_by_the_value_that_it_has_now(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    await write(client, space, "moving", EAST)
    await write(client, space, "still", spell(1, 1))
    assert await listed(client, space, query=EAST) == ["moving", "still"]
    await write(client, space, "moving", WEST)
    expected = [("still", math.sqrt(0.5)), ("moving", -1.0)]
    assert_ranked(await recalled(client, space, EAST), expected)
    await client.memory.put_memories(
        items=[MemoryItem(key="moving", value=EAST, metadata={"a": 1})], namespace=space
    )
    assert (await recalled(client, space, EAST, limit=1))[0][0] == "moving"


@proves("MEM-6", "MEM-12", needs=EMBEDDINGS, look_at="vectors that outlive their notes")
async def test_deleted_notes_are_gone_from_recall_at_once(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    for key in ("a", "b", "c"):
        await write(client, space, key, EAST)
    await client.memory.delete_memory(key="b", namespace=space)
    assert await listed(client, space, query=EAST) == ["a", "c"]
    assert await listed(client, space, query=EAST, limit=3) == ["a", "c"]
    await write(client, space, "b", WEST)
    assert_ranked(await recalled(client, space, EAST), [("a", 1), ("c", 1), ("b", -1)])
    await client.memory.clear_namespace(namespace=space)
    assert await recalled(client, space, EAST, limit=3) == []


@proves("MEM-9", "EMB-5", needs=EMBEDDINGS, look_at="the vector of a put that was a conflict")
async def test_a_put_that_conflicts_changes_no_vector(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    await write(client, space, "k", EAST)
    put = await client.memory.put_memory(
        item=MemoryItem(key="k", value=WEST), namespace=space, expected_version=0
    )
    assert put.conflict
    assert_ranked(await recalled(client, space, EAST), [("k", 1.0)])


@proves("MEM-3", "MEM-7", needs=EMBEDDINGS, look_at="a listing that asks the embedder")
async def test_without_a_query_recall_by_embedding_lists_as_any_other(lab: Lab) -> None:
    client, space = await opened(lab, Spelled()), lab.new_id("notes")
    for key, text in (("c", WEST), ("a", EAST), ("b", "")):
        await write(client, space, key, text)
    answer = await client.memory.list_memories(namespace=space)
    found = [(scored.item.key, scored.score) for scored in answer.items]
    assert found == [("c", 0), ("a", 0), ("b", 0)]


@pytest.mark.parametrize("query", ["red apple", "a red apple pie"])
@proves("MEM-7", "EMB-1", needs=EMBEDDINGS, look_at="what put_memory hands to the embedder")
async def test_notes_that_share_words_with_the_query_come_first(lab: Lab, query: str) -> None:
    client, space = await opened(lab, WordEmbedder()), lab.new_id("notes")
    for key, value in (("n1", "blue sky"), ("n2", "a red apple"), ("n3", "green grass")):
        await write(client, space, key, value)
    assert (await listed(client, space, query=query, limit=1)) == ["n2"]
