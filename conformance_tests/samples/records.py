"""Messages, events, tool results and metadata that come back equal, and times to refuse."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from conformance_tests.samples.json_values import json_values, nested
from conformance_tests.samples.sample import Sample
from stores_core.entries import Event, Message
from stores_core.tool_results import ToolResult
from stores_core.values import MAX_DEPTH

_OURS: dict[str, Any] = {"_encoded": 1, "self": 2, "cls": 3, "model_extra": 4, "__dict__": 5}
"""Further fields that bear the names of what code like ours uses inside."""

_MOMENT = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC)


def _message(name: str, /, **fields: Any) -> Sample:
    return Sample(name, Message.model_validate({"timestamp": _MOMENT, **fields}))


def _event(name: str, /, **fields: Any) -> Sample:
    return Sample(name, Event.model_validate(fields))


def _result(name: str, /, **fields: Any) -> Sample:
    return Sample(name, ToolResult.model_validate(fields))


_CALLS: list[dict[str, Any]] = [
    {"id": "call-1", "name": "search", "args": {"zeta": 1, "a": [1, 1.0, None]}},
    {"id": "call-1", "name": "search", "args": "the same id again, and text for args"},
    {"args": None},
    {},
    {"id": None, "name": None, "args": [], "index": 0, "providerData": {"x": 1}},
]
_OTHER_SPELLING = {
    "toolCallId": "a further field",
    "toolCalls": [{"toolCallId": 1}],
    "createdAt": "x",
}

messages = [
    _message("only-a-role", role="user"),
    _message("user", role="user", text="hi"),
    _message("a-role-of-its-own", role="developer/критик", text="?"),
    _message("empty-role", role="", text="x"),
    _message("assistant-with-calls", role="assistant", text="", tool_calls=_CALLS),
    _message("tool-answer", role="tool", tool_call_id="call-1", text='{"a":1}'),
    _message("given-nulls", role="user", text=None, tool_calls=None, tool_call_id=None),
    _message("given-empties", role="user", text="", tool_calls=[], tool_call_id=""),
    _message("first-moment", role="user", timestamp=datetime(1, 1, 1, tzinfo=UTC)),
    _message("last-moment", role="user", timestamp=datetime.max.replace(tzinfo=UTC)),
    _message("before-1970", role="user", timestamp=datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    _message("whole-second", role="user", timestamp=datetime(2024, 1, 1, tzinfo=UTC)),
    _message("other-spelling", role="user", text="x", **_OTHER_SPELLING),
    _message("further-fields", role="user", **{f"x-{s.name}": s.value for s in json_values[:14]}),
    _message("odd-texts", role="assistant", text="\0\U0001f680é", name="\ufeff", ids=["\0"]),
    _message("field-names-of-python", role="user", model_config={}, _encoded=1, self=2, cls=3),
    _message("wire-names-at-rest", role="user", meta={"a": 1}, _meta={"b": 2}),
    _message("large", role="assistant", text="wörd " * 40_000),
]
"""Messages with a timestamp, which come back equal."""

_SIGNAL = {"kind": "approval", "name": "n", "note": "", "data": {"ok": True}, "source": None}

events = [
    _event("only-a-kind", kind="turn-begin"),
    _event("a-kind-of-its-own", kind="x.y/\U0001f680", step=0, text=""),
    _event("text-delta", kind="text-delta", step=3, text="wor"),
    _event("large-step", kind="thinking-delta", step=2**70, text="\0"),
    _event("tool-begin", kind="tool-begin", tool_call=_CALLS[0]),
    _event(
        "tool-end",
        kind="tool-end",
        tool_call={"id": "c"},
        tool_result={"content": [{"type": "text", "text": "ok"}], "is_error": False, "meta": {}},
    ),
    _event("tool-denied", kind="tool-denied", reason="no", error=""),
    _event(
        "compaction", kind="compaction", compaction={"before": 90_000, "after": 1.5, "unit": "t"}
    ),
    _event("signal", kind="signal", signal=_SIGNAL),
    _event(
        "turn-end",
        kind="turn-end",
        result={
            "text": "done",
            "messages": [{"role": "assistant", "text": "done", "timestamp": _MOMENT}],
            "usage": {"in": 10**20, "out": 0},
            "steps": [],
            "finish_reason": "stop",
            "structured": {"answer": None},
        },
    ),
    _event("given-nulls", kind="error", step=None, text=None, error=None, result=None, signal=None),
    _event("other-spelling", kind="x", toolCall={"id": 1}, toolResult=[], **{"tool-call": 2}),
    _event("further-fields", kind="x", at="2024-01-01", values=[s.value for s in json_values[:14]]),
    _event("names-of-ours", kind="x", **_OURS),
]
"""Events that come back equal."""

tool_results = [
    _result("nothing-given"),
    _result("empty-content", content=[]),
    _result("given-nulls", content=None, structured_content=None, is_error=None, meta=None),
    _result("one-text", content=[{"type": "text", "text": "line one\nline two"}]),
    _result(
        "texts-and-others",
        content=[
            {"type": "text", "text": "a\0b"},
            {"type": "text", "text": ""},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "AAECAw=="}},
            {"type": "text", "text": "\U0001f680", "annotations": {"priority": 1.0}},
        ],
    ),
    _result("structure-alone", structured_content={"zeta": [], "a": {}, "n": 10**30}),
    _result("structure-null-in-list", content=[], structured_content=[None]),
    _result("error", content=[{"type": "text", "text": "failed"}], is_error=True),
    _result("not-an-error", content=[], is_error=False),
    _result("meta", content=[], meta={"_meta": 1, "meta": 2, "progressToken": "x"}),
    _result(
        "odd-items", content=["text", 1, None, [], {}, {"type": 7}, {"type": "text", "text": 1}]
    ),
    _result("other-spelling", content=[], structuredContent=1, isError="maybe", _meta="kept apart"),
    _result("further-fields", content=[], **{f"x-{s.name}": s.value for s in json_values[:14]}),
    _result("names-of-ours", content=[{"type": "text", "text": "a"}], **_OURS),
    _result("structure-and-names-of-ours", structured_content={"a": 1}, **_OURS),
]
"""Tool results that come back equal."""

metadata = [
    Sample("empty", {}),
    Sample(
        "scalars", {"text": "a", "int": 2, "float": 2.0, "true": True, "false": False, "null": None}
    ),
    Sample("nested", {"list": [1, {"a": []}], "object": {"b": {}}}),
    Sample(
        "odd-keys", {"": 1, "a.b": 2, "$where": 3, "a\0b": 4, "'; --": 5, "\u00e9": 6, "e\u0301": 7}
    ),
    Sample("odd-texts", {"title": "Report\0", "b": "\\u0000", "c": "\U0001f680"}),
    Sample("large-numbers", {"n": 10**400, "m": -0.0, "o": 2**53 + 1, "p": 5e-324}),
    Sample("key-order", {"z": 1, "a": 2, "m": 3}),
    Sample(
        "names-of-a-note", {"key": 1, "value": 2, "created_at": 3, "createdAt": 4, "version": 5}
    ),
    Sample("100-levels", {"deep": nested(MAX_DEPTH - 2, lambda inner: [inner], [1])}),
    Sample("wide", {f"k{n}": n for n in range(500)}),
]
"""Metadata objects of notes that come back equal."""

naive_or_odd_times = [
    Sample("naive", datetime(2024, 1, 1), "a time needs a zone"),  # noqa: DTZ001 - to be refused
    Sample("text", "2024-01-01T00:00:00Z", "a time is a datetime"),
    Sample("number", 1_700_000_000, "a time is a datetime"),
    Sample("date", date(2024, 1, 1), "a time is a datetime"),
    Sample(
        "beyond-9999-in-utc",
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        "UTC has no such year",
    ),
]
"""Times to refuse."""
