"""Messages and tasks of the Agent2Agent protocol, as objects or as JSON-RPC."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

_ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "assistant", "agent": "assistant"}


def recognises(source: Source) -> bool:
    return any(
        _message(record) or _task(record) or ("artifactId" in record and "parts" in record)
        for record in source.sample
    )


def _message(record: dict[str, Any]) -> dict[str, Any]:
    held = as_dict(as_dict(record.get("params")).get("message")) or record
    is_one = str(held.get("role")) in ("user", *_ROLES) and isinstance(held.get("parts"), list)
    return held if is_one and ("messageId" in held or str(held["role"]).isupper()) else {}


def _task(record: dict[str, Any]) -> dict[str, Any]:
    result = as_dict(record.get("result"))
    held = as_dict(result.get("task")) or result or record
    return held if "id" in held and ("artifacts" in held or "status" in held) else {}


def read(source: Source) -> Generator[Session]:
    """A session for each context: what was said, with tasks and their artifacts as events."""
    sessions: dict[str, Session] = {}
    contexts: dict[str, str] = {}  # of JSON-RPC requests
    first = source.unnamed(source.sample[:1])
    for record in source.glance():
        context = as_dict(_task(record)).get("contextId")
        if record.get("id") and context:
            contexts[str(record["id"])] = str(context)
    for record in source.records():
        message, task = _message(record), _task(record)
        context = message.get("contextId") or task.get("contextId")
        context = context or contexts.get(str(record.get("id"))) or first
        session = sessions.setdefault(str(context), source.session(str(context)))
        if message:
            around = without(record, "params") if message is not record else {}
            _say(session, message, around)
        elif task:
            for one in map(as_dict, as_list(task.get("history"))):
                _say(session, one, {})
            session.happen("task", source=record)
        else:
            session.happen(record.get("method") or "artifact", source=record)
    yield from sessions.values()


def _say(session: Session, message: dict[str, Any], around: dict[str, Any]) -> None:
    said = spoken(message.get("parts"))
    rest = said.kept("parts")
    role = str(message.get("role"))
    beside = without(message, "role", "parts") | rest
    session.say(_ROLES.get(role, role.removeprefix("ROLE_").lower()), said.text,
                source=beside | ({"request": around} if around else {}))  # fmt: skip


A2A = Format("a2a", "Agent2Agent messages and tasks (JSON)", recognises, read)
