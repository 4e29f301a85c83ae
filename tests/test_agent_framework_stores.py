"""Agent Framework: its history provider and its checkpoint storage on any backend."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Never

import pytest

pytest.importorskip("agent_framework", reason="needs the extra agent-framework")

from agent_framework import (
    Content,
    Executor,
    InMemoryCheckpointStorage,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    handler,
)

from stores_adapters.agent_framework import BackendCheckpointStorage, BackendHistoryProvider
from stores_core import InvalidRequestError, open_backend
from tests.meanwhile import repeating


@dataclass
class Own:
    """A type of the application's."""

    number: int


OWN = f"{Own.__module__}:{Own.__qualname__}"


def says(text: str) -> Message:
    return Message("user", [text])


def checkpoint(id: str, at: int = 1, **fields: Any) -> WorkflowCheckpoint:
    timestamp = datetime(2026, 1, at, tzinfo=UTC).isoformat()
    return WorkflowCheckpoint("w", "hash", checkpoint_id=id, timestamp=timestamp, **fields)


async def texts(history: BackendHistoryProvider, session_id: str = "s") -> list[str]:
    return [message.text for message in await history.get_messages(session_id)]


async def test_messages_come_back_equal_and_in_order(url: str) -> None:
    messages = [
        Message("user", ["look", Content.from_uri("data:image/png;base64,AP8=")], message_id="1"),
        Message(
            "assistant",
            [Content.from_function_call("c", "f", arguments={"deep": [1, 1.5, {"ü": "🦊"}]})],
            additional_properties={"key": [1, "two"]},
        ),
        Message("tool", [Content.from_function_result("c", result="there")], author_name="f"),
    ]
    async with open_backend(url) as backend:
        history = BackendHistoryProvider(backend)
        await history.save_messages("s", messages[:1])
        await history.save_messages("s", messages[1:])
        got = await BackendHistoryProvider(backend).get_messages("s")
        assert [one.to_dict() for one in got] == [one.to_dict() for one in messages]
        assert await history.get_messages("another") == []


async def test_sessions_and_providers_never_meet(url: str) -> None:
    async with open_backend(url) as backend:
        one, other = BackendHistoryProvider(backend, "a"), BackendHistoryProvider(backend, "a b")
        await one.save_messages("b c", [says("one")])
        await other.save_messages("c", [says("other")])
        assert await texts(one, "b c") == ["one"]
        assert await texts(other, "c") == ["other"]
        assert await texts(one, "c") == []


async def test_the_newest_messages_alone_may_be_loaded(url: str) -> None:
    async with open_backend(url) as backend:
        whole = BackendHistoryProvider(backend)
        await whole.save_messages("s", [says(str(number)) for number in range(5)])
        assert await texts(BackendHistoryProvider(backend, last_messages=2)) == ["3", "4"]
        assert await texts(whole) == ["0", "1", "2", "3", "4"]


async def test_a_fork_takes_the_first_messages_and_goes_its_own_way(url: str) -> None:
    async with open_backend(url) as backend:
        history = BackendHistoryProvider(backend)
        await history.save_messages("s", [says("a"), says("b")])
        assert await history.fork("s", "f", at_message=1)
        assert not await history.fork("s", "f")
        assert not await history.fork("unknown", "g")
        await history.save_messages("f", [says("left")])
        await history.save_messages("s", [says("right")])
        assert await texts(history, "f") == ["a", "left"]
        assert await texts(history) == ["a", "b", "right"]


async def test_a_save_that_is_repeated_below_the_provider_counts_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        history = BackendHistoryProvider(backend)
        await history.save_messages("s", [says("a")])
        await history.save_messages("s", [])
        assert await texts(history) == ["a"]


async def test_messages_without_a_session_are_refused() -> None:
    async with open_backend("memory:") as backend:
        history = BackendHistoryProvider(backend)
        with pytest.raises(InvalidRequestError, match="session_id"):
            await history.save_messages(None, [says("a")])
        with pytest.raises(InvalidRequestError, match="session_id"):
            await history.get_messages(None)


async def test_a_checkpoint_comes_back_equal(url: str) -> None:
    given = checkpoint(
        "1",
        previous_checkpoint_id="0",
        state={"deep": [1, 1.5, None, {"ü": "🦊"}], "when": datetime(2026, 1, 2, tzinfo=UTC)},
        iteration_count=3,
        metadata={"key": "value"},
    )
    async with open_backend(url) as backend:
        storage = BackendCheckpointStorage(backend)
        assert await storage.save(given) == "1"
        assert await storage.load("1") == given
        with pytest.raises(WorkflowCheckpointException):
            await storage.load("unknown")


async def test_the_storage_answers_as_that_of_the_framework(url: str) -> None:
    async def tried(storage: Any) -> list[object]:
        answers: list[object] = [await storage.get_latest(workflow_name="w")]
        for one in (checkpoint("b", 2), checkpoint("a", 3), checkpoint("c", 1)):
            answers.append(await storage.save(one))
        answers.append(await storage.save(WorkflowCheckpoint("x", "hash", checkpoint_id="other")))
        answers += [
            await storage.list_checkpoint_ids(workflow_name="w"),
            await storage.list_checkpoints(workflow_name="w"),
            await storage.get_latest(workflow_name="w"),
            await storage.save(checkpoint("b", 9, iteration_count=1)),
            await storage.load("b"),
            await storage.get_latest(workflow_name="w"),
            await storage.list_checkpoint_ids(workflow_name="w"),
            await storage.delete("b"),
            await storage.delete("b"),
            await storage.get_latest(workflow_name="w"),
            await storage.list_checkpoint_ids(workflow_name="w"),
            await storage.list_checkpoint_ids(workflow_name="none"),
        ]
        return answers

    async with open_backend(url) as backend:
        ours = await tried(BackendCheckpointStorage(backend))
        assert ours == await tried(InMemoryCheckpointStorage())


async def test_a_type_of_the_applications_needs_to_be_allowed() -> None:
    async with open_backend("memory:") as backend:
        own = checkpoint("1", state={"own": Own(7)})
        with pytest.raises(WorkflowCheckpointException):
            await BackendCheckpointStorage(backend).save(own)
        assert (await backend.runs.list_runs()).runs == ()
        allowing = BackendCheckpointStorage(backend, allowed_checkpoint_types=[OWN])
        await allowing.save(own)
        assert await allowing.load("1") == own
        with pytest.raises(WorkflowCheckpointException):
            await BackendCheckpointStorage(backend).load("1")
        unfit = checkpoint("2", state={"f": lambda: None})
        with pytest.raises(WorkflowCheckpointException):
            await allowing.save(unfit)


class Halving(Executor):
    """Halves a number until it is odd."""

    @handler
    async def halve(self, number: int, ctx: WorkflowContext[int, int]) -> None:
        if number % 2:
            await ctx.yield_output(number)
        else:
            await ctx.send_message(number // 2)


class Failing(Executor):
    """Passes a number on; fails at 6 the first time."""

    broken = True

    @handler
    async def pass_on(self, number: int, ctx: WorkflowContext[int, Never]) -> None:
        if number == 6 and self.broken:
            raise RuntimeError("the process ends here")
        await ctx.send_message(number)  # type: ignore[arg-type] - what it sends is a number


def workflow(storage: BackendCheckpointStorage, broken: bool) -> Workflow:
    halving, failing = Halving("halving"), Failing("failing")
    failing.broken = broken
    builder = WorkflowBuilder(start_executor=halving, checkpoint_storage=storage, name="w")
    return builder.add_edge(halving, failing).add_edge(failing, halving).build()


async def test_a_workflow_goes_on_from_its_latest_checkpoint(url: str) -> None:
    async with open_backend(url) as backend:
        with pytest.raises(RuntimeError):
            await workflow(BackendCheckpointStorage(backend), broken=True).run(24)
        storage = BackendCheckpointStorage(backend)
        latest = await storage.get_latest(workflow_name="w")
        assert latest is not None
        assert latest.iteration_count > 1
        resumed = workflow(storage, broken=False)
        result = await resumed.run(checkpoint_id=latest.checkpoint_id)
        assert result.get_outputs() == [3]
