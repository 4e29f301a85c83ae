"""Cosine similarity, and the checks on what an embedder answers."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores_core.embedding import NoteEmbedder, Purpose, Vector, cosine, cosines
from stores_core.errors import InvalidRequestError, StoreClosedError, StoreUnavailableError
from stores_core.memory import MemoryItem, StoredMemory
from stores_core.sending import Sending, current

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
pairs = st.integers(1, 20).flatmap(
    lambda width: st.tuples(
        st.lists(numbers, min_size=width, max_size=width),
        st.lists(numbers, min_size=width, max_size=width),
    )
)
RANDOM = np.random.default_rng(3)


def random_rows(count: int, width: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    return RANDOM.standard_normal((count, width)).astype(np.float32)


@given(pairs)
def test_a_cosine_is_a_number_from_minus_one_to_one(pair: tuple[list[float], list[float]]) -> None:
    score = cosine(*pair)
    assert not isnan(score)
    assert -1 <= score <= 1
    assert score == cosine(*reversed(pair))


@given(st.lists(numbers, min_size=1, max_size=20))
def test_a_vector_is_like_itself_and_unlike_its_opposite(vector: list[float]) -> None:
    expected = 1.0 if any(vector) else 0.0
    assert cosine(vector, vector) == pytest.approx(expected, abs=1e-6)
    assert cosine(vector, [-value for value in vector]) == pytest.approx(-expected, abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 0], [0, 1], 0),
        ([1, 0], [1, 1], 0.5**0.5),
        ([3, 4], [4, 3], 0.96),
        ([0, 0], [1, 2], 0),
        ([0, 0], [0, 0], 0),
        ([-0.0, 0], [1, 2], 0),
        ([3e38, 3e38], [3e38, 3e38], 1),
        ([1e-45, 0], [1e-45, 1e-45], 0.5**0.5),
        ([1e-45, 3e38], [0, 1], 1),
        ([1], [1, 0], 0),
        ([], [], 0),
    ],
)
def test_cosines_of_known_vectors(a: list[float], b: list[float], expected: float) -> None:
    assert cosine(a, b) == pytest.approx(expected, abs=1e-6)


def test_a_cosine_agrees_with_the_definition_in_double_precision() -> None:
    for width in (2, 37, 1_536):
        left, right = random_rows(2, width)
        exact = left.astype(float) @ right.astype(float)
        exact /= np.linalg.norm(left.astype(float)) * np.linalg.norm(right.astype(float))
        assert cosine(left, right) == pytest.approx(exact, abs=1e-12)


def test_equal_rows_get_equal_scores_wherever_they_stand() -> None:
    for width in (1, 2, 3, 7, 8, 15, 33, 255, 257, 1_536):
        same, query = random_rows(2, width)
        expected = cosine(same, query)
        for count in (1, 2, 3, 5, 8, 33):
            rows = random_rows(count, width)
            places = list(range(0, count, 2))
            rows[places] = same
            assert {float(score) for score in cosines(rows, query)[places]} == {expected}


def test_no_rows_give_no_scores() -> None:
    assert cosines(np.zeros((0, 3), np.float32), np.ones(3, np.float32)).tolist() == []


class Scripted:
    """An embedder that answers, or raises, what it was given, and records what it was asked."""

    name, dimensions = "scripted", 2

    def __init__(self, answer: Sequence[Sequence[float]] | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[list[str], Purpose]] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        self.asked.append((list(texts), purpose))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def notes(embedder: Scripted, count: int = 1) -> list[Vector]:
    items = [MemoryItem(key=f"k{number}", value="v") for number in range(count)]
    return asyncio.run(NoteEmbedder(embedder).notes(items))


def test_notes_are_embedded_in_one_call_as_key_space_value() -> None:
    embedder = Scripted([[1, 2], [3, 4]])
    now = datetime.now(UTC)
    stored = StoredMemory(key="b", value="", created_at=now, updated_at=now, version=1)
    items = [MemoryItem(key="a", value="x y"), stored]
    vectors = asyncio.run(NoteEmbedder(embedder).notes(items))
    assert embedder.asked == [(["a x y", "b "], "note")]
    assert [vector.tolist() for vector in vectors] == [[1, 2], [3, 4]]
    assert {vector.dtype for vector in vectors} == {np.dtype(np.float32)}


def test_a_query_is_embedded_as_it_is() -> None:
    embedder = Scripted([[1, 2]])
    assert asyncio.run(NoteEmbedder(embedder).query("Where?")).tolist() == [1, 2]
    assert embedder.asked == [(["Where?"], "query")]


def test_no_notes_ask_nothing() -> None:
    embedder = Scripted([])
    assert notes(embedder, 0) == []
    assert embedder.asked == []


def test_vectors_are_copies_that_the_embedder_cannot_change() -> None:
    given = np.ones((1, 2), np.float32)
    (vector,) = notes(Scripted(given))  # pyright: ignore[reportArgumentType] - an array will do
    given[0, 0] = 9
    assert vector.tolist() == [1, 1]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_vectors_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        notes(Scripted([[1.0, 2.0]] * count), 2)
    assert caught.value.field == "embedder"
    assert f"{count} vectors" in str(caught.value)


@pytest.mark.parametrize(
    "bad", [[1], [1, 2, 3], [], [[1, 2]], [nan, 0], [0, inf], [-inf, 0], [1e39, 0]]
)
def test_a_vector_of_wrong_width_or_not_finite_is_refused_with_its_index(bad: list[float]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        notes(Scripted([[1, 2], bad]), 2)
    assert caught.value.field == "embedder[1]"


def test_an_embedder_that_fails_is_the_cause_of_a_store_being_unavailable() -> None:
    fault = RuntimeError("bait: the note's text")
    with pytest.raises(StoreUnavailableError, match="'scripted' failed") as caught:
        notes(Scripted(fault))
    assert caught.value.__cause__ is fault
    assert "bait" not in str(caught.value)


def test_an_error_of_ours_from_an_embedder_is_left_as_it_is() -> None:
    fault = StoreClosedError()
    with pytest.raises(StoreClosedError) as caught:
        notes(Scripted(fault))
    assert caught.value is fault


def test_a_call_that_is_cut_off_in_the_embedder_has_sent_nothing() -> None:
    class Slow(Scripted):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
            await asyncio.sleep(10)
            return []

    async def run() -> bool:
        sending = Sending()
        current.set(sending)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await NoteEmbedder(Slow([])).query("q")
        return sending.cut_before

    assert asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (None, "embedder"),
        (5, "embedder"),
        ([["1", "2"]], "embedder[0]"),
        ([[True, False]], "embedder[0]"),
        ([[10**400, 1]], "embedder[0]"),
        ([[1.0, None]], "embedder[0]"),
        ([[[1.0, 2.0]]], "embedder[0]"),
        ([[1e39, 0.0]], "embedder[0]"),
    ],
)
async def test_an_answer_that_is_no_vectors_is_refused_by_its_index(
    answer: Any, field: str
) -> None:
    class Wrong:
        name, dimensions = "wrong", 2

        async def embed(self, texts: Sequence[str], purpose: str) -> Any:
            return answer

    with pytest.raises(InvalidRequestError) as refused:
        await NoteEmbedder(Wrong()).query("text")
    assert refused.value.field == field
