"""Rollouts of Codex: JSON lines of {timestamp, type, payload}."""

from collections.abc import Generator
from hashlib import blake2b
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.response_items import add_item
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_SPEAKERS = {"user_message": "user", "agent_message": "assistant"}


def recognises(source: Source) -> bool:
    return any(
        record.get("type") in _TYPES and isinstance(record.get("payload"), dict)
        for record in source.sample
    )


def read(source: Source) -> Generator[Session]:
    """The one session of a rollout. What is said both as an item and as an event comes once."""
    said = {_digest(text) for record in source.glance() if (text := _item_text(record))}
    session = source.session(_key(source))
    for record in source.records():
        _take(source, session, record, said)
    if session.messages or session.events:
        yield session


def _key(source: Source) -> str:
    begin: list[Any] = []
    for record in source.sample:
        payload = as_dict(record.get("payload"))
        if record.get("type") == "session_meta" and payload.get("id"):
            return str(payload["id"])
        begin.append(record)
    return source.unnamed(*begin[:1])


def _take(source: Source, session: Session, record: dict[str, Any], said: set[bytes]) -> None:
    kind, payload, at = record.get("type"), as_dict(record.get("payload")), record.get("timestamp")
    beside = without(record, "type", "payload", "timestamp")
    if kind == "response_item":
        add_item(session, payload, at=at, source=beside)
    elif kind == "event_msg":
        word = str(payload.get("type") or kind)
        text = payload.get("message")
        if word not in _SPEAKERS or not isinstance(text, str):
            session.happen(word, at=at, source=without(payload, "type") | beside)
        elif _digest(text.strip()) in said:
            source.leave_out(f"{word}: a response_item says the same")
        else:
            further = without(payload, "message") | beside
            session.say(_SPEAKERS[word], text, at=at, source=further)
    else:
        if kind == "session_meta":
            for name in ("cwd", "cli_version", "model_provider"):
                session.label(name, payload.get(name))
        session.happen(kind, at=at, source=payload | beside)


def _item_text(record: dict[str, Any]) -> str:
    payload = as_dict(record.get("payload"))
    is_item = record.get("type") == "response_item" and "role" in payload
    return spoken(payload.get("content")).text.strip() if is_item else ""


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


CODEX = Format("codex", "Codex rollouts (JSON lines)", recognises, read, copies_history=True)
