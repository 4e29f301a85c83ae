"""Messages and events as people read them."""

from collections.abc import Generator
from typing import Any, cast

from stores_cli.output import moment
from stores_core.codec import canonical
from stores_core.entries import Event, Message, ToolCall
from stores_core.tool_results import ToolResult

INDENT = "    "
CUT = 2_000
"""So many characters of a text or an argument are shown; --full shows all."""


def message_lines(position: int, message: Message, *, full: bool) -> Generator[str]:
    """A head with position, role and time; the text; a line for each tool call."""
    head = f"[{position}] {message.role}"
    if message.tool_call_id:
        head += f" of {message.tool_call_id}"
    if message.timestamp is not None:
        head += f"  {moment(message.timestamp)}"
    yield head
    if message.text:
        yield _indented(message.text, full=full)
    for call in message.tool_calls or ():
        yield _indented(_call(call), full=full)
    yield from _further(message.model_extra, full=full)


def event_lines(position: int, event: Event, *, full: bool) -> Generator[str]:
    """A head with position, kind and step; a line for each thing that the event carries."""
    yield f"({position}) {event.kind}" + (f"  step {event.step}" if event.step is not None else "")
    for name in ("text", "reason", "error"):
        text = getattr(event, name)
        if text:
            yield _indented(text if name == "text" else f"{name}: {text}", full=full)
    if event.tool_call is not None:
        yield _indented(_call(event.tool_call), full=full)
    if event.tool_result is not None:
        yield _indented(result_text(event.tool_result), full=full)
    for name in ("result", "compaction", "signal"):
        value = getattr(event, name)
        if value is not None:
            yield _indented(f"{name}: {canonical(value)}", full=full)
    yield from _further(event.model_extra, full=full)


def result_text(result: ToolResult) -> str:
    """What a tool result says: its items, text as it is, others as JSON."""
    parts: list[str] = ["failed:"] if result.is_error else []
    for item in result.content or ():
        text = cast("dict[str, Any]", item).get("text") if isinstance(item, dict) else None
        parts.append(text if isinstance(text, str) else canonical(cast(object, item)))
    if result.structured_content is not None:
        parts.append(canonical(result.structured_content))
    return "\n".join(parts)


def _call(call: ToolCall) -> str:
    return f"-> {call.name or ''}({canonical(call.args)})  {call.id or ''}".rstrip()


def _further(fields: dict[str, Any] | None, *, full: bool) -> Generator[str]:
    for name, value in (fields or {}).items():
        yield _indented(f"{name}: {canonical(value)}", full=full)


def _indented(text: str, *, full: bool) -> str:
    if not full and len(text) > CUT:
        text = f"{text[:CUT]} ... {len(text) - CUT} more characters"
    return "\n".join(INDENT + line for line in text.split("\n"))
