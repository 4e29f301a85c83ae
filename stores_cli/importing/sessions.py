"""What a reader yields: runs to be, notes and tool results, in no backend's terms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from stores_cli.importing.entries import Entries, Spill
from stores_cli.importing.json_values import TOO_DEEP
from stores_cli.importing.moments import moment
from stores_cli.importing.reports import FileReport
from stores_core import Event, InvalidRequestError, MemoryItem, Message, ToolCall, ToolResult
from stores_core.codec import (
    decode_events,
    decode_messages,
    encode,
    encode_checked,
    encode_json,
)
from stores_core.limits import Limits
from stores_core.shape import Value

SOURCE = "source"
"""The further field of a message or event that holds what the source said beside it."""

V = TypeVar("V", bound=Value)

STATE = "session-state"
"""The kind of the event that holds what the source says about the session as a whole, as of now."""

AT_MESSAGE = "atMessage"
"""The further field of an event: how many messages of its run came before it."""


@dataclass
class Session:
    """One run to be: all that it will hold, its parent's prefix included.

    ``key`` names the session within its format and stays the same when the session grows.
    ``parent`` and ``at_message`` say which other session it branched off, after how many messages;
    ``agent_of`` names the session that this one works for, as a sub-agent.
    """

    key: str
    account: FileReport
    spill: Spill
    parent: str = ""
    at_message: int = 0
    agent_of: str = ""
    keeps_id: bool = False
    labels: dict[str, str] = field(default_factory=dict[str, str])
    standing: dict[str, Any] = field(default_factory=dict[str, Any])
    messages: Entries[Message] = field(init=False)
    events: Entries[Event] = field(init=False)

    def __post_init__(self) -> None:
        self.messages = Entries(self.spill, decode_messages)
        self.events = Entries(self.spill, decode_events)

    def say(
        self,
        role: str,
        text: Any = "",
        *,
        calls: Sequence[ToolCall] = (),
        answers: Any = "",
        at: Any = None,
        source: Any = None,
    ) -> None:
        """Add a message. ``answers`` is the id of the tool call that it answers, ``at`` a time as
        the source writes it, ``source`` what else the source says."""
        fields: dict[str, Any] = {"role": role, "text": _text(text)}
        if calls:
            fields["tool_calls"] = tuple(calls)
        if answers:
            fields["tool_call_id"] = _text(answers)
        stamp = moment(at)
        if stamp:
            fields["timestamp"] = stamp
        elif at:
            source = {"time": at, **_as_dict(source)}
        self.add_message(Message(**fields, **_beside(source)))

    def happen(
        self, kind: Any, text: str = "", *, at: Any = None, source: Any = None, **known: Any
    ) -> None:
        """Add an event, with the time as the source writes it in a further field. ``known`` are
        further fields of Event."""
        fields: dict[str, Any] = {"kind": _text(kind) or "unknown", **known}
        if text:
            fields["text"] = text
        if at:
            fields["timestamp"] = at
        fields[AT_MESSAGE] = len(self.messages)
        self.add_event(Event(**fields, **_beside(source)))

    def stand(self, source: dict[str, Any]) -> None:
        """Say what may be different when the session has grown: totals, titles, a final state.

        It becomes the last event, and another one whenever it changed.
        """
        self.standing = source

    def state(self) -> Event | None:
        """The event that holds what :meth:`stand` was told."""
        if not self.standing:
            return None
        further: dict[str, Any] = {AT_MESSAGE: len(self.messages), SOURCE: self.standing}
        return fit(Event(kind=STATE, **further), self.account)[0]

    def add_message(self, message: Message) -> None:
        self.messages.append(*fit(message, self.account))
        self.account.messages += 1
        self._count(message)

    def add_event(self, event: Event) -> None:
        self.events.append(*fit(event, self.account))
        self.account.events += 1
        self._count(event)

    def _count(self, entry: Value) -> None:
        self.account.taken += 1
        further = (entry.__pydantic_extra__ or {}).keys() - {AT_MESSAGE, "timestamp"}
        self.account.extra_fields += bool(further)

    def label(self, name: str, value: Any) -> None:
        """Add a label where the value makes one; readers keep the value in an event as well."""
        text = "" if value is None else str(value)
        if text and "\0" not in text and len(text.encode(errors="replace")) <= _LABEL_BYTES:
            self.labels[name] = text.encode(errors="replace").decode()

    def branch(self, key: str, at_message: int) -> "Session":
        """Another session that begins with the first messages of this one."""
        labels = dict(self.labels)
        branch = Session(key, self.account, self.spill, self.key, at_message, labels=labels)
        branch.messages = self.messages[:at_message]
        return branch

    def sub_agent(self, key: str) -> "Session":
        """A session of a sub-agent that works for this one."""
        labels = dict(self.labels)
        return Session(key, self.account, self.spill, agent_of=self.key, labels=labels)


_LABEL_BYTES = 512
_MOST = Limits().max_entry_bytes


@dataclass(frozen=True)
class Note:
    """A note for working memory."""

    namespace: str
    item: MemoryItem


@dataclass(frozen=True)
class Result:
    """A tool result to keep under ``ref``."""

    ref: str
    result: ToolResult
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


Found = Session | Note | Result


def call(id: Any, name: Any, args: Any, **further: Any) -> ToolCall:
    """A tool call; ids and names that are no text become text."""
    return ToolCall(id=_text(id), name=_text(name), args=args, **further)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else encode_json(value).decode()


def _as_dict(source: Any) -> dict[str, Any]:
    if isinstance(source, dict):
        return source  # pyright: ignore[reportUnknownVariableType] - from JSON: keys are strings
    return {} if source is None else {"value": source}


def _beside(source: Any) -> dict[str, Any]:
    return {SOURCE: source} if source not in (None, {}, []) else {}


def fit(value: V, account: FileReport) -> tuple[V, int]:
    """``value`` as a store takes it, and the bytes of its text: what none could give back is
    changed, and counted.

    A message or event that is nested too deeply keeps its further fields as JSON text; one that
    is too large keeps its place and says what stood there.
    """
    try:
        checked, text = encode_checked(value)
    except (InvalidRequestError, ValidationError):
        account.changed[TOO_DEEP] += 1
        flat = _as_text(value)
        return flat, len(encode(flat))
    if len(text) <= _MOST:
        return checked, len(text)
    account.left_out[f"content of entries above {_MOST >> 20} MiB"] += 1
    kept: dict[str, Any] = {
        name: getattr(value, name)
        for name in ("role", "tool_call_id", "kind", "timestamp")
        if name in value.model_fields_set
    }
    left = type(value)(**kept, **{SOURCE: {"leftOut": {"bytes": len(text)}}})
    return left, len(encode(left))


def _as_text(value: Any) -> Any:
    further: dict[str, Any] = value.__pydantic_extra__ or {}
    fields = {name: getattr(value, name) for name in value.model_fields_set if name not in further}
    if fields.get("tool_calls"):
        fields["tool_calls"] = tuple(
            ToolCall(
                id=made.id,
                name=made.name,
                args=encode_json(made.args).decode(),
                **_flat(made.__pydantic_extra__ or {}),
            )
            for made in fields["tool_calls"]
        )
    return type(value)(**fields, **_flat(further))


def _flat(further: dict[str, Any]) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None))
    return {
        name: item if isinstance(item, plain) else encode_json(item).decode()
        for name, item in further.items()
    }
