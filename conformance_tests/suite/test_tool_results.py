"""Tool results: kept whole under a ref, replaced whole, listed, deleted."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, name_of, tool_results
from conformance_tests.suite.steps import StoppedClock
from stores_core import Backend, InvalidRequestError, ToolResult, ToolResultInfo

RESULTS = ("tool_results",)
MIB = 1024 * 1024
MOST_PAGES = 10_000


def text_result(text: str, **further: Any) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}], **further)


async def put(
    client: Backend, ref: str, result: ToolResult, labels: Mapping[str, str] | None = None
) -> None:
    answer = await client.tool_results.put_tool_result(ref=ref, result=result, labels=labels or {})
    assert answer.ref == ref


async def kept(client: Backend, ref: str) -> ToolResult:
    """A result that must be there."""
    answer = await client.tool_results.get_tool_result(ref=ref)
    assert answer.result is not None, f"the result {ref!r} is not there"
    assert answer.found, "found and result contradict each other"
    return answer.result


async def text_of(client: Backend, ref: str) -> str:
    """The whole text of a result that must be there and is no longer than a slice may be."""
    answer = await client.tool_results.read_tool_result(ref=ref, limit=1_000_000)
    assert answer.found
    assert answer.characters == len(answer.text)
    return answer.text


async def assert_unknown(client: Backend, ref: str) -> None:
    """Every operation answers as for a ref that never was."""
    store = client.tool_results
    got = await store.get_tool_result(ref=ref)
    read = await store.read_tool_result(ref=ref)
    searched = await store.search_tool_result(ref=ref, pattern="a")
    assert (got.found, got.result) == (False, None)
    assert (read.found, read.text, read.characters) == (False, "", 0)
    assert (searched.found, len(searched.matches), searched.characters) == (False, 0, 0)
    assert not (await store.delete_tool_result(ref=ref)).deleted


async def walk(
    client: Backend, limit: int, labels: Mapping[str, str] | None = None
) -> list[ToolResultInfo]:
    """All infos of a listing, by following its cursors."""
    found: list[ToolResultInfo] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.tool_results.list_tool_results(
            limit=limit, cursor=cursor, labels=labels or {}
        )
        assert len(page.infos) <= limit, f"a page of {limit} gave {len(page.infos)} infos"
        found += page.infos
        cursor = page.next_cursor
        if not cursor:
            return found
    raise AssertionError("the cursors of the listing never end")


@pytest.mark.parametrize("sample", tool_results, ids=name_of)
@proves("TOOL-1", "ALL-1", needs=RESULTS, look_at="how a result is encoded, taken apart and joined")
async def test_a_result_comes_back_equal(lab: Lab, sample: Sample) -> None:
    ref = lab.new_id("ref")
    await put(lab.backend, ref, sample.value)
    assert_same(await kept(lab.reader, ref), sample.value, "the result")
    await put(lab.backend, ref, await kept(lab.reader, ref))
    assert_same(await kept(lab.reader, ref), sample.value, "the result, put back as it came")


SIZES = [0, 1, 10, 4_000, 65_535, 65_536, 65_537, 131_073, MIB - 1, MIB, MIB + 1]


@pytest.mark.parametrize("size", SIZES)
@proves("TOOL-1", needs=RESULTS, look_at="lengths at which a text is cut into pieces or columns")
async def test_a_text_of_any_size_comes_back_whole(lab: Lab, size: int) -> None:
    ref = lab.new_id("ref")
    text = ("0123456789abcdé\n" * (size // 16 + 1))[:size]
    await put(lab.backend, ref, text_result(text))
    result = await kept(lab.reader, ref)
    assert_same(result, text_result(text), "the result")


@proves("TOOL-1", "ALL-11", needs=RESULTS, look_at="what becomes of a result near the size limit")
async def test_a_result_of_30_megabytes_comes_back_equal(lab: Lab) -> None:
    ref, mega = lab.new_id("ref"), 3 if lab.quick else 30
    text = "0123456789 wörd\n" * (mega * 40_000)
    data = "iVBORw0K" * (mega * 40_000)
    await put(
        lab.backend,
        ref,
        ToolResult(
            content=[
                {"type": "text", "text": text},
                {"type": "image", "data": data, "mimeType": "image/png"},
                {"type": "text", "text": "end"},
            ],
            structured_content={"rows": [1.0, None]},
        ),
    )
    result = await kept(lab.reader, ref)
    content: Any = result.content
    # Compared by themselves: a report of a difference would print megabytes.
    same = [content[0]["text"] == text, content[1]["data"] == data, content[2]["text"] == "end"]
    assert same == [True, True, True]
    assert_same(result.structured_content, {"rows": [1.0, None]}, "the structured content")
    read = await lab.reader.tool_results.read_tool_result(ref=ref, offset=len(text), limit=10)
    assert_same((read.text, read.characters), ("\nend", len(text) + 4), "the end of the text")
    await lab.backend.tool_results.delete_tool_result(ref=ref)


@proves("TOOL-2", needs=RESULTS, look_at="what the operations answer for an unknown ref")
async def test_an_unknown_ref_answers_not_found_everywhere(lab: Lab) -> None:
    ref = lab.new_id("ref")
    await assert_unknown(lab.reader, ref)
    await put(lab.backend, ref + "x", text_result("a"))
    await assert_unknown(lab.reader, ref)


@proves("TOOL-2", needs=RESULTS, look_at="what delete_tool_result leaves behind")
async def test_a_deleted_result_is_gone_and_its_ref_is_free(lab: Lab) -> None:
    ref, label = lab.new_id("ref"), {"test": lab.new_id("label")}
    await put(lab.backend, ref, text_result("a" * 5_000, extra=1), label)
    assert (await lab.backend.tool_results.delete_tool_result(ref=ref)).deleted
    await assert_unknown(lab.reader, ref)
    assert await walk(lab.reader, 10, label) == []
    await put(lab.backend, ref, ToolResult(content=[]))
    assert_same(await kept(lab.reader, ref), ToolResult(content=[]), "the new result")
    assert await text_of(lab.reader, ref) == ""
    assert await walk(lab.reader, 10, label) == []


@proves("TOOL-2", "ALL-3", needs=RESULTS, look_at="generated refs that are counted or only timed")
async def test_refs_that_are_generated_are_all_different_and_cannot_be_guessed(lab: Lab) -> None:
    store, label = lab.backend.tool_results, {"test": lab.new_id("label")}
    answers = await asyncio.gather(
        *(store.put_tool_result(result=text_result(f"{n}"), labels=label) for n in range(60))
    )
    refs = [answer.ref for answer in answers]
    assert len(set(refs)) == 60
    for n, ref in enumerate(refs):
        assert await text_of(lab.reader, ref) == f"{n}"
        assert len(set(ref[-24:])) > 4, f"the end of {ref!r} looks like a number that counts"
    assert len({ref[-24:] for ref in refs}) == 60, "the refs differ in the time alone"
    assert {info.ref for info in await walk(lab.reader, 7, label)} == set(refs)


@proves("TOOL-3", needs=RESULTS, look_at="put_tool_result on a ref that is taken")
async def test_a_ref_put_again_is_replaced_whole(lab: Lab) -> None:
    ref, label = lab.new_id("ref"), {"test": lab.new_id("label")}
    fields: dict[str, Any] = {"further": "old"}
    first = ToolResult(
        content=[{"type": "text", "text": "old " * 30_000}, {"type": "image", "data": "AAAA"}],
        structured_content={"old": 1},
        is_error=True,
        meta={"old": 1},
        **fields,
    )
    await put(lab.backend, ref, first, label | {"old": "label"})
    for second in (text_result("new"), ToolResult(), text_result("new" * 50_000), first):
        await put(lab.backend, ref, second, label)
        assert_same(await kept(lab.reader, ref), second, "the result that replaced another")
        assert len(await walk(lab.reader, 10, label)) == 1
    assert (await walk(lab.reader, 10, label))[0].labels == label
    assert await walk(lab.reader, 10, label | {"old": "label"}) == []
    await put(lab.backend, ref, text_result("short"), label)
    assert await text_of(lab.reader, ref) == "short"
    found = await lab.reader.tool_results.search_tool_result(ref=ref, pattern="old")
    assert (found.found, len(found.matches), found.characters) == (True, 0, 5)


@proves(
    "TOOL-3", "ALL-6", needs=RESULTS, look_at="a put in several steps that a reader sees between"
)
async def test_a_reader_sees_the_old_result_or_the_new_one_and_never_a_mix(lab: Lab) -> None:
    ref, rounds = lab.new_id("ref"), 20
    sizes = [3, 70_000, 100, 250_000]
    seen: list[str] = []

    def version(n: int) -> ToolResult:
        letter = "abcdefghij"[n % 10]
        return text_result(letter * sizes[n % 4], structured_content=letter, further=letter)

    async def replace(first: int) -> None:
        for n in range(first, first + rounds):
            await put(lab.backend, ref, version(n))
            await asyncio.sleep(0)  # lets readers in where a put itself never waits

    async def read() -> None:
        for _ in range(rounds):
            result = await kept(lab.reader, ref)
            content: Any = result.content
            text = content[0]["text"]
            letters = {*text, result.structured_content, (result.model_extra or {})["further"]}
            assert len(letters) == 1, "a result is mixed of two"
            seen.append(text)
            part = await lab.reader.tool_results.read_tool_result(ref=ref, limit=1_000_000)
            assert part.characters == len(part.text)
            assert len(set(part.text)) == 1, "a slice is mixed of two"
            seen.append(part.text)
            await asyncio.sleep(0)

    await put(lab.backend, ref, version(0))
    await asyncio.gather(replace(1), replace(2), read(), read())
    whole = {("abcdefghij"[n % 10], sizes[n % 4]) for n in range(40)}
    assert {(text[0], len(text)) for text in seen} <= whole
    final = await text_of(lab.reader, ref)
    assert (final[0], len(final)) in whole


@proves("TOOL-7", needs=("tool_results", "tenant", "clock"), look_at="the sort key of the listing")
async def test_results_are_listed_newest_first_and_ties_by_ref(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock)
    for refs in ("ca", "éb", "B😀\uffff"):
        for ref in refs:
            await put(client, ref, text_result(ref))
        clock.move(60)
    expected = ["B", "\uffff", "😀", "b", "é", "a", "c"]
    for limit in (1, 2, 3, 7, 100):
        assert [info.ref for info in await walk(client, limit)] == expected
    await put(client, "a", text_result("again"))
    expected = ["a", "B", "\uffff", "😀", "b", "é", "c"]
    assert [info.ref for info in await walk(client, 2)] == expected, "the ref that was replaced"


@proves("TOOL-7", needs=RESULTS, look_at="cursors that hold an offset instead of a position")
async def test_pages_of_results_miss_and_repeat_nothing_meanwhile(lab: Lab) -> None:
    label, start = {"test": lab.new_id("label")}, lab.new_id("ref")
    refs = [f"{start}-{n}" for n in range(9)]
    for ref in refs:
        await put(lab.backend, ref, text_result("x"), label)
    newest = [info.ref for info in await walk(lab.reader, 1, label)]
    assert sorted(newest) == refs
    page = await lab.reader.tool_results.list_tool_results(labels=label, limit=4)
    assert [info.ref for info in page.infos] == newest[:4]
    for gone in (newest[0], newest[3], newest[6]):
        await lab.backend.tool_results.delete_tool_result(ref=gone)
    await put(lab.backend, f"{start}-late", text_result("x"), label)
    rest: list[str] = []
    while page.next_cursor:
        page = await lab.reader.tool_results.list_tool_results(
            labels=label, limit=2, cursor=page.next_cursor
        )
        rest += [info.ref for info in page.infos]
    assert [ref for ref in rest if ref != f"{start}-late"] == newest[4:6] + newest[7:]
    with pytest.raises(InvalidRequestError) as refused:
        await lab.reader.tool_results.list_tool_results(labels=label, cursor="nope")
    assert refused.value.field == "cursor"


@proves("TOOL-7", needs=RESULTS, look_at="the cursor's seal: it belongs to one query")
async def test_a_cursor_of_another_listing_of_results_is_refused(lab: Lab) -> None:
    label, other = {"test": lab.new_id("label")}, {"test": lab.new_id("label")}
    for n in range(3):
        await put(lab.backend, lab.new_id("ref"), text_result(f"{n}"), label)
    page = await lab.reader.tool_results.list_tool_results(labels=label, limit=1)
    assert page.next_cursor
    for labels in (other, {}, label | {"more": "x"}):
        with pytest.raises(InvalidRequestError):
            await lab.reader.tool_results.list_tool_results(
                labels=labels, limit=1, cursor=page.next_cursor
            )


@proves("TOOL-7", needs=RESULTS, look_at="how labels filter: equality on all that are given")
async def test_labels_filter_results_by_equality_on_all_given(lab: Lab) -> None:
    test = {"test": lab.new_id("label")}
    sets = {
        "none": {},
        "a": {"a": "1"},
        "ab": {"a": "1", "b": "2"},
        "upper": {"A": "1"},
        "longer": {"a": "11"},
        "swapped": {"1": "a"},
        "p": {"p": "1"},
        "q": {"q": "1"},
        "pq": {"p": "1", "q": "1"},
    }
    refs = {name: lab.new_id(f"ref-{name}") for name in sets}
    for name, labels in sets.items():
        await put(lab.backend, refs[name], text_result(name), test | labels)
    for wanted, names in (
        ({}, list(sets)),
        ({"a": "1"}, ["a", "ab"]),
        ({"a": "1", "b": "2"}, ["ab"]),
        ({"a": "2"}, []),
        ({"b": "1"}, []),
        ({"A": "1"}, ["upper"]),
        ({"p": "1", "q": "1"}, ["pq"]),
    ):
        found = {info.ref for info in await walk(lab.reader, 2, test | wanted)}
        assert found == {refs[name] for name in names}


@proves("TOOL-7", "TOOL-4", needs=RESULTS, look_at="the counts on an info")
async def test_an_info_tells_ref_labels_characters_and_bytes(lab: Lab) -> None:
    ref, label = lab.new_id("ref"), {"test": lab.new_id("label"), "é": "\u0301"}
    text = "é😀" * 50
    await put(lab.backend, ref, text_result(text, extra="x" * 1_000), label)
    (info,) = await walk(lab.reader, 10, label)
    assert (info.ref, info.labels, info.characters) == (ref, label, 100)
    plain = len(text.encode()) + 1_000
    assert plain < info.bytes < plain + 200
