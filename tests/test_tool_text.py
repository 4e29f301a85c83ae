"""The text of a tool result: kept once, cut by code points, searched in linear time."""

import json
import re
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores_core.codec import canonical
from stores_core.errors import CorruptRecordError, InvalidRequestError
from stores_core.tool_results import TextMatch, ToolResult
from stores_core.tool_text import join, read_slice, search, split, text_of

ODD_TEXTS = st.text(st.sampled_from("sSßẞſaAİi\u0307ﬁfIkK\u212a\n"), max_size=12)

floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | floats
json_values = st.recursive(
    scalars | st.text("aé\n\U0001f600"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab_"), inner, max_size=3),
    max_leaves=8,
)
text_items = st.fixed_dictionaries(
    {"text": st.text("aß\n\U0001f600") | json_values},
    optional={"type": st.sampled_from(["text", "image"]), "z": json_values},
).map(lambda item: dict(reversed(item.items())) if len(item) % 2 else item)


def tool_result(content: dict[str, Any], fields: dict[str, Any]) -> ToolResult:
    return ToolResult(**{**fields, **content})


results = st.builds(
    tool_result,
    st.one_of(
        st.just({}),
        st.just({"content": None}),
        st.lists(text_items | json_values, max_size=5).map(lambda items: {"content": items}),
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "structured_content": json_values,
            "structuredContent": json_values,
            "is_error": st.none() | st.booleans(),
            "meta": json_values,
            "lengths": json_values,
        },
    ),
)


def find(text: str, pattern: str, **options: Any) -> tuple[list[TextMatch], int]:
    chosen: dict[str, Any] = {
        "ignore_case": False,
        "regex": False,
        "start": 0,
        "limit": 100,
        **options,
    }
    return search(text, pattern, **chosen)


def offsets(text: str, pattern: str, **options: Any) -> list[int]:
    return [match.offset for match in find(text, pattern, **options)[0]]


def test_the_text_is_the_non_empty_text_items_joined_by_one_newline() -> None:
    items = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": ""},
        {"type": "image", "data": "AAAA", "text": "no"},
        {"text": "no type"},
        {"type": "text", "text": 5},
        ["text"],
        {"type": "text", "text": "two\n"},
    ]
    assert text_of(ToolResult(content=items, structured_content={"a": 1})) == "one\ntwo\n"


def test_without_text_items_the_text_is_the_structured_content_as_compact_json() -> None:
    structured = {"b": [1.0, "é"], "a": None}
    result = ToolResult(content=[{"type": "text", "text": ""}], structured_content=structured)
    assert text_of(result) == '{"b":[1.0,"é"],"a":null}'
    assert text_of(ToolResult(structured_content={})) == "{}"
    assert text_of(ToolResult(structured_content=False)) == "false"


def test_without_any_text_it_is_empty() -> None:
    assert text_of(ToolResult()) == ""
    assert text_of(ToolResult(content=None, structured_content=None)) == ""


@given(results)
def test_a_result_that_is_split_and_joined_comes_back_equal(result: ToolResult) -> None:
    before = canonical(result)
    text, rest = split(result)
    assert text == text_of(result)
    assert canonical(join(text, rest)) == before
    assert canonical(result) == before


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content=[{"type": "text", "text": "needle" * 1000, "annotations": {"a": 1}}]),
        ToolResult(structured_content={"key": "needle" * 1000}),
    ],
    ids=["text items", "structured content"],
)
def test_the_rest_holds_no_copy_of_the_text(result: ToolResult) -> None:
    text, rest = split(result)
    assert "needle" in text
    assert b"needle" not in rest
    assert len(rest) < 200


def test_the_rest_is_lines_of_json() -> None:
    result = ToolResult(content=[{"type": "image", "data": "x\ny"}, {"type": "text", "text": "äb"}])
    places, body = (json.loads(line) for line in split(result)[1].split(b"\n"))
    assert places == [[1, 2]]
    assert body["content"][1] == {"type": "text", "text": None}


def test_a_joined_result_shares_nothing_with_the_one_that_was_split() -> None:
    item: dict[str, Any] = {"type": "text", "text": "hi", "more": []}
    text, rest = split(ToolResult(content=[item]))
    first, second = join(text, rest), join(text, rest)
    assert first.content
    first.content[0]["more"].append(1)
    assert item["more"] == []
    assert second.content == (item,)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("ab", b'[[0,3]]\n{"content":[{"type":"text","text":null}]}'),
        ("ab", b'[]\n{"content":[]}'),
        ("ab", b'[[1,2]]\n{"content":[{"type":"text","text":null}]}'),
        ("ab", b'[[0,2]]\n{"content":[7]}'),
        ("ab", b'[0]\n{"content":[{}]}'),
        ("{", b'"structured"\n{"structuredContent":null}'),
        ("ab", b'[[0,2]]\n{"content":[{"ty'),
        ("ab", b""),
    ],
)
def test_parts_that_do_not_belong_together_are_a_corrupt_record(text: str, rest: bytes) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        join(text, rest, ref="r-1")
    assert (caught.value.store, caught.value.id) == ("tool_results", "r-1")


def test_a_slice_counts_code_points_and_is_empty_past_the_end() -> None:
    text = "a\U0001f600é\r\nz"
    assert read_slice(text, 1, 2) == "\U0001f600é"
    assert read_slice(text, 5, 10) == "z"
    assert read_slice(text, 6, 10) == read_slice(text, 99, 1) == read_slice(text, 0, 0) == ""


def test_each_line_gives_its_first_match_with_offsets_in_code_points() -> None:
    matches, after = find("\U0001f600 cat cat\ndog\n\nthe cat", "cat")
    assert [(match.offset, match.line_offset, match.text) for match in matches] == [
        (2, 0, "\U0001f600 cat cat"),
        (19, 15, "the cat"),
    ]
    assert after == 22


def test_every_character_of_a_literal_pattern_is_literal() -> None:
    text = "a.c abc %_* \\d [x] ^$"
    for pattern in (".", "%_", "*", "\\d", "[x]", "^$"):
        assert offsets(text, pattern) == [text.index(pattern)]
        assert offsets(text, pattern, ignore_case=True) == [text.index(pattern)]


def test_a_literal_match_may_cross_lines_and_shows_all_of_them() -> None:
    for ignore_case in (False, True):
        matches, after = find("xa\nbx\na\nb", "a\nb", ignore_case=ignore_case)
        assert [(match.offset, match.line_offset, match.text) for match in matches] == [
            (1, 0, "xa\nbx"),
            (6, 6, "a\nb"),
        ]
        assert after == 9


def test_a_match_that_ends_in_a_newline_shows_its_own_line_only() -> None:
    assert [match.text for match in find("one\ntwo\n", "e\n")[0]] == ["one"]
    assert [match.text for match in find("\n\n", "\n")[0]] == ["", ""]


@pytest.mark.parametrize("options", [{}, {"ignore_case": True}, {"regex": True}], ids=str)
def test_searching_on_from_next_gives_each_line_once(options: dict[str, Any]) -> None:
    text = "".join(f"line é{number} with x and x\n" for number in range(50)) + "no\nend x"
    whole = offsets(text, "x", **options)
    found: list[int] = []
    start = 0
    while start < len(text):
        matches, after = find(text, "x", start=start, limit=7, **options)
        assert after > start
        found += [match.offset for match in matches]
        start = after
    assert found == whole
    assert len(whole) == 51


@pytest.mark.parametrize("options", [{}, {"ignore_case": True}, {"regex": True}], ids=str)
def test_a_search_that_starts_inside_a_line_finds_what_is_left_of_it(
    options: dict[str, Any],
) -> None:
    (match,), after = find("äx x\nb", "x", start=2, **options)
    assert (match.offset, match.line_offset, match.text, after) == (3, 0, "äx x", 6)


def test_a_start_at_or_past_the_end_finds_nothing() -> None:
    assert find("abc", "c", start=3) == find("abc", "c", start=99) == ([], 3)
    assert find("", "c") == ([], 0)


def test_a_long_line_is_cut_to_500_characters_around_the_match() -> None:
    line = "a" * 10_000 + "needle" + "b" * 10_000
    (match,), _ = find(f"first\n{line}\nlast", "needle")
    assert (match.offset, match.line_offset) == (10_006, 6)
    assert len(match.text) == 500
    assert 240 < match.text.index("needle") < 260


@pytest.mark.parametrize("at", [0, 100, 900, 994])
def test_a_match_near_an_end_of_a_long_line_still_shows_500_characters(at: int) -> None:
    line = "-" * at + "needle" + "-" * (994 - at)
    (match,), _ = find(f"x\n{line}\ny", "needle")
    assert len(match.text) == 500
    assert "needle" in match.text


def test_a_match_longer_than_the_cut_shows_its_beginning() -> None:
    (match,), _ = find("x" * 300 + "ab" * 400, "ab" * 400)
    assert match.text == "ab" * 250


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("ÉCOLE", "école", [0]),
        ("Straße", "STRASSE", [0]),
        ("STRASSE", "straße", [0]),
        ("ßßß ss", "s", [4]),
        ("sßs", "ss", [1]),
        ("ﬁx", "FI", [0]),
        ("ﬁx", "ix", []),
        ("ﬁx ix", "ix", [3]),
        ("İx", "x", [1]),
        ("ΣΑΣ", "σας", [0]),
        ("ΐa\nŉb", "B", [4]),
        ("\U00010400z", "\U00010428Z", [0]),
    ],
)
def test_ignoring_case_folds_by_unicode_and_never_cuts_a_character(
    text: str, pattern: str, expected: list[int]
) -> None:
    assert offsets(text, pattern, ignore_case=True) == expected


@given(ODD_TEXTS, ODD_TEXTS.filter(bool), st.integers(0, 12))
def test_a_folding_search_agrees_with_trying_every_piece_of_the_text(
    text: str, pattern: str, start: int
) -> None:
    wanted = pattern.casefold()
    hits = [
        begin
        for begin in range(start, len(text))
        if any(text[begin:end].casefold() == wanted for end in range(begin, len(text) + 1))
    ]
    first_of_line = {text.count("\n", 0, begin): begin for begin in reversed(hits)}
    expected = sorted(first_of_line.values())
    assert offsets(text, pattern, ignore_case=True, start=start) == expected


def test_a_folding_search_finds_a_match_wherever_it_stands_in_a_long_text() -> None:
    for before in [*range(4_080, 4_110), 8_190, 8_193]:
        text = "ß" * before + "Größe" + "ß" * 9_000
        (match,), _ = find(text, "grösse", ignore_case=True)
        assert match.offset == before
    pattern = "Ab" * 10_000
    assert offsets("ß\n" + pattern.lower() + "ß", pattern, ignore_case=True) == [2]


def test_a_regex_matches_within_lines_with_anchors_at_their_ends() -> None:
    text = "äone 1\ntwo\n\nthree 33\n"
    assert offsets(text, r"\d+$", regex=True) == [5, 18]
    assert offsets(text, "^[a-z]+", regex=True) == [7, 12]
    assert offsets(text, r"\w+\s+\w+", regex=True) == [1, 12]
    assert offsets(text, r"two\s+three", regex=True) == []
    assert offsets(text, "^$", regex=True) == [11]
    assert offsets(text, "z*", regex=True) == [0, 7, 11, 12]


def test_a_regex_can_ignore_case() -> None:
    assert offsets("x\nÉCOLE", "é.o", regex=True, ignore_case=True) == [2]
    assert offsets("x\nÉCOLE", "é.o", regex=True) == []


def test_a_regex_that_takes_single_bytes_gives_offsets_of_whole_characters() -> None:
    assert offsets("é\nbé", r"b\C", regex=True) == [2]
    assert offsets("\U0001f600b\nc", r"\Cb", regex=True) == [0]


@given(st.text("aß\U0001f600b\n", max_size=30), st.integers(0, 30))
def test_a_regex_search_agrees_with_python_line_by_line(text: str, start: int) -> None:
    expected: list[int] = []
    line_start = 0
    for line in text.splitlines(keepends=True):
        found = re.compile("[ab]+ß").search(line, max(0, start - line_start))
        if found:
            expected.append(line_start + found.start())
        line_start += len(line)
    assert offsets(text, "[ab]+ß", regex=True, start=start) == expected


@pytest.mark.parametrize("pattern", ["(", "a{5000}", r"(a)\1", "(?=a)", "**"])
def test_a_bad_regex_is_refused_without_quoting_it(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        find("aaa", "secret" + pattern, regex=True)
    assert caught.value.field == "pattern"
    assert "secret" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_without_the_engine_a_regex_is_refused_by_naming_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidRequestError, match=re.escape("'agent-stores[regex]'")) as caught:
        find("aaa", "a", regex=True)
    assert caught.value.field == "regex"
    assert offsets("aaa", "a") == [0]


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("no such line", {}),
        ("NO SUCH LINE", {"ignore_case": True}),
        ("(x+x+)+y", {"regex": True}),
    ],
)
def test_30_megabytes_are_searched_fast(pattern: str, options: dict[str, Any]) -> None:
    text = "Die Straße liegt hier, sagte Hänsel\n" * 800_000 + "x" * 100_000
    began = time.perf_counter()
    assert find(text, pattern, **options) == ([], len(text))
    assert time.perf_counter() - began < 2


def test_a_text_made_to_reject_every_candidate_is_still_searched_fast() -> None:
    began = time.perf_counter()
    assert offsets("ß" * 2_000_000, "s", ignore_case=True) == []
    assert offsets("a" * 2_000_000, "a" * 20_000 + "b", ignore_case=True) == []
    assert time.perf_counter() - began < 2
