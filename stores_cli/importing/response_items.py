"""Items of OpenAI's Responses API, which several programs keep as their log."""

from typing import Any

from stores_cli.importing.json_values import as_list, read_json_text, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call

_CALLS = ("function_call", "custom_tool_call")


def add_item(
    session: Session, item: dict[str, Any], *, at: Any = None, source: dict[str, Any] | None = None
) -> None:
    """Add one item: messages, calls of tools and their outputs to the messages, all else to the
    events. ``source`` is what stands around the item."""
    kind, beside = str(item.get("type") or ""), source or {}
    if kind in ("", "message") and "role" in item:
        said = spoken(item.get("content"))
        rest = said.kept()
        further = without(item, "type", "role", "content") | rest | beside
        session.say(str(item["role"]), said.text, at=at, source=further)
    elif kind in _CALLS or (kind.endswith("_call") and item.get("call_id")):
        given = next((name for name in ("arguments", "input", "action") if name in item), "")
        made = call(item.get("call_id"), item.get("name") or kind, read_json_text(item.get(given)))
        further = without(item, "call_id", "name", given) | beside
        session.say("assistant", calls=[made], at=at, source=further)
    elif kind.endswith("_call_output"):
        said = spoken(item.get("output"))
        rest = said.kept("output")
        further = without(item, "call_id", "output") | rest | beside
        session.say("tool", said.text, answers=item.get("call_id"), at=at, source=further)
    else:
        summary = spoken(as_list(item.get("summary")) or None).text
        session.happen(kind, summary, at=at, source=without(item, "type") | beside)
