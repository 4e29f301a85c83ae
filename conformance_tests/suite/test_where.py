"""Filters on the metadata of notes: what `where` matches, and that nothing of it is query text."""

from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, name_of
from conformance_tests.suite.notes import fill_many, listed, walk, write
from stores_core import InvalidRequestError, MemoryItem

MEMORY = ("memory",)

EQUAL: list[Sample] = [
    Sample("text", ("x", "x")),
    Sample("empty text", ("", "")),
    Sample("text with quotes", ("' OR '1'='1", "' OR '1'='1")),
    Sample("text with NUL", ("a\0b", "a\0b")),
    Sample("emoji", ("😀", "😀")),
    Sample("2 and 2.0", (2, 2.0)),
    Sample("2.0 and 2", (2.0, 2)),
    Sample("0 and -0.0", (0, -0.0)),
    Sample("-0.0 and 0.0", (-0.0, 0.0)),
    Sample("a fraction", (0.1, 0.1)),
    Sample("10 ** 22 and 1e22", (10**22, 1e22)),
    Sample("2 ** 53 + 1", (2**53 + 1, 2**53 + 1)),
    Sample("a number of 400 digits", (10**400 + 1, 10**400 + 1)),
    Sample("the smallest float", (5e-324, 5e-324)),
    Sample("true", (True, True)),
    Sample("false", (False, False)),
    Sample("null", (None, None)),
]

UNEQUAL: list[Sample] = [
    Sample("true is not 1", (True, 1)),
    Sample("1 is not true", (1, True)),
    Sample("false is not 0", (False, 0)),
    Sample("0 is not false", (0, False)),
    Sample("0.0 is not null", (0.0, None)),
    Sample("the text 2 is not 2", ("2", 2)),
    Sample("2 is not the text 2", (2, "2")),
    Sample("the text true is not true", ("true", True)),
    Sample("the text null is not null", ("null", None)),
    Sample("the text None is not null", (None, "None")),
    Sample("empty text is not null", ("", None)),
    Sample("null is not false", (None, False)),
    Sample("case matters", ("x", "X")),
    Sample("no trimming", ("x", "x ")),
    Sample("no normalising", ("é", "e\u0301")),
    Sample("no prefix", ("xy", "x")),
    Sample("no wildcard", ("xy", "x%")),
    Sample("neighbours beyond 2 ** 53", (2**53 + 1, 2**53)),
    Sample("neighbours beyond 2 ** 53, as a float", (2**53 + 1, float(2**53))),
    Sample("neighbouring floats", (0.1 + 0.2, 0.3)),
    Sample("a list that holds it", (["x"], "x")),
    Sample("an object that holds it", ({"a": "x"}, "x")),
]


@pytest.mark.parametrize("sample", EQUAL, ids=name_of)
@proves("MEM-10", needs=MEMORY, look_at="how values of metadata and of where are compared")
async def test_where_keeps_the_notes_whose_metadata_equals_the_value(
    lab: Lab, sample: Sample
) -> None:
    space = lab.new_id("notes")
    held, asked = sample.value
    await write(lab.backend, space, "other", "v", {"a": "something else"})
    await write(lab.backend, space, "match", "v", {"b": 0, "a": held})
    await write(lab.backend, space, "bare", "v")
    assert await listed(lab.reader, space, where={"a": asked}) == ["match"]
    assert await listed(lab.reader, space, query="V", where={"a": asked}) == ["match"]


@pytest.mark.parametrize("sample", UNEQUAL, ids=name_of)
@proves("MEM-10", needs=MEMORY, look_at="how values of metadata and of where are compared")
async def test_where_leaves_out_notes_whose_metadata_merely_resembles_the_value(
    lab: Lab, sample: Sample
) -> None:
    space = lab.new_id("notes")
    held, asked = sample.value
    await write(lab.backend, space, "k", "v", {"a": held})
    await write(lab.backend, space, "match", "v", {"a": asked})
    assert await listed(lab.reader, space, where={"a": asked}) == ["match"]


@proves("MEM-10", needs=MEMORY, look_at="a null that is there and a key that is not")
async def test_null_matches_a_null_that_is_there_and_not_a_missing_key(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "missing", "v", {"b": None})
    await write(lab.backend, space, "null", "v", {"a": None})
    assert await listed(lab.reader, space, where={"a": None}) == ["null"]


@proves("MEM-10", needs=MEMORY, look_at="whether all given values have to match")
async def test_every_given_value_has_to_match(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "one", "v", {"a": 1})
    await write(lab.backend, space, "both", "v", {"a": 1, "b": True, "c": "x"})
    await write(lab.backend, space, "swapped", "v", {"a": True, "b": 1})
    assert await listed(lab.reader, space, where={"a": 1}) == ["one", "both"]
    assert await listed(lab.reader, space, where={"a": 1, "b": True}) == ["both"]
    assert await listed(lab.reader, space, where={"b": True, "a": 1, "c": "y"}) == []
    assert await listed(lab.reader, space, where={}) == ["one", "both", "swapped"]


KEYS = [
    *("a') OR 1=1 --", '"', "'", "$.a", "$", "a.b", "a b", "*", "%", "a%", "__class__", "\\", "é"),
    *("{a}", "a:b", "a\0", "$ne", "", "a|b", "@x", "[0]", "a" * 2_000),
]


@pytest.mark.parametrize("key", KEYS, ids=ascii)
@proves("MEM-10", needs=MEMORY, look_at="where a key of where could become query text or a path")
async def test_keys_of_where_are_data(lab: Lab, key: str) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "plain", "v", {"a": {"b": "x"}, "x": "x", "b": "x"})
    assert await listed(lab.reader, space, where={key: "x"}) == []
    await write(lab.backend, space, "odd", "v", {key: "x"})
    assert await listed(lab.reader, space, where={key: "x"}) == ["odd"]
    assert await listed(lab.reader, space, where={key: "y"}) == []


NESTED: list[Sample] = [
    Sample("an object", {"$ne": 1}),
    Sample("an empty object", {}),
    Sample("a list", [1]),
    Sample("an empty list", []),
    Sample("a tuple", (1,)),
    Sample("NaN", float("nan")),
    Sample("infinity", float("inf")),
    Sample("bytes", b"x"),
    Sample("a lone surrogate", "\ud800"),
]


@pytest.mark.parametrize("sample", NESTED, ids=name_of)
@proves("MEM-10", "ALL-2", needs=MEMORY, look_at="the check of where before the store sees it")
async def test_a_value_that_where_cannot_compare_is_refused(lab: Lab, sample: Sample) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k", "v", {"a": 1})
    with pytest.raises(InvalidRequestError) as refused:
        await listed(lab.reader, space, where={"a": sample.value})
    assert refused.value.field.startswith("where")
    bad_keys: Any = {1: 1}
    with pytest.raises(InvalidRequestError):
        await listed(lab.reader, space, where=bad_keys)


@proves("MEM-10", "MEM-1", needs=MEMORY, look_at="what a put does with the old metadata's index")
async def test_where_follows_the_metadata_that_a_note_has_now(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k", "v", {"a": 1, "b": 2})
    await write(lab.backend, space, "k", "v", {"a": 3})
    assert await listed(lab.reader, space, where={"a": 1}) == []
    assert await listed(lab.reader, space, where={"b": 2}) == []
    assert await listed(lab.reader, space, where={"a": 3}) == ["k"]
    await lab.backend.memory.delete_memory(key="k", namespace=space)
    assert await listed(lab.reader, space, where={"a": 3}) == []


@proves("MEM-10", "MEM-4", "MEM-5", needs=MEMORY, look_at="whether limit or where comes first")
async def test_limits_and_pages_count_only_the_notes_that_match(lab: Lab) -> None:
    space, other = lab.new_id("notes"), lab.new_id("notes")
    items = [
        MemoryItem(key=f"k{n:03}", value=f"value {n % 7}", metadata={"even": n % 2 == 0})
        for n in range(120)
    ]
    await fill_many(lab.backend, space, items)
    await fill_many(lab.backend, other, items)
    even = [item.key for item in items if item.metadata["even"]]
    assert await listed(lab.reader, space, where={"even": True}) == even
    assert await listed(lab.reader, space, where={"even": True}, limit=7) == even[:7]
    assert await walk(lab.reader, space, 7, where={"even": True}) == even
    third = [item.key for item in items if item.metadata["even"] and "3" in item.value]
    assert await listed(lab.reader, space, query="3", where={"even": True}) == [
        item.key
        for item in items
        if item.metadata["even"] and ("3" in item.value or "3" in item.key)
    ]
    assert await listed(lab.reader, space, query="VALUE 3", where={"even": True}) == third
    assert (
        await listed(lab.reader, space, query="VALUE 3", where={"even": True}, limit=2)
        == (third[:2])
    )
