"""What the front refuses, by name, before it reaches a store."""

from datetime import datetime
from typing import Any

import pytest

import stores_core
from stores_core import (
    AppendMessagesRequest,
    InvalidRequestError,
    MemoryItem,
    Message,
    ReadMessagesRequest,
    RecordTooLargeError,
    ToolResult,
)
from tests.recording_store import NOW, recording


class LabelledItem(MemoryItem):
    """A note with a field that a store would not keep."""

    label: str = "x"


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("runs", "get_run", {}, "run_id"),
    ("runs", "get_run", {"run_id": ""}, "run_id"),
    ("runs", "get_run", {"run_id": 7}, "run_id"),
    ("runs", "get_run", {"run_id": None}, "run_id"),
    ("runs", "get_run", {"run_id": b"x"}, "run_id"),
    ("runs", "get_run", {"run_id": "a\0b"}, "run_id"),
    ("runs", "get_run", {"run_id": "\ud800"}, "run_id"),
    ("runs", "get_run", {"run_id": "é" * 257}, "run_id"),
    ("runs", "get_run", {"run_id": "a", "run": "b"}, "run"),
    ("runs", "get_run", {"run_id": "a", "timeout": 0}, "timeout"),
    ("runs", "get_run", {"run_id": "a", "timeout": float("nan")}, "timeout"),
    ("runs", "create_run", {"labels": {"a": ""}}, "labels.a"),
    ("runs", "create_run", {"labels": {str(n): "x" for n in range(65)}}, "labels"),
    ("runs", "read_messages", {"run_id": "a", "limit": -1}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "limit": True}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "limit": 2.0}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "start": "1; DROP TABLE x"}, "start"),
    ("runs", "list_runs", {"cursor": "nope"}, "cursor"),
    ("runs", "list_runs", {"cursor": "A" * 100_000}, "cursor"),
    ("runs", "list_runs", {"updated_before": datetime(2026, 1, 1)}, "updated_before"),  # noqa: DTZ001 - naive
    ("runs", "append_messages", {"run_id": "a"}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": "text"}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": {"a"}}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": [{"text": "x"}]}, "messages[0].role"),
    (
        "runs",
        "append_messages",
        {"run_id": "a", "messages": [], "expected_count": -1},
        "expected_count",
    ),
    ("memory", "put_memory", {"item": {"key": "", "value": "v"}}, "item.key"),
    ("memory", "put_memory", {"item": {"key": "k", "value": "\udc00"}}, "item.value"),
    ("memory", "put_memory", {"item": {"key": "k", "value": 5}}, "item.value"),
    ("memory", "list_memories", {"where": {"a": {"$ne": 1}}}, "where"),
    ("memory", "list_memories", {"where": {"a": float("nan")}}, "where"),
    ("memory", "list_memories", {"query": "q", "cursor": "x"}, "cursor"),
    ("memory", "list_memories", {"query": "q" * 65_537}, "query"),
    ("memory", "clear_namespace", {}, "namespace"),
    ("memory", "clear_namespace", {"namespace": None}, "namespace"),
    ("tool_results", "search_tool_result", {"ref": "r", "pattern": ""}, "pattern"),
    ("tool_results", "put_tool_result", {"ref": "r", "result": "text"}, "result"),
]


@pytest.mark.parametrize(
    ("store", "name", "fields", "field"), REFUSED, ids=[f"{row[1]}-{row[3]}" for row in REFUSED]
)
async def test_an_invalid_request_is_refused_by_name_and_never_reaches_a_store(
    store: str, name: str, fields: dict[str, Any], field: str
) -> None:
    backend, recorded = recording()
    with pytest.raises(InvalidRequestError) as refused:
        await getattr(getattr(backend, store), name)(**fields)
    assert refused.value.field == field
    assert recorded.requests == []


def nested(levels: int) -> list[Any]:
    return [nested(levels - 1)] if levels > 1 else []


UNFIT: dict[str, tuple[Any, str]] = {
    "nan": ({"a": [float("nan")]}, ".a[0]"),
    "infinity": (float("-inf"), ""),
    "int-keys": ({1: "int", "1": "str"}, ""),
    "none-keys": ({"a": {None: 1}}, ".a"),
    "bytes": ([b"x"], "[0]"),
    "set": ({"s": {1}}, ".s"),
    "tuple": ((1, 2), ""),
    "aware-time": ({"t": NOW}, ".t"),
    "model": ({"m": Message(role="u")}, ".m"),
    "huge-int": ({"n": 10**4300}, ".n"),
    "surrogate": ({"s": ["ok \udb8d end"]}, ".s[0]"),
    "surrogate-key": ({"\ud800": 1}, "['a key']"),
    "too-deep": (nested(101), "[0]" * 100),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_what_json_cannot_give_back_is_refused_wherever_it_stands(name: str) -> None:
    value, where = UNFIT[name]
    places: list[tuple[str, str, dict[str, Any], str]] = [
        (
            "runs",
            "append_messages",
            {"messages": [Message.model_validate({"role": "u", "x": value})]},
            "messages[0].x",
        ),
        (
            "runs",
            "append_messages",
            {"messages": [{"role": "u", "tool_calls": [{"id": "1", "args": value}]}]},
            "messages[0].tool_calls[0].args",
        ),
        (
            "runs",
            "append_events",
            {"events": [{"kind": "k", "result": {"messages": [{"role": "u", "y": value}]}}]},
            "events[0].result.messages[0].y",
        ),
        (
            "runs",
            "append_events",
            {"events": [{"kind": "k", "tool_result": ToolResult(structured_content=value)}]},
            "events[0].tool_result.structured_content",
        ),
    ]
    backend, recorded = recording()
    for store, operation_name, fields, field in places:
        with pytest.raises(InvalidRequestError) as refused:
            await getattr(getattr(backend, store), operation_name)(run_id="a", **fields)
        assert refused.value.field == field + where
    for fields, field in (
        ({"result": {"content": [value]}}, "result.content[0]"),
        ({"result": {"meta": value}}, "result.meta"),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            await backend.tool_results.put_tool_result(**fields)  # type: ignore[arg-type]  # to be refused
        assert refused.value.field == field + where
    item = MemoryItem(key="k", value="v", metadata={"m": value})
    with pytest.raises(InvalidRequestError) as refused:
        await backend.memory.put_memories(items=[item])
    assert refused.value.field == "items[0].metadata.m" + where
    assert recorded.requests == []


async def test_a_request_that_was_changed_unchecked_is_checked_again() -> None:
    backend, recorded = recording()
    good = ReadMessagesRequest(run_id="a")
    for bad in (
        good.model_copy(update={"limit": -1}),
        ReadMessagesRequest.model_construct(run_id=5),
        AppendMessagesRequest(run_id="a", messages=[]),
        {"run_id": "a"},
    ):
        with pytest.raises(InvalidRequestError):
            await backend.runs.read_messages(bad)  # type: ignore[call-overload]  # to be refused
    message = Message(role="u").model_copy(update={"role": 5})
    with pytest.raises(InvalidRequestError, match=r"messages\[0\]\.role"):
        await backend.runs.append_messages(run_id="a", messages=[message])
    with pytest.raises(InvalidRequestError, match=r"messages\[0\]\.role"):
        await backend.runs.append_messages(run_id="a", messages=[Message.model_construct(text="x")])
    item = MemoryItem(key="k", value="v")
    for broken, field in (
        (item.model_copy(update={"key": 5}), r"items\[0\]\.key"),
        (MemoryItem.model_construct(key="k"), r"items\[0\]\.value"),
        (LabelledItem(key="k", value="v"), r"items\[0\]\.label"),
    ):
        with pytest.raises(InvalidRequestError, match=field):
            await backend.memory.put_memories(items=[broken])
    with pytest.raises(InvalidRequestError, match="request"):
        await backend.runs.read_messages(good, limit=3)  # type: ignore[call-overload]  # to be refused
    assert recorded.requests == []


async def test_limits_refuse_before_anything_is_sent_and_say_how_to_raise_them() -> None:
    backend, recorded = recording()
    backend.opened.limits = stores_core.Limits(
        max_entry_bytes=100, max_batch_entries=3, max_batch_bytes=200
    )
    long = Message(role="u", text="x" * 100)
    for fields, option in (
        ({"messages": [long]}, "max_entry_bytes"),
        ({"messages": [], "events": [{"kind": "k"}] * 4}, "max_batch_entries"),
        ({"messages": [Message(role="u", text="x" * 60)] * 3}, "max_batch_bytes"),
    ):
        with pytest.raises(RecordTooLargeError, match=option):
            await backend.runs.append_messages(run_id="a", **fields)  # type: ignore[arg-type]  # to be refused
    with pytest.raises(RecordTooLargeError, match="max_entry_bytes"):
        await backend.memory.put_memory(item=MemoryItem(key="k", value="x" * 100))
    with pytest.raises(RecordTooLargeError, match="max_entry_bytes"):
        await backend.tool_results.put_tool_result(result=ToolResult(content=["x" * 100]))
    assert recorded.requests == []
