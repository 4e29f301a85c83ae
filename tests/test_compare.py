"""What the suite calls the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance_tests import samples
from conformance_tests.compare import EXCERPT, assert_same
from stores_core import Message, RunInfo

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
EVERYTHING = [
    *samples.texts, *samples.numbers, *samples.json_values,
    *samples.messages, *samples.events, *samples.tool_results, *samples.metadata,
]  # fmt: skip


@pytest.mark.parametrize("sample", EVERYTHING, ids=samples.name_of)
def test_a_value_is_the_same_as_itself_and_as_no_other(sample: samples.Sample) -> None:
    assert_same(sample.value, sample.value, "it")
    with pytest.raises(AssertionError):
        assert_same([sample.value, 1], [sample.value, 2], "it")


@pytest.mark.parametrize(
    ("actual", "expected", "at"),
    [
        (1, 1.0, "a int where a float was expected"),
        (1, True, "a int where a bool was expected"),
        (0.0, -0.0, "character 0 of its JSON text"),
        (b"a", "a", "a bytes where a str was expected"),
        ([], {}, "a tuple where a dict was expected"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "at a[1].b,"),
        ({"a": 1}, {"a": 1, "b": None}, "at b: nothing where"),
        ({"a": 1, "b": None}, {"a": 1}, "at b: a value where none"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the keys are in another order"),
        ([1], [1, 2], "at [1]: nothing where"),
        ("caf\u00e9", "cafe\u0301", "character 4"),
        (Message(role="user"), Message(role="user", text=""), "at text: nothing where"),
        (Message(role="user"), {"role": "user"}, "a Message where a dict was expected"),
        (
            RunInfo(id="a", created_at=MOMENT, updated_at=MOMENT),
            RunInfo(id="a", created_at=MOMENT, updated_at=MOMENT + timedelta(microseconds=1)),
            "at updated_at,",
        ),
    ],
)
def test_the_place_where_two_values_part_is_named(actual: Any, expected: Any, at: str) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_same(actual, expected, "what was kept")
    assert str(failure.value).startswith("what was kept did not come back equal")
    assert at in str(failure.value)


def test_a_list_and_a_tuple_of_the_same_things_are_the_same() -> None:
    assert_same((Message(role="user"), [1]), [Message(role="user"), (1,)], "it")


def test_only_short_excerpts_of_a_long_text_are_shown() -> None:
    with pytest.raises(AssertionError) as failure:
        assert_same("x" * 5_000 + "y" + "z" * 5_000, "x" * 5_000 + "Y" + "z" * 5_000, "it")
    assert "character 5001 of its JSON text" in str(failure.value)
    assert len(str(failure.value)) < 2 * EXCERPT + 200
