"""Messages of LangChain as data: plain dicts, {type, data}, or the constructor of a class.

Constructors are looked at and never called: whatever a checkpoint names, no code of it runs.
"""

from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, filled, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call

ROLES = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant", "chat": "user"}
_CLASS_ENDS = ("MessageChunk", "Message")
_KNOWN = ("type", "content", "tool_calls", "tool_call_id")
CONSTRUCTOR = "constructor"


def plain(value: Any) -> dict[str, Any]:
    """The fields of a message in whichever form; empty where it is none."""
    held = as_dict(value)
    if held.get("lc") == 1 and held.get("type") == CONSTRUCTOR:
        return _typed(as_list(held.get("id"))[-1:], as_dict(held.get("kwargs")))
    if CONSTRUCTOR in held:
        return _typed(as_list(held[CONSTRUCTOR])[-1:], as_dict(held.get("data")))
    if isinstance(held.get("data"), dict) and isinstance(held.get("type"), str):
        return {"type": held["type"], **as_dict(held["data"])}
    if "content" not in held:
        return {}
    if isinstance(held.get("role"), str):
        return {"type": held["role"], **without(held, "role")}
    return held if isinstance(held.get("type"), str) else {}


def _typed(name: list[Any], fields: dict[str, Any]) -> dict[str, Any]:
    kind = str(name[0]) if name else ""
    for end in _CLASS_ENDS:
        kind = kind.removesuffix(end)
    return {"type": kind.lower(), **fields} if "content" in fields else {}


def say_langchain(session: Session, message: dict[str, Any], *, source: Any = None) -> None:
    """Add one message, given as its plain fields."""
    kind = str(message.get("type")).lower()
    calls = [
        call(made.get("id"), made.get("name"), made.get("args"),
             **without(made, "id", "name", "args", "type"))
        for made in map(as_dict, as_list(message.get("tool_calls")))
    ]  # fmt: skip
    said = spoken(message.get("content"))
    further = filled(without(message, *_KNOWN)) | said.kept()
    session.say(
        ROLES.get(kind, kind),
        said.text,
        calls=calls,
        answers=message.get("tool_call_id"),
        source=further | as_dict(source),
    )
