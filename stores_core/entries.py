"""Messages and events: the entries of a run's two logs."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AwareDatetime

from stores_core.shape import AsTuple, Value
from stores_core.tool_results import ToolResult

TURN_BEGIN = "turn-begin"
THINKING_BEGIN = "thinking-begin"
THINKING_DELTA = "thinking-delta"
THINKING_END = "thinking-end"
TEXT_DELTA = "text-delta"
TOOL_BEGIN = "tool-begin"
TOOL_END = "tool-end"
TOOL_ERROR = "tool-error"
TOOL_DENIED = "tool-denied"
TOOL_CANCELLED = "tool-cancelled"
TOOL_UNAVAILABLE = "tool-unavailable"
COMPACTION = "compaction"
SIGNAL = "signal"
TURN_END = "turn-end"
ERROR = "error"


class ToolCall(Value):
    """One call of a tool that the model asked for. ``args`` is any JSON value, a string too."""

    id: str | None = ""
    name: str | None = ""
    args: Any = None


class Message(Value):
    """One entry of a run's message log; any further fields are kept.

    ``role`` is "user", "assistant", "tool", "system" or any other word. A field that was not
    given reads as its empty default; one that was given as None comes back as None.
    """

    role: str
    text: str | None = ""
    tool_calls: Annotated[Sequence[ToolCall], AsTuple()] | None = ()
    tool_call_id: str | None = ""
    timestamp: AwareDatetime | None = None


class TurnResult(Value):
    """The finished turn that a turn-end event carries."""

    text: str | None = ""
    messages: Annotated[Sequence[Message], AsTuple()] | None = ()
    usage: Any = None
    steps: Any = None
    finish_reason: str | None = ""
    structured: Any = None


class Compaction(Value):
    """What a compaction event measured before and after, in the producer's own unit."""

    before: Any = None
    after: Any = None


class Signal(Value):
    """A message from outside the conversation: an interrupt, an approval, a timer."""

    kind: str | None = ""
    name: str | None = ""
    note: str | None = ""
    data: Any = None
    source: str | None = ""


class Event(Value):
    """One entry of a run's event log; any further fields are kept.

    ``kind`` is an open vocabulary; the constants of this module are the well-known words.
    """

    kind: str
    step: int | None = None
    text: str | None = ""
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    error: str | None = ""
    reason: str | None = ""
    result: TurnResult | None = None
    compaction: Compaction | None = None
    signal: Signal | None = None
