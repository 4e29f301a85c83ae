"""Limits: the same everywhere, refused before anything is written, and pages that end in time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import name_of, unfit_limits
from conformance_tests.samples.sample import Sample
from conformance_tests.suite.notes import fill_many, is_missing, listed, write
from conformance_tests.suite.operations import bound, requests, unused, with_fields
from conformance_tests.suite.steps import header, start_run
from conformance_tests.suite.test_tool_results import put, text_result
from stores_core import (
    Event,
    InvalidRequestError,
    MemoryItem,
    Message,
    RecordTooLargeError,
    StoreError,
    ToolResult,
)

MIB = 1024 * 1024
STORES = ("runs", "memory", "tool_results")
COUNTS = ("limit", "start", "offset", "last_messages", "last_events", "expected_count")
WITH_COUNTS = with_fields(STORES, (*COUNTS, "expected_version"))


def say(text: str) -> Message:
    return Message(role="user", text=text)


@pytest.mark.parametrize("sample", unfit_limits, ids=name_of)
@pytest.mark.parametrize(("store", "name", "field"), WITH_COUNTS)
@proves("ALL-11", look_at="the type of this field in its request: a count from 0 on")
async def test_a_limit_that_is_no_count_is_refused(
    lab: Lab, store: str, name: str, field: str, sample: Sample
) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{store}`")
    fits = requests(store, name, unused(lab))[0]
    with pytest.raises(InvalidRequestError) as refused:
        await bound(lab.backend, store, name)(**{**fits, field: sample.value})
    assert refused.value.field == field


@proves(
    "ALL-11", "RUN-A4", needs=("runs",), look_at="the number of entries that one batch may have"
)
async def test_a_batch_of_1000_entries_is_taken_and_one_more_is_refused(lab: Lab) -> None:
    run_id = await start_run(lab)
    said, done = [say(f"{n}") for n in range(1_001)], [Event(kind="x")] * 1_001
    runs = lab.backend.runs
    for call in (
        lambda: runs.append_messages(run_id=run_id, messages=said),
        lambda: runs.append_messages(run_id=run_id, messages=[], events=done),
        lambda: runs.append_messages(run_id=run_id, messages=said[:600], events=done[:401]),
        lambda: runs.append_events(run_id=run_id, events=done),
    ):
        with pytest.raises(RecordTooLargeError) as refused:
            await call()
        assert "max_batch_entries" in str(refused.value)
        assert "1000" in str(refused.value)
        assert "1001" in str(refused.value)
    assert (await header(lab.reader, run_id)).message_count == 0
    await runs.append_messages(run_id=run_id, messages=said[:1_000])
    await runs.append_events(run_id=run_id, events=done[:1_000])
    info = await header(lab.reader, run_id)
    assert (info.message_count, info.event_count) == (1_000, 1_000)


@proves(
    "ALL-11",
    "MEM-8",
    needs=("memory",),
    thorough=True,
    look_at="the number of notes that one batch may have",
)
async def test_a_batch_of_1000_notes_is_taken_and_one_more_is_refused(lab: Lab) -> None:
    space = lab.new_id("notes")
    items = [MemoryItem(key=f"k{n:04}", value="") for n in range(1_001)]
    with pytest.raises(RecordTooLargeError) as refused:
        await lab.backend.memory.put_memories(items=items, namespace=space)
    assert refused.value.field == "items"
    assert await listed(lab.reader, space) == []
    await lab.backend.memory.put_memories(items=items[:1_000], namespace=space)
    assert len(await listed(lab.reader, space)) == 1_000


@proves(
    "ALL-11",
    needs=STORES,
    thorough=True,
    look_at="the size at which an entry, a note or a result is refused",
)
async def test_a_record_above_32_mib_is_refused_everywhere(lab: Lab) -> None:
    run_id, space, ref = await start_run(lab), lab.new_id("notes"), lab.new_id("ref")
    large = "x" * (32 * MIB + 1)
    runs = lab.backend.runs
    item = MemoryItem(key="k", value="", metadata={"large": large})
    for call in (
        lambda: runs.append_messages(run_id=run_id, messages=[say(large)]),
        lambda: runs.append_events(run_id=run_id, events=[Event(kind="x", text=large)]),
        lambda: lab.backend.memory.put_memory(item=item, namespace=space),
        lambda: lab.backend.tool_results.put_tool_result(ref=ref, result=text_result(large)),
    ):
        with pytest.raises(RecordTooLargeError) as refused:
            await call()
        assert "max_entry_bytes" in str(refused.value)
        assert isinstance(refused.value, InvalidRequestError)
    assert (await header(lab.reader, run_id)).message_count == 0
    assert await is_missing(lab.reader, space, "k")
    assert not (await lab.reader.tool_results.get_tool_result(ref=ref)).found


@proves(
    "ALL-11", needs=("runs",), thorough=True, look_at="the bytes of all entries of a batch together"
)
async def test_a_batch_above_32_mib_is_refused(lab: Lab) -> None:
    run_id = await start_run(lab)
    with pytest.raises(RecordTooLargeError) as refused:
        await lab.backend.runs.append_messages(run_id=run_id, messages=[say("x" * MIB)] * 33)
    assert "max_batch_bytes" in str(refused.value)
    assert (await header(lab.reader, run_id)).message_count == 0


@proves(
    "ALL-11",
    needs=(*STORES, "option:max_entry_bytes"),
    look_at="whether the limits of the opened backend are the ones that count",
)
async def test_limits_count_bytes_of_json_and_are_those_of_the_client(lab: Lab) -> None:
    client = await lab.open(max_entry_bytes=1_000, max_batch_bytes=1_500, max_batch_entries=3)
    run_id = await start_run(lab, client=client)
    runs, space, ref = client.runs, lab.new_id("notes"), lab.new_id("ref")
    await runs.append_messages(run_id=run_id, messages=[say("é" * 400)])
    for text in ("é" * 500, "\n" * 500, "x" * 1_000):
        with pytest.raises(RecordTooLargeError) as refused:
            await runs.append_messages(run_id=run_id, messages=[say("fits"), say(text)])
        assert refused.value.field == "messages[1]"
    for batch in ([say("x" * 800)] * 2, [say("x")] * 4):
        with pytest.raises(RecordTooLargeError):
            await runs.append_messages(run_id=run_id, messages=batch)
    with pytest.raises(RecordTooLargeError):
        await write(client, space, "k", "x" * 900, {"a": "x" * 200})
    with pytest.raises(RecordTooLargeError):
        await client.memory.put_memories(
            items=[MemoryItem(key=key, value="x" * 800) for key in "ab"], namespace=space
        )
    with pytest.raises(RecordTooLargeError):
        await client.tool_results.put_tool_result(
            ref=ref, result=ToolResult(structured_content={"a": ["x" * 1_000]})
        )
    assert (await header(client, run_id)).message_count == 1
    assert await listed(client, space) == []


@proves(
    "ALL-11",
    needs=("runs", "option:max_batch_entries"),
    look_at="whether an option raises a limit, and where raising ends",
)
async def test_options_raise_the_limits_up_to_a_ceiling(lab: Lab) -> None:
    client = await lab.open(max_batch_entries=2_500)
    run_id = await start_run(lab, client=client)
    said = [say(f"{n}") for n in range(2_500)]
    answer = await client.runs.append_messages(run_id=run_id, messages=said)
    assert answer.message_count == 2_500
    page = await client.runs.read_messages(run_id=run_id, start=1_500, limit=2_500)
    assert [message.text for message in page.entries] == [f"{n}" for n in range(1_500, 2_500)]
    beyond: list[dict[str, Any]] = [
        {"max_batch_entries": 10_001},
        {"max_entry_bytes": 64 * MIB + 1},
        {"max_batch_bytes": 128 * MIB + 1},
        {"max_batch_entries": 0},
        {"max_batch_entries": -1},
        {"max_batch_entries": True},
        {"max_batch_entries": 10.0},
    ]
    for options in beyond:
        with pytest.raises(InvalidRequestError) as refused:
            await lab.open(**options)
        assert refused.value.field in options


@proves("ALL-11", "SUB-1", needs=("memory", "tool_results"), look_at="the size of a query in bytes")
async def test_a_query_of_64_kib_is_taken_and_a_byte_more_is_refused(lab: Lab) -> None:
    space, ref = lab.new_id("notes"), lab.new_id("ref")
    fits = "é" * 32_768
    await write(lab.backend, space, "k", f"x{fits}x")
    await put(lab.backend, ref, text_result(f"x{fits}x"))
    assert await listed(lab.reader, space, query=fits.upper()) == ["k"]
    search = lab.reader.tool_results.search_tool_result
    assert len((await search(ref=ref, pattern=fits)).matches) == 1
    with pytest.raises(RecordTooLargeError) as refused:
        await listed(lab.reader, space, query=fits + "x")
    assert refused.value.field == "query"
    with pytest.raises(RecordTooLargeError) as refused:
        await search(ref=ref, pattern=fits + "x")
    assert refused.value.field == "pattern"


@proves(
    "ALL-11", "RUN-L3", needs=("runs",), thorough=True, look_at="the most entries that one page has"
)
async def test_a_page_of_entries_has_100_by_default_and_1000_at_most(lab: Lab) -> None:
    said, done = [say(f"{n}") for n in range(1_000)], [Event(kind="x")] * 1_000
    run_id = await start_run(lab)
    for _ in range(2):
        await lab.backend.runs.append_messages(run_id=run_id, messages=said)
        await lab.backend.runs.append_events(run_id=run_id, events=done)
    for read in (lab.reader.runs.read_messages, lab.reader.runs.read_events):
        for limit, expected in ((0, 100), (1, 1), (999, 999), (1_000, 1_000), (5_000, 1_000)):
            page = await read(run_id=run_id, limit=limit)
            assert (len(page.entries), page.next, page.count) == (expected, expected, 2_000)


@proves("ALL-11", needs=STORES, look_at="the page that a listing gives by default")
async def test_a_listing_gives_50_by_default(lab: Lab) -> None:
    scope = lab.new_id("scope")
    for n in range(51):
        await lab.backend.runs.create_run(run_id=f"{scope}{n}", labels={"of": scope})
        await put(lab.backend, f"{scope}{n}", text_result("x"), {"of": scope})
        await write(lab.backend, f"{scope}{n}", "k")
    runs = await lab.reader.runs.list_runs(labels={"of": scope})
    results = await lab.reader.tool_results.list_tool_results(labels={"of": scope})
    spaces = await lab.reader.memory.list_namespaces(prefix=scope)
    assert [len(runs.runs), len(results.infos), len(spaces.namespaces)] == [50, 50, 50]
    assert all((runs.next_cursor, results.next_cursor, spaces.next_cursor))


@proves(
    "ALL-11",
    "RUN-L3",
    needs=("runs",),
    thorough=True,
    look_at="where a page ends when its entries are large",
)
async def test_a_page_ends_at_16_mib_and_never_before_one_entry(lab: Lab) -> None:
    run_id = await start_run(lab)
    large, huge = "x" * (6 * MIB), "x" * (17 * MIB)
    for text in (large, large, large, huge, "end"):
        await lab.backend.runs.append_messages(run_id=run_id, messages=[say(text)])
        await lab.backend.runs.append_events(run_id=run_id, events=[Event(kind="x", text=text)])
    for read in (lab.reader.runs.read_messages, lab.reader.runs.read_events):
        start, taken = 0, list[int]()
        while start < 5:
            page = await read(run_id=run_id, start=start, limit=10)
            assert page.next == start + len(page.entries) > start
            taken.append(len(page.entries))
            start = page.next
        assert taken == [2, 1, 1, 1]
    await lab.backend.runs.delete_run(run_id=run_id)


LARGE_NOTES = [
    Sample("a letter is a byte", ("x" * (6 * MIB), "")),
    Sample("a letter is two bytes", ("é" * (3 * MIB), "")),
    Sample("metadata counts", ("", "x" * (6 * MIB))),
]


async def _page_lengths(page_at: Callable[[str], Awaitable[tuple[int, str]]]) -> list[int]:
    """The lengths of up to four pages, of which each gives its own and the next cursor."""
    cursor, lengths = "", list[int]()
    for _ in range(4):
        length, cursor = await page_at(cursor)
        lengths.append(length)
        if not cursor:
            break
    return lengths


@pytest.mark.parametrize("sample", LARGE_NOTES, ids=name_of)
@proves(
    "ALL-11",
    "MEM-3",
    needs=("memory",),
    thorough=True,
    look_at="where a page of notes ends when they are large",
)
async def test_a_page_of_notes_ends_at_16_mib_and_the_rest_follows(
    lab: Lab, sample: Sample
) -> None:
    space = lab.new_id("notes")
    value, more = sample.value
    for n in range(4):
        await write(lab.backend, space, f"k{n}", value, {"more": more})

    async def page_at(cursor: str) -> tuple[int, str]:
        page = await lab.reader.memory.list_memories(namespace=space, limit=4, cursor=cursor)
        return len(page.items), page.next_cursor

    assert await _page_lengths(page_at) == [2, 2]
    await lab.backend.memory.clear_namespace(namespace=space)


@pytest.mark.parametrize("sample", LARGE_NOTES, ids=name_of)
@proves(
    "ALL-11",
    needs=("memory", "moving", "tenant"),
    thorough=True,
    look_at="where a page of an export ends when its notes are large",
)
async def test_an_export_of_notes_ends_a_page_at_16_mib_and_the_rest_follows(
    lab: Lab, sample: Sample
) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    value, more = sample.value
    for n in range(4):
        await write(client, "space", f"k{n}", value, {"more": more})

    async def page_at(cursor: str) -> tuple[int, str]:
        page = await client.moving.export_memories(limit=4, cursor=cursor)
        return len(page.memories), page.next_cursor

    assert await _page_lengths(page_at) == [2, 2]
    await client.memory.clear_namespace(namespace="space")


@proves("ALL-11", "RUN-L1", needs=("runs",), look_at="a load that would not fit into memory")
async def test_a_load_above_256_mib_is_refused_and_names_read_messages(lab: Lab) -> None:
    if lab.quick:
        lab.not_applicable("the quick profile leaves out a run of 260 MiB")
    run_id = await start_run(lab)
    try:
        for _ in range(9):
            await lab.backend.runs.append_messages(run_id=run_id, messages=[say("x" * 30 * MIB)])
        with pytest.raises(StoreError) as refused:
            await lab.reader.runs.load_run(run_id=run_id)
        assert isinstance(refused.value, RecordTooLargeError)
        assert "read_messages" in str(refused.value)
        tail = await lab.reader.runs.load_run(run_id=run_id, last_messages=1)
        assert tail.run is not None
        assert tail.run.message_count == 9
    finally:
        await lab.backend.runs.delete_run(run_id=run_id)


@proves("ALL-11", "MEM-4", needs=("memory",), look_at="the most notes that a page has")
async def test_a_page_of_notes_has_1000_at_most(lab: Lab) -> None:
    space = lab.new_id("notes")
    items = [MemoryItem(key=f"k{n:04}", value="") for n in range(1_200)]
    await fill_many(lab.backend, space, items)
    page = await lab.reader.memory.list_memories(namespace=space, limit=1_100)
    assert len(page.items) == 1_000
    rest = await lab.reader.memory.list_memories(
        namespace=space, limit=1_100, cursor=page.next_cursor
    )
    assert (len(rest.items), rest.next_cursor) == (200, "")
