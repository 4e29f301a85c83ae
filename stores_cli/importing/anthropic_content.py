"""Messages whose content is blocks of Anthropic's Messages API."""

from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_core import ToolCall

_RESULT = "tool_result"


def call_of(part: dict[str, Any]) -> ToolCall | None:
    """The call that a tool_use block is. Calls that the server answers itself stay blocks."""
    if part.get("type") != "tool_use":
        return None
    further = without(part, "type", "id", "name", "input")
    return call(part.get("id"), part.get("name"), part.get("input"), **further)


def say_blocks(
    session: Session, role: str, content: Any, *, at: Any = None, source: dict[str, Any]
) -> None:
    """Add the messages of one record: each tool result is one of role tool, and what stands
    between them one of ``role``. ``source`` goes with the first of them."""
    runs: list[list[Any]] = []
    for part in as_list(content) if isinstance(content, list) else [content]:
        is_result = as_dict(part).get("type") == _RESULT
        if not runs or is_result or as_dict(runs[-1][0]).get("type") == _RESULT:
            runs.append([])
        runs[-1].append(part)
    if not runs:
        session.say(role, at=at, source=source)
    for run in runs:
        part = as_dict(run[0])
        if part.get("type") == _RESULT:
            said = spoken(part.get("content"))
            beside = without(part, "type", "tool_use_id", "content") | said.kept() | source
            session.say("tool", said.text, answers=part.get("tool_use_id"), at=at, source=beside)
        else:
            said = spoken(run if isinstance(content, list) else content, call_of)
            beside = said.kept() | source
            session.say(role, said.text, calls=said.calls, at=at, source=beside)
        source = {}
