"""Fidelity and refusal: what is accepted comes back equal, and the rest is never half written."""

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import (
    Sample,
    events,
    json_values,
    messages,
    metadata,
    naive_or_odd_times,
    name_of,
    numbers,
    texts,
    unfit_values,
)
from conformance_tests.suite.notes import is_missing, listed, note, write
from conformance_tests.suite.steps import SPOKEN, assert_holds, header, load, start_run
from stores_core import Event, InvalidRequestError, MemoryItem, Message, ToolCall, ToolResult


def said(text: str | None = "", **further: Any) -> Message:
    return Message(role="user", text=text, timestamp=SPOKEN, **further)


def done(kind: str = "x", **further: Any) -> Event:
    return Event(kind=kind, **further)


def made(**fields: Any) -> ToolResult:
    return ToolResult(**fields)


def args_of(message: Message) -> Any:
    """The arguments of a message's first call."""
    return next(iter(message.tool_calls or ())).args


@pytest.mark.parametrize("sample", messages, ids=name_of)
@proves("ALL-1", needs=("runs",), look_at="how a message is encoded and decoded")
async def test_a_message_comes_back_equal(lab: Lab, sample: Sample) -> None:
    run_id = await start_run(lab, [said("before"), sample.value, said("behind")])
    await assert_holds(lab.reader, run_id, [said("before"), sample.value, said("behind")])


@pytest.mark.parametrize("sample", events, ids=name_of)
@proves("ALL-1", needs=("runs",), look_at="how an event is encoded and decoded")
async def test_an_event_comes_back_equal(lab: Lab, sample: Sample) -> None:
    run_id = await start_run(lab, [], [Event(kind="x"), sample.value])
    await lab.backend.runs.append_events(run_id=run_id, events=[sample.value])
    await assert_holds(lab.reader, run_id, [], [Event(kind="x"), sample.value, sample.value])


@proves("ALL-1", "RUN-A1", needs=("runs",), look_at="what divides the entries of one batch")
async def test_entries_of_every_kind_in_one_batch_come_back_equal_and_apart(lab: Lab) -> None:
    said_all = [sample.value for sample in messages] + [said(sample.value) for sample in texts]
    done_all = [sample.value for sample in events]
    done_all += [Event(kind=sample.value, text=sample.value) for sample in texts]
    run_id = await start_run(lab, said_all, done_all)
    await assert_holds(lab.reader, run_id, said_all, done_all, page=5)


@pytest.mark.parametrize("sample", texts, ids=name_of)
@proves("ALL-1", needs=("runs",), look_at="the columns, frames and escapes that text goes through")
async def test_text_comes_back_equal_in_runs(lab: Lab, sample: Sample) -> None:
    text = sample.value
    message = said(text, tool_calls=[ToolCall(id=text, name=text, args=text)], further=text)
    event = done(text, text=text, error=text, reason=text, further={text: [text]})
    run_id = await start_run(lab, [message], [event])
    await assert_holds(lab.reader, run_id, [message], [event])


@pytest.mark.parametrize("sample", texts, ids=name_of)
@proves(
    "ALL-1", needs=("memory",), look_at="the columns, frames and escapes that text goes through"
)
async def test_text_comes_back_equal_in_notes(lab: Lab, sample: Sample) -> None:
    space, text = lab.new_id("notes"), sample.value
    await write(lab.backend, space, "k", text, {text: text, "in": [text, {"a": text}]})
    kept = await note(lab.reader, space, "k")
    assert_same(kept.value, text, "the value")
    assert_same(kept.metadata, {text: text, "in": [text, {"a": text}]}, "the metadata")
    (scored,) = (await lab.reader.memory.list_memories(namespace=space)).items
    assert_same(scored.item, kept, "the note in the listing")


@pytest.mark.parametrize("sample", texts, ids=name_of)
@proves(
    "ALL-1", "TOOL-1", needs=("tool_results",), look_at="how text and rest of a result are kept"
)
async def test_text_comes_back_equal_in_tool_results(lab: Lab, sample: Sample) -> None:
    text, ref = sample.value, lab.new_id("ref")
    content = [{"type": "text", "text": text}, text, {text: text}, {"type": "text", "text": text}]
    result = made(content=content, structured_content={text: text}, further=text)
    await lab.backend.tool_results.put_tool_result(ref=ref, result=result)
    got = await lab.reader.tool_results.get_tool_result(ref=ref)
    assert_same(got.result, result, "the result")
    await lab.backend.tool_results.put_tool_result(
        ref=ref, result=ToolResult(structured_content=text)
    )
    got = await lab.reader.tool_results.get_tool_result(ref=ref)
    assert_same(got.result, ToolResult(structured_content=text), "text as structured content")


@pytest.mark.parametrize("sample", json_values, ids=name_of)
@proves("ALL-1", needs=("runs",), look_at="how JSON values inside an entry are encoded")
async def test_a_json_value_comes_back_equal_in_runs(lab: Lab, sample: Sample) -> None:
    value = sample.value
    call = ToolCall(id="c", name="n", args=value)
    message = said("x", tool_calls=[call], further=value)
    event = done(tool_call=call, further=value)
    run_id = await start_run(lab, [message], [event])
    run = await load(lab.reader, run_id)
    assert_same(list(run.messages), [message], "the message")
    assert_same(list(run.events), [event], "the event")
    assert json.dumps(args_of(run.messages[0])) == json.dumps(value), (
        "prompt caches depend on the very text"
    )


@pytest.mark.parametrize("sample", json_values, ids=name_of)
@proves("ALL-1", "TOOL-1", needs=("tool_results",), look_at="JSON values inside a result")
async def test_a_json_value_comes_back_equal_in_tool_results(lab: Lab, sample: Sample) -> None:
    value, ref = sample.value, lab.new_id("ref")
    for result in (
        ToolResult(structured_content=value),
        made(content=[value, value], meta=value, further=value),
    ):
        await lab.backend.tool_results.put_tool_result(ref=ref, result=result)
        got = await lab.reader.tool_results.get_tool_result(ref=ref)
        assert_same(got.result, result, "the result")


@pytest.mark.parametrize("sample", metadata, ids=name_of)
@proves("ALL-1", needs=("memory",), look_at="how the metadata of notes is encoded")
async def test_metadata_comes_back_equal(lab: Lab, sample: Sample) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k", "v", sample.value)
    assert_same((await note(lab.reader, space, "k")).metadata, sample.value, "the metadata")
    (scored,) = (await lab.reader.memory.list_memories(namespace=space, query="v")).items
    assert_same(scored.item.metadata, sample.value, "the metadata in recall")


@pytest.mark.parametrize("sample", numbers, ids=name_of)
@proves("ALL-1", needs=("runs", "memory"), look_at="a parser that makes one kind of number of all")
async def test_a_number_keeps_its_type_and_every_bit(lab: Lab, sample: Sample) -> None:
    value, space = sample.value, lab.new_id("notes")
    run_id = await start_run(lab, [said("x", tool_calls=[ToolCall(args={"n": value})])])
    await write(lab.backend, space, "k", "v", {"n": value})
    args = args_of((await load(lab.reader, run_id)).messages[0])
    for back in (args["n"], (await note(lab.reader, space, "k")).metadata["n"]):
        # Said without assert_same, so that one fault in comparing cannot hide another.
        assert type(back) is type(value)
        assert (back == value) is True
        assert type(value) is int or math.copysign(1, back) == math.copysign(1, value)


@proves("ALL-1", needs=("runs",), look_at="fields that were not given, and those given as empty")
async def test_what_was_given_is_told_from_what_was_not(lab: Lab) -> None:
    bare = Message(role="user", timestamp=SPOKEN)
    nulls = said(None, tool_calls=None, tool_call_id=None, further=None)
    empties = said("", tool_calls=[], tool_call_id="", further="", other={}, more=[])
    run_id = await start_run(
        lab, [bare, nulls, empties], [Event(kind="x"), Event(kind="x", step=0)]
    )
    run = await load(lab.reader, run_id)
    given = [message.model_fields_set for message in run.messages]
    assert given[0] == {"role", "timestamp"}
    assert given[1] == nulls.model_fields_set
    assert given[2] == empties.model_fields_set
    assert run.messages[1].text is None
    assert run.messages[1].model_extra == {"further": None}
    assert "step" not in run.events[0].model_fields_set
    assert run.events[1].step == 0


SPELLINGS: list[Sample] = [
    Sample("toolCallId beside tool_call_id", {"tool_call_id": "a", "toolCallId": "b"}),
    Sample("toolCallId alone", {"toolCallId": "b"}),
    Sample("toolCallId as null", {"tool_call_id": None, "toolCallId": None}),
    Sample("toolCalls as another type", {"tool_calls": [{"id": "x"}], "toolCalls": 7}),
    Sample("inside a call", {"tool_calls": [{"id": "x", "toolCallId": 1, "tool_calls": 2}]}),
    Sample("inside further fields", {"further": {"toolCallId": 1, "tool_call_id": 2}}),
    Sample("names of a tool result", {"isError": True, "_meta": 1, "meta": 2}),
]


@pytest.mark.parametrize("sample", SPELLINGS, ids=name_of)
@proves(
    "ALL-1", needs=("runs",), look_at="further fields named as a known one in the other spelling"
)
async def test_a_field_in_the_other_spelling_is_kept_apart(lab: Lab, sample: Sample) -> None:
    fields: dict[str, Any] = {"role": "user", "timestamp": SPOKEN, **sample.value}
    message = Message.model_validate(fields)
    event = Event.model_validate({"kind": "x", "toolCall": 1, "result": {"finishReason": 2}})
    run_id = await start_run(lab, [message], [event])
    await assert_holds(lab.reader, run_id, [message], [event])
    back = (await load(lab.reader, run_id)).messages[0]
    assert back.model_extra == message.model_extra
    assert back.tool_call_id == message.tool_call_id


@pytest.mark.parametrize("sample", unfit_values, ids=name_of)
@proves(
    "ALL-2", "RUN-A4", needs=("runs",), look_at="the check that precedes every write of entries"
)
async def test_an_unfit_value_is_refused_in_runs_and_nothing_is_written(
    lab: Lab, sample: Sample
) -> None:
    run_id = await start_run(lab, [said("kept")], [Event(kind="kept")])
    unfit = sample.value
    places: list[tuple[dict[str, Any], str]] = [
        ({"role": "user", "further": unfit}, "further"),
        ({"role": "user", "tool_calls": [{"id": "c", "args": {"in": unfit}}]}, "args"),
        ({"role": "user", "tool_calls": [{"id": "c", "further": [unfit]}]}, "further"),
    ]
    for message, field in places:
        batch: Any = [{"role": "user", "text": "fits"}, message]
        with pytest.raises(InvalidRequestError) as refused:
            await lab.backend.runs.append_messages(
                run_id=run_id, messages=batch, events=[Event(kind="fits")]
            )
        assert refused.value.field.startswith("messages[1]")
        assert field in refused.value.field
    events_batch: Any = [{"kind": "fits"}, {"kind": "x", "signal": {"data": unfit}}]
    with pytest.raises(InvalidRequestError) as refused:
        await lab.backend.runs.append_events(run_id=run_id, events=events_batch)
    assert refused.value.field.startswith("events[1]")
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_messages(
            run_id=run_id, messages=[said("fits")], events=events_batch
        )
    info = await header(lab.reader, run_id)
    assert (info.message_count, info.event_count) == (1, 1)


@pytest.mark.parametrize("sample", unfit_values, ids=name_of)
@proves("ALL-2", needs=("memory",), look_at="the check of metadata before a note is written")
async def test_an_unfit_value_is_refused_in_notes_and_nothing_is_written(
    lab: Lab, sample: Sample
) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "known", "old", {"a": 1})
    for key in ("known", "new"):
        item = MemoryItem.model_construct(key=key, value="v", metadata={"in": {"a": sample.value}})
        with pytest.raises(InvalidRequestError) as refused:
            await lab.backend.memory.put_memory(item=item, namespace=space)
        assert refused.value.field.startswith("item.metadata")
    assert await is_missing(lab.reader, space, "new")
    assert_same((await note(lab.reader, space, "known")).metadata, {"a": 1}, "metadata")


@pytest.mark.parametrize("sample", unfit_values, ids=name_of)
@proves("ALL-2", needs=("tool_results",), look_at="the check of a result before it is written")
async def test_an_unfit_value_is_refused_in_tool_results_and_nothing_is_written(
    lab: Lab, sample: Sample
) -> None:
    ref, old = lab.new_id("ref"), ToolResult(content=["old"])
    await lab.backend.tool_results.put_tool_result(ref=ref, result=old)
    bad: list[tuple[str, dict[str, Any]]] = [
        ("content", {"content": [1, {"in": sample.value}]}),
        ("structured_content", {"structured_content": [sample.value]}),
        ("meta", {"meta": {"in": sample.value}}),
        ("further", {"further": sample.value}),
    ]
    for field, fields in bad:
        given: Any = fields
        with pytest.raises(InvalidRequestError) as refused:
            await lab.backend.tool_results.put_tool_result(ref=ref, result=given)
        assert refused.value.field.startswith("result.")
        assert field in refused.value.field
    got = await lab.reader.tool_results.get_tool_result(ref=ref)
    assert_same(got.result, old, "the result after refused puts")


@pytest.mark.parametrize("sample", naive_or_odd_times, ids=name_of)
@proves("ALL-2", "ALL-4", needs=("runs", "memory"), look_at="the check of times that callers give")
async def test_a_time_that_is_no_aware_moment_is_refused(lab: Lab, sample: Sample) -> None:
    run_id, space = await start_run(lab), lab.new_id("notes")
    batch: Any = [{"role": "user", "timestamp": sample.value}]
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.append_messages(run_id=run_id, messages=batch)
    item: Any = {"key": "k", "value": "v", "created_at": sample.value}
    with pytest.raises(InvalidRequestError):
        await lab.backend.memory.put_memory(item=item, namespace=space)
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.list_runs(updated_before=sample.value)
    assert (await header(lab.reader, run_id)).message_count == 0
    assert await listed(lab.reader, space) == []


@proves("ALL-2", needs=("runs", "memory"), look_at="a refusal that quotes what it refused")
async def test_a_refusal_names_the_place_and_never_shows_the_content(lab: Lab) -> None:
    run_id = await start_run(lab)
    private = "what a user said"
    batch: Any = [{"role": "user", "further": {"rows": [{}, {"age": {private}}]}}]
    item: Any = {"key": "k", "value": private + "\ud800"}
    for call in (
        lambda: lab.backend.runs.append_messages(run_id=run_id, messages=batch),
        lambda: lab.backend.memory.put_memory(item=item, namespace=run_id),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            await call()
        assert private not in str(refused.value) + repr(refused.value)
    with pytest.raises(InvalidRequestError) as refused:
        await lab.backend.runs.append_messages(run_id=run_id, messages=batch)
    assert refused.value.field == "messages[0].further.rows[1].age"


@proves("ALL-4", "ALL-1", needs=("runs", "memory"), look_at="times with another zone than UTC")
async def test_a_given_time_comes_back_as_the_same_instant_in_utc(lab: Lab) -> None:
    moment = datetime(2024, 3, 31, 2, 30, 0, 7, tzinfo=timezone(timedelta(hours=-7, minutes=-30)))
    run_id = await start_run(lab, [Message(role="user", timestamp=moment)])
    space = lab.new_id("notes")
    await lab.backend.memory.put_memory(
        item=MemoryItem(key="k", value="", created_at=moment), namespace=space
    )
    stored = (await load(lab.reader, run_id)).messages[0].timestamp
    for back in (stored, (await note(lab.reader, space, "k")).created_at):
        assert back == moment
        assert back is not None
        assert back.utcoffset() == timedelta(0)
        assert back.microsecond == 7
