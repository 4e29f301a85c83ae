"""A task as the entries of a run, and back.

The messages of the run are the task's history. Its events are artifacts, and heads: a head is the
task without history and artifacts, so small, and the newest one holds. What a save writes are
the entries that are new or changed, the update that led to it for those who follow the task, and a
head to end the batch.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
from google.protobuf.message import Message as Proto

from stores_core import Event, Message, Run

HEAD = "a2a-task"
ARTIFACT = "a2a-artifact"
UPDATE = "a2a-update"

ROLES = {a2a_pb2.ROLE_USER: "user", a2a_pb2.ROLE_AGENT: "assistant"}

TERMINAL = frozenset(
    {
        a2a_pb2.TASK_STATE_COMPLETED,
        a2a_pb2.TASK_STATE_CANCELED,
        a2a_pb2.TASK_STATE_FAILED,
        a2a_pb2.TASK_STATE_REJECTED,
    }
)
"""The states that a task never leaves."""

P = TypeVar("P", bound=Proto)
Key = tuple[str, int]
"""The id of a message or artifact, and how many with this id stand before it."""


@dataclass(frozen=True)
class Kept:
    """What the store holds of a task: None where there is none, at version 0 then.

    ``version`` counts the run's events; each write adds one at least.
    """

    task: a2a_pb2.Task | None = None
    version: int = 0
    message_count: int = 0


def kept_in(run: Run) -> Kept:
    """The task that a whole run amounts to."""
    head: Event | None = None
    artifacts: dict[Key, a2a_pb2.Artifact] = {}
    for event in run.events:
        if event.kind == HEAD:
            head = event
        elif event.kind == ARTIFACT:
            further = event.model_extra or {}
            artifact = unpacked(further["artifact"], a2a_pb2.Artifact())
            key = artifact.artifact_id, further["nth"]
            if key in artifacts:
                known = artifacts[key].parts[: further["start"]]
                parts = [*known, *artifact.parts]
                del artifact.parts[:]
                artifact.parts.extend(parts)
            artifacts[key] = artifact
    if head is None:
        return Kept(None, run.event_count, run.message_count)
    history: dict[Key, a2a_pb2.Message] = {}
    for entry in run.messages:
        further = entry.model_extra or {}
        message = unpacked(further["message"], a2a_pb2.Message())
        history[message.message_id, further["nth"]] = message
    task = head_of(head)
    task.history.extend(history.values())
    task.artifacts.extend(artifacts.values())
    return Kept(task, run.event_count, run.message_count)


def head_of(event: Event) -> a2a_pb2.Task:
    """The task that a head holds, without history and artifacts."""
    return unpacked((event.model_extra or {})["task"], a2a_pb2.Task())


def update_of(event: Event) -> a2a_pb2.StreamResponse | None:
    """The update that an event holds; None for any other event."""
    if event.kind != UPDATE:
        return None
    return unpacked((event.model_extra or {})["update"], a2a_pb2.StreamResponse())


def entries_for(
    task: a2a_pb2.Task, kept: Kept, update: a2a_pb2.StreamResponse | None = None
) -> tuple[list[Message], list[Event]]:
    """What to append so that the run amounts to ``task``; nothing where it does.

    An ``update`` is written in any case.

    History and artifacts only grow: one that ``task`` lacks was added by another writer, and
    stays. A message or artifact whose id is known takes the known one's place. A state that a
    task never leaves is kept against any other.
    """
    before = kept.task or a2a_pb2.Task()
    known_messages = _keyed(before.history, "message_id")
    messages = [
        _message_entry(message, key[1])
        for key, message in _keyed(task.history, "message_id").items()
        if message != known_messages.get(key)
    ]
    known_artifacts = _keyed(before.artifacts, "artifact_id")
    events = [
        _artifact_event(artifact, known_artifacts.get(key), key[1])
        for key, artifact in _keyed(task.artifacts, "artifact_id").items()
        if artifact != known_artifacts.get(key)
    ]
    if update is not None:
        events.append(_event(UPDATE, update=packed(update)))
    head = _bare(task)
    if before.status.state in TERMINAL and before.status.state != task.status.state:
        head.status.CopyFrom(before.status)
    if messages or events or kept.task is None or head != _bare(before):
        events.append(_event(HEAD, task=packed(head)))
    return messages, events


def _artifact_event(artifact: a2a_pb2.Artifact, known: a2a_pb2.Artifact | None, nth: int) -> Event:
    # An artifact that is streamed grows by parts: those that are stored are not written again.
    start = 0
    for old, new in zip(known.parts if known else (), artifact.parts, strict=False):
        if old != new:
            break
        start += 1
    rest = a2a_pb2.Artifact()
    rest.CopyFrom(artifact)
    del rest.parts[:start]
    return _event(ARTIFACT, artifact=packed(rest), start=start, nth=nth)


def _bare(task: a2a_pb2.Task) -> a2a_pb2.Task:
    head = a2a_pb2.Task()
    head.CopyFrom(task)  # not field by field: a newer A2A has fields that are unknown here
    head.ClearField("history")
    head.ClearField("artifacts")
    return head


def _keyed(values: Iterable[P], id_field: str) -> dict[Key, P]:
    seen = Counter[str]()
    keyed: dict[Key, P] = {}
    for value in values:
        id = getattr(value, id_field)
        keyed[id, seen[id]] = value
        seen[id] += 1
    return keyed


def _message_entry(message: a2a_pb2.Message, nth: int) -> Message:
    role = ROLES.get(message.role, "unspecified")
    further: dict[str, Any] = {"message": packed(message), "nth": nth}
    return Message(role=role, **further)


def _event(kind: str, **further: Any) -> Event:
    return Event(kind=kind, **further)


def packed(value: Proto) -> dict[str, Any]:
    """A2A's own JSON; where that would not come back equal, the binary form beside no JSON.

    JSON has no NaN, no -0.0 in A2A's structs, and none of the fields of a newer A2A.
    """
    exact = value.SerializeToString(deterministic=True)
    try:
        json = MessageToDict(value)
        if ParseDict(json, type(value)()).SerializeToString(deterministic=True) == exact:
            return {"json": json}
    except (SerializeToJsonError, ValueError):
        pass
    return {"binary": base64.b64encode(exact).decode()}


def unpacked(stored: Mapping[str, Any], into: P) -> P:
    """Reads into ``into`` what ``packed`` made of an equal one, and returns it."""
    if "json" in stored:
        return ParseDict(stored["json"], into)
    into.ParseFromString(base64.b64decode(stored["binary"]))
    return into
