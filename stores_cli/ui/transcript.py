"""Messages and events as parts, each a text with a name: shown here cut, and elsewhere whole."""

import json
from collections.abc import Generator
from typing import NamedTuple

from stores_cli.output import moment
from stores_cli.transcript import CUT, result_text
from stores_cli.ui.markup import Markup, element, joined, link
from stores_core.codec import canonical, decode_json
from stores_core.entries import Event, Message, ToolCall

LOGS = ("messages", "events")
ROLES = frozenset({"user", "assistant", "tool", "system"})
TEASER = 200
"""Characters of a folded part that stand beside its name; the style cuts them to the line."""


class Part(NamedTuple):
    """A text that an entry carries. What is ``folded`` opens on a click."""

    name: str
    text: str
    folded: bool = True


def parts(entry: Message | Event) -> list[Part]:
    """All that an entry carries beside its head, in order."""
    found = list(_of_message(entry) if isinstance(entry, Message) else _of_event(entry))
    if entry.model_extra:
        found.append(Part("further fields", json_text(entry.model_extra)))
    return found


def _of_message(message: Message) -> Generator[Part]:
    if message.text and message.role == "tool":
        yield Part("result", message.text)
    elif message.text:
        yield Part("text", message.text, folded=False)
    for call in message.tool_calls or ():
        yield _call(call)


def _of_event(event: Event) -> Generator[Part]:
    for name in ("text", "reason", "error"):
        text = getattr(event, name)
        if text:
            yield Part(name, text, folded=False)
    if event.tool_call is not None:
        yield _call(event.tool_call)
    if event.tool_result is not None:
        yield Part("tool result", result_text(event.tool_result))
    for name in ("result", "compaction", "signal"):
        value = getattr(event, name)
        if value is not None:
            yield Part(name, json_text(value))


def _call(call: ToolCall) -> Part:
    return Part(f"call {call.name or ''} {call.id or ''}".rstrip(), json_text(call.args))


def json_text(value: object) -> str:
    """JSON over several lines; a long one on one line."""
    text = canonical(value)
    if len(text) > CUT:
        return text
    return json.dumps(decode_json(text), indent=2, ensure_ascii=False)


def _head(entry: Message | Event) -> Markup:
    if isinstance(entry, Message):
        name, about = entry.role, [entry.tool_call_id and f"of {entry.tool_call_id}"]
        about.append(moment(entry.timestamp) if entry.timestamp is not None else "")
    else:
        name, about = entry.kind, [f"step {entry.step}" if entry.step is not None else ""]
    beside = "  ".join(word for word in about if word)
    return joined(name, "  ", element("span", beside, class_="dim"))


def article(run_id: str, log: str, position: int, entry: Message | Event) -> Markup:
    """One entry on the page of its run."""
    role = entry.role if isinstance(entry, Message) and entry.role in ROLES else None
    place = link(position, "/entry", id=run_id, log=log, at=position)
    shown = (
        _shown(run_id, log, position, number, part) for number, part in enumerate(parts(entry))
    )
    return element(
        "article",
        element("h2", place, "  ", _head(entry), class_="text"),
        *shown,
        class_=role,
    )


def _shown(run_id: str, log: str, position: int, number: int, part: Part) -> Markup:
    left = len(part.text) - CUT
    whole = None
    if left > 0:
        text = f"{left:,} more characters"
        whole = link(text, "/entry", id=run_id, log=log, at=position, part=number + 1)
    body = element("div", element("pre", part.text[:CUT]), whole)
    if part.folded:
        teaser = " ".join(part.text[:TEASER].split())
        summary = element(
            "summary", part.name, " ", element("span", teaser, class_="dim teaser")
        )  # fmt: skip
        return element("details", summary, body)
    name = None if part.name == "text" else element("b", part.name)
    return element("div", name, body)
