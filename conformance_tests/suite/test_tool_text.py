"""The text of a tool result: what it is, slices by code points, search."""

import asyncio
import random
import time
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, name_of, texts
from stores_core import InvalidRequestError, SearchToolResultResponse, ToolResult

RESULTS = ("tool_results",)


def _text(text: Any, **further: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **further}


IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
STRUCTURE = {"zeta": [1, 1.0, None, True], "a": {"q": "x y"}}
STRUCTURE_TEXT = '{"zeta":[1,1.0,null,true],"a":{"q":"x y"}}'

COMPOSED = [
    Sample("nothing", (ToolResult(), "")),
    Sample("no content", (ToolResult(content=[]), "")),
    Sample("one text", (ToolResult(content=[_text("a")]), "a")),
    Sample("two texts", (ToolResult(content=[_text("a\n"), _text("\nb")]), "a\n\n\nb")),
    Sample("empty texts", (ToolResult(content=[_text(""), _text("a"), _text("")]), "a")),
    Sample("only empty texts", (ToolResult(content=[_text(""), _text("")]), "")),
    Sample("blank text", (ToolResult(content=[_text(" "), _text("\n")]), " \n\n")),
    Sample("among others", (ToolResult(content=[IMAGE, _text("a"), IMAGE, _text("b")]), "a\nb")),
    Sample("only others", (ToolResult(content=[IMAGE, {"type": "json", "text": "no"}]), "")),
    Sample("odd items", (ToolResult(content=["no", 1, None, [_text("no")], _text(1)]), "")),
    Sample("structure", (ToolResult(structured_content=STRUCTURE), STRUCTURE_TEXT)),
    Sample(
        "structure and empty text",
        (ToolResult(content=[_text(""), IMAGE], structured_content=STRUCTURE), STRUCTURE_TEXT),
    ),
    Sample(
        "structure and text",
        (ToolResult(content=[_text("a")], structured_content=STRUCTURE), "a"),
    ),
    Sample("a list as structure", (ToolResult(structured_content=[1, "a"]), '[1,"a"]')),
    Sample("null content", (ToolResult(content=None, structured_content=["x"]), '["x"]')),
]


@pytest.mark.parametrize("sample", COMPOSED, ids=name_of)
@proves("TOOL-4", needs=RESULTS, look_at="which parts of a result make up its text")
async def test_the_text_is_the_text_items_or_else_the_structure(lab: Lab, sample: Sample) -> None:
    result, text = sample.value
    ref = await _kept(lab, result)
    answer = await lab.reader.tool_results.read_tool_result(ref=ref)
    assert answer.found
    assert (answer.text, answer.characters) == (text, len(text))


@pytest.mark.parametrize("sample", texts, ids=name_of)
@proves("TOOL-4", "ALL-1", needs=RESULTS, look_at="slices that count bytes or 16-bit units")
async def test_a_slice_counts_code_points(lab: Lab, sample: Sample) -> None:
    text = f"é{sample.value}😀"[:3_000]
    ref = await _kept(lab, ToolResult(content=[_text(text)]))
    end = len(text)
    for offset in {0, 1, 2, 3, end // 2, end - 2, end - 1}:
        for limit in (1, 2, 5, end):
            answer = await lab.reader.tool_results.read_tool_result(
                ref=ref, offset=offset, limit=limit
            )
            assert answer.text == text[offset : offset + limit]
            assert answer.characters == end


@proves("TOOL-4", needs=RESULTS, look_at="an offset at or past the end of the text")
async def test_past_the_end_a_slice_is_empty_and_still_tells_the_length(lab: Lab) -> None:
    ref = await _kept(lab, ToolResult(content=[_text("héllo")]))
    for offset in (5, 6, 4_000, 2**31, 2**63, 2**70):
        answer = await lab.reader.tool_results.read_tool_result(ref=ref, offset=offset, limit=5)
        assert (answer.found, answer.text, answer.characters) == (True, "", 5)


@proves("TOOL-4", "ALL-11", needs=RESULTS, look_at="what limit 0 and a limit above a million mean")
async def test_a_slice_has_4000_characters_by_default_and_a_million_at_most(lab: Lab) -> None:
    text = "0123456789abcdé\n" * 70_000
    ref = await _kept(lab, ToolResult(content=[_text(text)]))
    read = lab.reader.tool_results.read_tool_result
    assert (await read(ref=ref)).text == text[:4_000]
    assert (await read(ref=ref, offset=7)).text == text[7:4_007]
    assert (await read(ref=ref, limit=4_001)).text == text[:4_001]
    assert (await read(ref=ref, limit=1_000_000)).text == text[:1_000_000]
    assert (await read(ref=ref, limit=5_000_000)).text == text[:1_000_000]


@proves(
    "TOOL-4",
    needs=RESULTS,
    thorough=True,
    look_at="the borders of the pieces in which a long text is kept",
)
async def test_slices_of_a_long_text_are_right_at_every_border(lab: Lab) -> None:
    chance = random.Random(5)
    signs = "ab\n é\u0301漢😀\0\U0010ffff"
    text = "".join(chance.choices(signs, k=200_000 if lab.quick else 1_300_000))
    ref = await _kept(lab, ToolResult(content=[_text(text[:77]), _text(text[77:])]))
    whole = text[:77] + "\n" + text[77:]
    borders = [4_096, 65_536, 131_072, 262_144, 524_288, 1_000_000, 1_048_576, len(whole) - 5]
    offsets = [border + step for border in borders for step in (-3, -1, 0, 1)]
    for offset in [0, 75, 76, 77, *offsets, *chance.choices(range(len(whole)), k=40)]:
        answer = await lab.reader.tool_results.read_tool_result(ref=ref, offset=offset, limit=9)
        assert answer.text == whole[offset : offset + 9], f"at {offset}"
        assert answer.characters == len(whole)
    pieces: list[str] = []
    while sum(map(len, pieces)) < len(whole):
        answer = await lab.reader.tool_results.read_tool_result(
            ref=ref, offset=sum(map(len, pieces)), limit=99_991
        )
        assert answer.text
        pieces.append(answer.text)
    assert ("".join(pieces) == whole) is True  # without a report of a million characters


LITERAL = [
    *("a.c", "(a", "[ab]", "a|b", "^a", "a$", "a*", "a+", "a?", "\\d", "\\", "%", "_", "'"),
    *("a{2}", "(?i)a", ".*", "\0", "é", "😀", "$1", "a b", "\t"),
]


@pytest.mark.parametrize("pattern", LITERAL, ids=ascii)
@proves("TOOL-6", needs=RESULTS, look_at="a pattern that is taken as a regular expression")
async def test_every_character_of_a_pattern_is_literal(lab: Lab, pattern: str) -> None:
    lines = ["abc aa b 7 A x", f"漢 <{pattern}> and {pattern}", "", "aac", f"{pattern}"]
    lines = [lines[0].replace(pattern, ""), *lines[1:3], lines[3].replace(pattern, ""), lines[4]]
    found = await _search(lab, "\n".join(lines), pattern=pattern)
    at = len(lines[0]) + 1
    last = len("\n".join(lines[:4])) + 1
    assert _places(found) == [(at + 3, at, lines[1]), (last, last, lines[4])]


@proves("TOOL-6", needs=RESULTS, look_at="offsets that count bytes, and lines with two matches")
async def test_a_match_tells_its_offset_and_its_line_once(lab: Lab) -> None:
    text = "é😀 no\nneedle, needle\n\n  漢 needle\nNeedle\nnee\ndle"
    found = await _search(lab, text, pattern="needle")
    assert _places(found) == [(6, 6, "needle, needle"), (26, 22, "  漢 needle")]
    assert (found.next, found.characters) == (len(text), len(text))
    assert [text[m.offset : m.offset + 6] for m in found.matches] == ["needle"] * 2


@proves(
    "TOOL-6",
    needs=RESULTS,
    thorough=True,
    look_at="case folding, and offsets in the text as it was",
)
async def test_ignoring_case_folds_by_unicode_and_keeps_true_offsets(lab: Lab) -> None:
    text = "İİİß needle\nxx NEEDLE\nSTRASSE\nstraße\nΟΔΌΣ οδός\nstrase"
    for pattern, expected in (
        ("NeeDLe", [5, 15]),
        ("STRAẞE", [22, 30]),
        ("strasse", [22, 30]),
        ("οδόσ", [37]),
    ):
        found = await _search(lab, text, pattern=pattern, ignore_case=True)
        assert [match.offset for match in found.matches] == expected, pattern
        plain = await _search(lab, text, pattern=pattern)
        assert len(plain.matches) < len(expected), "case was ignored without being asked to"


@proves("TOOL-6", needs=RESULTS, look_at="limit, next and start of a search")
async def test_a_search_goes_on_where_it_stopped(lab: Lab) -> None:
    lines = [f"line {n} {'needle' if n % 3 == 0 else ''}" for n in range(450)]
    text = "\n".join(lines)
    ref = await _kept(lab, ToolResult(content=[_text(text)]))
    wanted = [line for n, line in enumerate(lines) if n % 3 == 0]
    first = await lab.reader.tool_results.search_tool_result(ref=ref, pattern="needle")
    assert [match.text for match in first.matches] == wanted[:100], "limit 0 stands for 100"
    for limit in (1, 7, 100, 1_000):
        start, found = 0, list[str]()
        for _ in range(500):
            answer = await lab.reader.tool_results.search_tool_result(
                ref=ref, pattern="needle", start=start, limit=limit
            )
            assert len(answer.matches) <= limit
            assert all(match.offset >= start for match in answer.matches)
            assert start < answer.next <= answer.characters == len(text)
            found += [match.text for match in answer.matches]
            start = answer.next
            if start == answer.characters:
                break
        assert found == wanted


@proves("TOOL-6", needs=RESULTS, look_at="the answer of a search that finds nothing")
async def test_a_search_without_matches_says_that_all_was_searched(lab: Lab) -> None:
    for text in ("", "hay\nhay", "hay\n" * 30_000):
        found = await _search(lab, text, pattern="needle")
        assert found.found
        assert (len(found.matches), found.next, found.characters) == (0, len(text), len(text))
    found = await _search(lab, "needle", pattern="needle", start=1)
    assert (len(found.matches), found.next) == (0, 6)


@proves("TOOL-6", needs=RESULTS, look_at="how a long line is cut around its match")
async def test_a_long_line_is_cut_to_500_characters_around_the_match(lab: Lab) -> None:
    line = "".join(chr(0x4E00 + n % 5_000) for n in range(20_000))
    for at in (0, 100, 400, 10_000, 19_700, len(line)):
        text = f"before\n{line[:at]}needle{line[at:]}\nafter"
        found = await _search(lab, text, pattern="needle")
        (match,) = found.matches
        assert (match.offset, match.line_offset) == (7 + at, 7)
        assert len(match.text) == 500
        assert "needle" in match.text
        assert match.text in text.split("\n")[1]
    short = "x" * 247 + "needle" + "x" * 247
    (match,) = (await _search(lab, f"a\n{short}\nb", pattern="needle")).matches
    assert match.text == short


@proves("TOOL-6", needs=RESULTS, look_at="a regular expression engine that can take for ever")
async def test_a_regex_is_linear_or_refused(lab: Lab) -> None:
    ref = await _kept(lab, ToolResult(content=[_text("needle 42\n" + "a" * 100_000 + "b")]))
    search = lab.reader.tool_results.search_tool_result
    (found,) = await asyncio.gather(
        search(ref=ref, pattern="[a-z]+ [0-9]{2}", regex=True), return_exceptions=True
    )
    if isinstance(found, BaseException):
        assert isinstance(found, InvalidRequestError)
        assert found.field == "regex"
        assert "pip install" in str(found)
        return
    assert [(match.offset, match.text) for match in found.matches] == [(0, "needle 42")]
    begun = time.monotonic()
    assert len((await search(ref=ref, pattern="(a+)+$", regex=True)).matches) == 0
    assert time.monotonic() - begun < 10
    with pytest.raises(InvalidRequestError):
        await search(ref=ref, pattern="(unclosed", regex=True)


@proves("TOOL-6", needs=RESULTS, look_at="the check of the pattern")
async def test_an_empty_pattern_is_refused(lab: Lab) -> None:
    ref = await _kept(lab, ToolResult(content=[_text("a")]))
    with pytest.raises(InvalidRequestError) as refused:
        await lab.reader.tool_results.search_tool_result(ref=ref, pattern="")
    assert refused.value.field == "pattern"


async def _kept(lab: Lab, result: ToolResult) -> str:
    """The ref under which the result now is."""
    ref = lab.new_id("ref")
    await lab.backend.tool_results.put_tool_result(ref=ref, result=result)
    return ref


async def _search(lab: Lab, text: str, **query: Any) -> SearchToolResultResponse:
    ref = await _kept(lab, ToolResult(content=[_text(text)]))
    return await lab.reader.tool_results.search_tool_result(ref=ref, **query)


def _places(found: SearchToolResultResponse) -> list[tuple[int, int, str]]:
    return [(match.offset, match.line_offset, match.text) for match in found.matches]
