"""Sessions of dsh: JSON lines of numbered events, in which streams come in chunks and whole."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, read_json_text, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core import ToolCall

CHUNKS = "chunks of a stream that the finished message gives whole"
_CHUNKS = ("assistant/chunk", "text-chunks", "reasoning-chunks", "tool-call-chunks")
_MESSAGES = {"user/message": "user", "assistant/message": "assistant", "tool/result": "tool"}


def recognises(source: Source) -> bool:
    first = source.sample[0] if source.sample else {}
    return first.get("type") == "session" and "delegationDepth" in first


def read(source: Source) -> Generator[Session]:
    """The one session of a file."""
    header = source.sample[0] if source.sample else {}
    session = source.session(str(header.get("id") or source.unnamed(header)))
    whole = {
        str(as_dict(record.get("data")).get("step"))
        for record in source.glance() if record.get("type") == "assistant/message"
    }  # fmt: skip
    asked: set[str] = set()
    for record in source.records():
        kind, data = str(record.get("type")), as_dict(record.get("data"))
        usage = as_dict(data.get("chunk")).get("type") == "usage"
        if kind in _CHUNKS and str(data.get("step")) in whole and not usage:
            source.leave_out(CHUNKS)
        elif kind in _MESSAGES:
            _say(session, kind, record, data, asked)
        elif kind == "tool/call" and str(data.get("callId")) not in asked:
            made = call(data.get("callId"), data.get("name"), read_json_text(data.get("arguments")))
            session.say("assistant", calls=[made], at=record.get("time"),
                        source=without(record, "time", "data") | {
                            "data": without(data, "callId", "name", "arguments")})  # fmt: skip
        else:
            at = record.get("time") or record.get("createdAt")
            session.happen(kind, at=at, source=without(record, "type", "time"))
    if session.messages or session.events:
        yield session


def _say(
    session: Session, kind: str, record: dict[str, Any], data: dict[str, Any], asked: set[str]
) -> None:
    message = as_dict(data.get("message")) if "message" in data else data
    content: Any = message.get("content")
    answers = ""
    results = [one for one in map(as_dict, as_list(content)) if one.get("type") == "tool-result"]
    further = without(record, "data", "time") | {"data": without(data, "message", "content")}
    further["message"] = without(message, "content", "role")
    if kind == "tool/result":
        answers = as_dict(message.get("source")).get("callId") or data.get("callId") or ""
        if len(results) == 1:
            answers = results[0].get("toolCallId") or answers
            content = results[0].get("content")
            further["result"] = without(results[0], "type", "toolCallId", "content")
    said = spoken(content, _call_of)
    further |= said.kept()
    asked.update(made.id or "" for made in said.calls)
    session.say(_MESSAGES[kind], said.text, calls=said.calls, answers=answers,
                at=record.get("time"), source=further)  # fmt: skip


def _call_of(part: dict[str, Any]) -> ToolCall | None:
    if part.get("type") != "tool-call":
        return None
    further = without(part, "type", "id", "name", "arguments")
    return call(part.get("id"), part.get("name"), read_json_text(part.get("arguments")), **further)


DSH = Format("dsh", "dsh sessions (JSON lines)", recognises, read)
