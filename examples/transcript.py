"""Reads the demo's transcript: messages as JSON lines, in turns, with the events of each turn.

The lines are messages at rest, so the codec reads them as they are. ``id`` and ``parentId`` are
further fields, as agents' logs have them: where a message answers an earlier one than the line
before it, the user went back and tried something else.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stores_core import Event, Message, ToolCall, ToolResult, TurnResult
from stores_core.codec import decode_messages
from stores_core.entries import (
    TEXT_DELTA,
    THINKING_BEGIN,
    THINKING_DELTA,
    THINKING_END,
    TOOL_BEGIN,
    TOOL_END,
    TOOL_ERROR,
    TURN_BEGIN,
    TURN_END,
)


@dataclass
class Turn:
    """What a user said and everything that the agent did about it."""

    messages: list[Message]
    events: list[Event] = field(default_factory=list[Event])

    @property
    def prompt(self) -> str:
        return next((m.text or "" for m in self.messages if m.role == "user"), "")

    @property
    def tools(self) -> list[str]:
        calls = (call for message in self.messages for call in message.tool_calls or ())
        return [call.name or "" for call in calls]


@dataclass
class Transcript:
    """``main`` as it was, and ``other``, which leaves it after its first ``fork_at`` messages."""

    main: list[Turn]
    fork_at: int
    other: list[Turn]


def read_transcript(path: Path) -> Transcript:
    """The transcript in a file. Raises CorruptRecordError for a line that is no message."""
    messages = decode_messages(path.read_bytes().splitlines())
    places = {further(message, "id"): place for place, message in enumerate(messages)}
    for place, message in enumerate(messages):
        parent = places.get(further(message, "parentId"), -1)
        if parent != place - 1:
            return Transcript(_turns(messages[:place]), parent + 1, _turns(messages[place:]))
    return Transcript(_turns(messages), len(messages), [])


def further(message: Message, name: str) -> Any:
    """A further field of a message, which the store keeps as it is."""
    return (message.model_extra or {}).get(name)


def _turns(messages: Iterable[Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        if not turns or (message.role == "user" and turns[-1].prompt):
            turns.append(Turn([]))
        turns[-1].messages.append(message)
    for turn in turns:
        turn.events = list(_events(turn))
    return turns


def _events(turn: Turn) -> Iterator[Event]:
    """The events that a surface would have shown while the turn went on."""
    yield Event(kind=TURN_BEGIN, text=turn.prompt)
    step = 0
    calls: dict[str | None, ToolCall] = {}
    for message in turn.messages:
        if message.role == "assistant":
            step += 1
            thought = further(message, "thinking")
            if thought:
                yield Event(kind=THINKING_BEGIN, step=step)
                yield Event(kind=THINKING_DELTA, step=step, text=thought)
                yield Event(kind=THINKING_END, step=step)
            if message.text:
                yield Event(kind=TEXT_DELTA, step=step, text=message.text)
            for call in message.tool_calls or ():
                calls[call.id] = call
                yield Event(kind=TOOL_BEGIN, step=step, tool_call=call)
        elif message.role == "tool":
            call = calls.get(message.tool_call_id)
            if further(message, "isError"):
                yield Event(kind=TOOL_ERROR, step=step, tool_call=call, error=message.text)
            else:
                # The output itself is in the message log, or behind a ref.
                result = ToolResult(meta={"characters": len(message.text or "")})
                yield Event(kind=TOOL_END, step=step, tool_call=call, tool_result=result)
    last = turn.messages[-1]
    usage, text = further(last, "usage"), last.text or ""
    yield Event(kind=TURN_END, step=step, result=TurnResult(text=text, usage=usage, steps=step))
