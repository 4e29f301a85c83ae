"""Ownership and time: nobody's later changes reach the store, and clocks decide no order."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite import test_tool_results
from conformance_tests.suite.notes import listed, note, write
from conformance_tests.suite.steps import (
    SPOKEN,
    StoppedClock,
    fork,
    header,
    ids,
    load,
    read_messages,
    start_run,
    walk,
)
from conformance_tests.suite.test_tool_results import kept, put, text_result
from stores_core import Event, MemoryItem, Message, ToolCall, ToolResult


def _tree() -> dict[str, Any]:
    return {"list": [1, {"a": []}], "object": {"b": 1}}


def _spoil(value: Any) -> None:
    """Change everything that can be changed in a value, at every depth."""
    if isinstance(value, dict):
        for inner in list(value.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any JSON
            _spoil(inner)
        value["spoilt"] = True
    elif isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType] - any JSON
            _spoil(inner)
        value.append("spoilt")  # pyright: ignore[reportUnknownMemberType] - any JSON


def _message() -> Message:
    call = ToolCall(id="c", name="n", args=_tree())
    fields: dict[str, Any] = {"further": _tree()}
    return Message(role="user", text="x", tool_calls=[call], timestamp=SPOKEN, **fields)


def _event() -> Event:
    fields: dict[str, Any] = {"further": _tree()}
    return Event(kind="x", tool_result=ToolResult(structured_content=_tree()), **fields)


def _spoil_entries(messages: Sequence[Message], events: Sequence[Event]) -> None:
    for message in messages:
        _spoil(message.model_extra)
        for call in message.tool_calls or ():
            _spoil(call.args)
    for event in events:
        _spoil(event.model_extra)
        if event.tool_result is not None:
            _spoil(event.tool_result.structured_content)


@proves("ALL-5", needs=("runs",), look_at="a store that keeps the objects which it was given")
async def test_what_a_caller_appended_may_be_changed_afterwards(lab: Lab) -> None:
    messages, events, labels = [_message()], [_event()], {"a": "1"}
    run_id = await start_run(lab, messages, events, labels)
    _spoil_entries(messages, events)
    messages.append(_message())
    events.clear()
    labels["b"] = "2"
    run = await load(lab.reader, run_id)
    assert_same(list(run.messages), [_message()], "the messages")
    assert_same(list(run.events), [_event()], "the events")
    assert run.labels == {"a": "1"}
    changes: dict[str, str | None] = {"c": "3"}
    await lab.backend.runs.update_run(run_id=run_id, labels=changes)
    changes["c"] = "4"
    assert (await header(lab.reader, run_id)).labels == {"a": "1", "c": "3"}


@proves("ALL-5", needs=("runs",), look_at="a store that hands out the objects which it keeps")
async def test_what_a_run_store_returned_may_be_changed(lab: Lab) -> None:
    run_id = await start_run(lab, [_message()], [_event()], {"a": "1"})
    child = await fork(lab, run_id)
    for client in (lab.backend, lab.reader):
        for id in (run_id, child):
            run = await load(client, id)
            _spoil_entries(run.messages, run.events)
            _spoil(run.labels)
            read = await client.runs.read_messages(run_id=id)
            done = await client.runs.read_events(run_id=id)
            _spoil_entries(read.entries, done.entries)
            _spoil((await header(client, id)).labels)
    page = await lab.backend.runs.list_runs(labels={"a": "1"}, limit=1_000)
    for info in page.runs:
        _spoil(info.labels)
    for id in (run_id, child):
        run = await load(lab.backend, id)
        assert_same(list(run.messages), [_message()], "the messages")
        assert_same(list(run.events), [_event()], "the events")
        assert (await header(lab.backend, id)).labels == {"a": "1"}
        assert_same(await read_messages(lab.backend, id), [_message()], "the messages, read")


@proves("ALL-5", needs=("memory",), look_at="metadata that store and caller share")
async def test_notes_belong_to_whoever_holds_them(lab: Lab) -> None:
    space, metadata = lab.new_id("notes"), _tree() | {"plain": 1}
    wanted = _tree() | {"plain": 1}
    item = MemoryItem(key="k", value="needle", metadata=metadata)
    batch = [MemoryItem(key="k2", value="needle", metadata=metadata)]
    await lab.backend.memory.put_memory(item=item, namespace=space)
    await lab.backend.memory.put_memories(items=batch, namespace=space)
    _spoil(metadata)
    _spoil(item.metadata)
    batch.clear()
    for query in ("", "needle"):
        answer = await lab.backend.memory.list_memories(namespace=space, query=query)
        assert len(answer.items) == 2
        for scored in answer.items:
            assert_same(scored.item.metadata, wanted, "the metadata in a listing")
            _spoil(scored.item.metadata)
    for key in ("k", "k2"):
        for client in (lab.backend, lab.reader, lab.backend):
            got = await note(client, space, key)
            assert_same(got.metadata, wanted, "the metadata")
            _spoil(got.metadata)
    assert await listed(lab.reader, space, where={"plain": 1}) == ["k", "k2"]


@proves("ALL-5", needs=("tool_results",), look_at="results that store and caller share")
async def test_tool_results_belong_to_whoever_holds_them(lab: Lab) -> None:
    ref, labels = lab.new_id("ref"), {"of": lab.new_id("label")}
    wanted_labels = dict(labels)

    def fresh() -> ToolResult:
        fields: dict[str, Any] = {"further": _tree()}
        return ToolResult(
            content=[{"type": "text", "text": "x"}, _tree()],
            structured_content=_tree(),
            meta=_tree(),
            **fields,
        )

    def spoil(result: ToolResult) -> None:
        for part in (*(result.content or ()), result.structured_content, result.meta):
            _spoil(part)
        _spoil(result.model_extra)

    given = fresh()
    await put(lab.backend, ref, given, labels)
    spoil(given)
    labels["b"] = "2"
    for client in (lab.backend, lab.reader, lab.backend):
        result = await kept(client, ref)
        assert_same(result, fresh(), "the result")
        spoil(result)
    for _ in range(2):
        (info,) = await test_tool_results.walk(lab.backend, 5, wanted_labels)
        assert info.labels == wanted_labels
        _spoil(info.labels)


@proves("ALL-5", "RUN-A3", needs=("runs",), look_at="stamping the caller's own message")
async def test_a_message_that_is_stamped_stays_as_the_caller_made_it(lab: Lab) -> None:
    message = Message(role="user", text="x")
    run_id = await start_run(lab, [message])
    assert message.timestamp is None
    assert "timestamp" not in message.model_fields_set
    assert (await load(lab.reader, run_id)).messages[0].timestamp is not None


@proves(
    "ALL-4", needs=("runs", "memory", "tool_results"), look_at="times that lose zone or precision"
)
async def test_every_time_that_a_store_gives_is_aware_and_in_utc(lab: Lab) -> None:
    before = datetime.now(UTC)
    run_id = await start_run(lab, [Message(role="user", text="x")], labels={"of": "x"})
    space, label = lab.new_id("notes"), {"of": lab.new_id("label")}
    await write(lab.backend, space, "k")
    await put(lab.backend, lab.new_id("ref"), text_result("x"), label)
    info, stored = await header(lab.reader, run_id), await note(lab.reader, space, "k")
    stamped = (await load(lab.reader, run_id)).messages[0].timestamp
    (result,) = await test_tool_results.walk(lab.reader, 5, label)
    after = datetime.now(UTC)
    times = [info.created_at, info.updated_at, stored.created_at, stored.updated_at]
    for moment in (*times, result.created_at, stamped):
        assert moment is not None
        assert moment.utcoffset() == timedelta(0)
        assert before <= moment <= after


@proves(
    "ALL-4",
    needs=("runs", "memory", "tool_results", "tenant", "clock"),
    look_at="a time that is not taken from the clock of the client",
)
async def test_every_time_comes_from_the_one_clock_to_the_microsecond(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock)
    begun = clock.now
    await client.runs.create_run(run_id="r")
    await write(client, "s", "k")
    await put(client, "f", text_result("x"))
    later = clock.move(3_600.000_001)
    await client.runs.append_messages(run_id="r", messages=[Message(role="user", text="x")])
    await client.runs.fork_run(run_id="r", new_run_id="child")
    await write(client, "s", "k", "again")
    run, stored = await load(client, "r"), await note(client, "s", "k")
    assert (run.created_at, run.updated_at) == (begun, later)
    assert run.messages[0].timestamp == later
    assert (await header(client, "child")).created_at == later
    assert (stored.created_at, stored.updated_at) == (begun, later)
    (result,) = await test_tool_results.walk(client, 5)
    assert result.created_at == begun
    await put(client, "f", text_result("y"))
    (result,) = await test_tool_results.walk(client, 5)
    assert result.created_at == later


@proves(
    "ALL-4",
    "RUN-A1",
    needs=("runs", "memory", "tenant", "clock"),
    look_at="an order of entries that comes from a clock",
)
async def test_a_clock_that_runs_backwards_moves_no_entry(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock)
    await client.runs.create_run(run_id="r")
    texts = [f"{n}" for n in range(30)]
    for n, text in enumerate(texts):
        clock.move((-1) ** n * 1_000 * (n + 1) if n % 3 else 0)
        answer = await client.runs.append_messages(
            run_id="r",
            messages=[Message(role="user", text=text)],
            events=[Event(kind="x", text=text)],
        )
        assert (answer.message_count, answer.event_count) == (n + 1, n + 1)
    run = await load(client, "r")
    assert [message.text for message in run.messages] == texts
    assert [event.text for event in run.events] == texts
    for position in (0, 1, 17, 29):
        page = await client.runs.read_events(run_id="r", start=position, limit=1)
        assert [event.text for event in page.entries] == [texts[position]]
    newest = await client.runs.load_run(run_id="r", last_messages=2)
    assert newest.run is not None
    assert [message.text for message in newest.run.messages] == texts[-2:]


@proves(
    "ALL-4",
    "RUN-Q1",
    needs=("runs", "tenant", "clock"),
    look_at="cursors and orders under a clock that jumps",
)
async def test_a_clock_that_jumps_loses_no_run_from_a_listing(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock)
    for n, seconds in enumerate((0, 0, -86_400, 0, 10 * 365 * 86_400, 0, -3_600)):
        clock.move(seconds)
        await client.runs.create_run(run_id=f"r{n}")
    order = ["r4", "r5", "r6", "r0", "r1", "r2", "r3"]
    for limit in (1, 2, 3, 7, 10):
        assert ids(await walk(client, limit)) == order
