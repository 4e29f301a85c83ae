"""Sessions of the pi coding agent: JSON lines with a header."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core import COMPACTION, ToolCall
from stores_core.entries import Compaction


def recognises(source: Source) -> bool:
    first = source.sample[0] if source.sample else {}
    return (first.get("type") == "session" and "thinkingLevel" in first) or any(
        record.get("type") == "message" and "role" in as_dict(record.get("message"))
        and first.get("type") == "session" for record in source.sample
    )  # fmt: skip


def read(source: Source) -> Generator[Session]:
    """The one session of a file."""
    header = source.sample[0] if source.sample else {}
    session = source.session(str(header.get("id") or source.unnamed(header)))
    for record in source.records():
        kind, at, message = (
            record.get("type"),
            record.get("timestamp"),
            as_dict(record.get("message")),
        )
        if kind == "message" and "role" in message:
            _say(session, message, at)
        elif kind == COMPACTION:
            session.happen(COMPACTION, str(record.get("summary") or ""), at=at,
                           source=without(record, "type", "timestamp", "summary"),
                           compaction=Compaction(before=record.get("tokensBefore")))  # fmt: skip
        else:
            if kind == "session":
                session.label("branched-from", record.get("branchedFrom"))
            session.happen(kind, at=at, source=without(record, "type", "timestamp"))
    if session.messages or session.events:
        yield session


def _say(session: Session, message: dict[str, Any], at: Any) -> None:
    role = str(message["role"])
    said = spoken(message.get("content"), _call_of)
    rest = said.kept()
    if role == "bashExecution":  # a command that the person typed
        beside = without(message, "role", "output")
        session.say("user", message.get("output"), at=at, source=beside | {"kind": role})
    elif role == "toolResult":
        beside = without(message, "role", "content", "toolCallId") | rest
        session.say("tool", said.text, answers=message.get("toolCallId"), at=at, source=beside)
    else:
        beside = without(message, "role", "content") | rest
        session.say(role, said.text, calls=said.calls, at=at, source=beside)


def _call_of(part: dict[str, Any]) -> ToolCall | None:
    if part.get("type") != "toolCall":
        return None
    further = without(part, "type", "id", "name", "arguments")
    return call(part.get("id"), part.get("name"), part.get("arguments"), **further)


PI = Format("pi", "pi coding agent sessions (JSON lines)", recognises, read, copies_history=True)
