"""Tasks, messages and callers that the tests of the A2A stores share."""

from datetime import UTC, datetime
from typing import Any

from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    ROLE_USER,
    TASK_STATE_WORKING,
    Artifact,
    Message,
    Part,
    Task,
    TaskStatus,
)


class Named(User):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


def call_of(owner: str) -> ServerCallContext:
    return ServerCallContext(user=Named(owner))


ANNA = call_of("anna")


def says(text: str, role: Any = ROLE_USER) -> Message:
    return Message(message_id=f"id of {text}", role=role, parts=[Part(text=text)])


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


def a_task(id: str = "t", state: Any = TASK_STATE_WORKING, **fields: Any) -> Task:
    return Task(id=id, context_id="c", status=TaskStatus(state=state), **fields)


def copied(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy


def a_full_task() -> Task:
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(
            state=TASK_STATE_WORKING, message=says("on it", ROLE_AGENT), timestamp=day(1)
        ),
        history=[says("do it"), says("on it", ROLE_AGENT), Message(parts=[Part(raw=b"\0\xff")])],
        artifacts=[
            Artifact(artifact_id="a", name="notes", parts=[Part(text="1"), Part(url="https://x")]),
            Artifact(artifact_id="b", parts=[Part(data={"number_value": 1.5})], extensions=["e"]),
        ],
        metadata={"deep": {"list": [1, 2.5, None, True, {"z": "ü", "a": "🦊"}]}, "empty": {}},
    )
