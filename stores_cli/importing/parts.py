"""Content in parts: what models and tools say as a list of typed blocks.

The text goes into the message's own field. Whatever else the parts hold stays in a list in which a
text is stood for by its number of characters, so that the parts can be put together again: texts
are joined by one newline.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, given, without
from stores_core import ToolCall

CallOf = Callable[[dict[str, Any]], ToolCall | None]

_TEXTS = ("text", "input_text", "output_text", None)


@dataclass(frozen=True)
class Spoken:
    """``rest`` is None where text and calls say all that the parts said."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    rest: list[Any] | None = None

    def kept(self, name: str = "content") -> dict[str, Any]:
        """What text and calls do not say, as a field ``name``; empty where they say all."""
        return {} if self.rest is None else {name: self.rest}


def no_call(part: dict[str, Any]) -> ToolCall | None:
    """For content that holds no calls."""
    return None


def spoken(content: Any, call_of: CallOf = no_call) -> Spoken:
    """Text, tool calls and the rest of ``content``: text, a list of parts, one part or nothing."""
    if isinstance(content, str) or content is None:
        return Spoken(content or "")
    parts: list[Any] = as_list(content) if isinstance(content, list) else [content]
    texts: list[str] = []
    calls: list[ToolCall] = []
    rest: list[Any] = []
    plain = True
    for part in parts:
        held = as_dict(part)
        made = call_of(held) if held else None
        if made:
            calls.append(made)
            rest.append({"type": held.get("type", "call"), "id": made.id})
        elif isinstance(part, str) or _is_text(held):
            text = part if isinstance(part, str) else held["text"]
            plain = plain and not texts and not calls and not _further(held)
            texts.append(text)
            rest.append(
                {"type": held.get("type", "text"), "characters": len(text), **_further(held)}
            )
        else:
            plain = False
            rest.append(part)
    return Spoken("\n".join(texts), tuple(calls), None if plain else rest)


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type", "text") in _TEXTS and isinstance(part.get("text"), str)


def _further(part: dict[str, Any]) -> dict[str, Any]:
    return given(without(part, "type", "text"))
