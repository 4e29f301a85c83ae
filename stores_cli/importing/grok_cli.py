"""Updates of Grok CLI: JSON lines of notices of the Agent Client Protocol."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core.codec import encode_json

_CHUNKS = {"user_message_chunk": "user", "agent_message_chunk": "assistant"}
_DONE = ("completed", "failed")


def recognises(source: Source) -> bool:
    return any("sessionUpdate" in _update(record) for record in source.sample)


def _update(record: dict[str, Any]) -> dict[str, Any]:
    return as_dict(as_dict(record.get("params")).get("update"))


def read(source: Source) -> Generator[Session]:
    """The session of a file. Chunks of one speaker in a row are one message."""
    sample = source.sample
    ids = [found for one in sample if (found := as_dict(one.get("params")).get("sessionId"))]
    session = source.session(str(ids[0]) if ids else source.unnamed(*sample[:1]))
    speaker, said, since = "", "", None
    for record in source.records():
        kind, chunk = _update(record).get("sessionUpdate"), _update(record).get("content")
        text = as_dict(chunk).get("text")
        if _CHUNKS.get(str(kind), "") != speaker and speaker:
            session.say(speaker, said, at=since)
            speaker = ""
        if str(kind) in _CHUNKS and isinstance(text, str):
            since = since if speaker else record.get("timestamp")
            speaker, said = _CHUNKS[str(kind)], (said if speaker else "") + text
            source.fold()
        else:
            _take(session, record, _update(record))
    if speaker:
        session.say(speaker, said, at=since)
    if session.messages or session.events:
        yield session


def _take(session: Session, record: dict[str, Any], update: dict[str, Any]) -> None:
    kind, at = update.get("sessionUpdate"), record.get("timestamp")
    around = without(record, "params", "timestamp")
    around |= {"params": rest} if (rest := without(as_dict(record.get("params")), "update")) else {}
    if kind == "tool_call":
        made = call(update.get("toolCallId"), update.get("title"), update.get("rawInput"))
        beside = without(update, "sessionUpdate", "toolCallId", "title", "rawInput")
        session.say("assistant", calls=[made], at=at, source=beside | around)
    elif kind == "tool_call_update" and update.get("status") in _DONE:
        output: Any = update.get("rawOutput")
        said = spoken([part.get("content") for part in map(as_dict, update.get("content") or [])
                       if part]) if isinstance(update.get("content"), list) else None  # fmt: skip
        text = as_dict(output).get("text")
        if not isinstance(text, str):
            text = said.text if said and said.text else encode_json(output).decode()
        beside = without(update, "sessionUpdate", "toolCallId")
        session.say("tool", text, answers=update.get("toolCallId"), at=at, source=beside | around)
    else:
        session.happen(kind, at=at, source=without(update, "sessionUpdate") | around)


GROK_CLI = Format("grok-cli", "Grok CLI updates (JSON lines)", recognises, read)
