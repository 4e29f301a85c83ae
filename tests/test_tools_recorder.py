"""A turn lands in one commit, and never with a tool call or result that stands alone."""

import pytest

from stores_adapters.tools import TurnRecorder
from stores_core import (
    TURN_BEGIN,
    TURN_END,
    Event,
    InvalidRequestError,
    Message,
    ToolCall,
    open_backend,
)
from tests.meanwhile import repeating


def calling(*ids: str) -> Message:
    return Message(role="assistant", tool_calls=[ToolCall(id=id, name="look") for id in ids])


def answering(id: str) -> Message:
    return Message(role="tool", tool_call_id=id, text="seen")


USER = Message(role="user", text="hi")


async def test_a_turn_lands_in_one_commit(url: str) -> None:
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        turn = TurnRecorder(backend, "r")
        turn.event(Event(kind=TURN_BEGIN))
        for message in (USER, calling("a", "b"), answering("b"), answering("a")):
            turn.message(message)
        turn.event(Event(kind=TURN_END))
        info = (await backend.runs.get_run(run_id="r")).info
        assert info is not None
        assert (info.message_count, info.event_count) == (0, 0)
        answer = await turn.commit()
        assert (answer.applied, answer.message_count, answer.event_count) == (True, 4, 2)
        assert not (await turn.commit()).applied


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([USER, calling("a")], "messages[1].tool_calls[0].id"),
        ([USER, calling("a", "b"), answering("a")], "messages[1].tool_calls[1].id"),
        ([answering("a"), calling("a")], "messages[0].tool_call_id"),
        ([calling("a"), answering("a"), answering("a")], "messages[2].tool_call_id"),
        ([calling("a"), answering("a"), calling("a")], "messages[2].tool_calls[0].id"),
        ([calling("")], "messages[0].tool_calls[0].id"),
        ([Message(role="tool", text="seen")], "messages[0].tool_call_id"),
        ([Message(role="user", tool_call_id="a")], "messages[0].tool_call_id"),
    ],
)
async def test_a_call_or_result_that_stands_alone_is_refused_and_nothing_is_written(
    messages: list[Message], field: str
) -> None:
    async with open_backend("memory:") as backend:
        await backend.runs.create_run(run_id="r")
        turn = TurnRecorder(backend, "r")
        for message in messages:
            turn.message(message)
        with pytest.raises(InvalidRequestError) as error:
            await turn.commit()
        assert error.value.field == field
        run = (await backend.runs.load_run(run_id="r")).run
        assert run is not None
        assert run.messages == ()


async def test_a_turn_behind_which_another_came_is_a_conflict_and_not_written(url: str) -> None:
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="r")
        turns = [TurnRecorder(backend, "r", expected_count=0) for _ in range(2)]
        for turn in turns:
            turn.message(USER)
        answers = [await turn.commit() for turn in turns]
        assert [answer.conflict for answer in answers] == [False, True]
        unknown = TurnRecorder(backend, "unknown")
        unknown.message(USER)
        assert not (await unknown.commit()).found


async def test_a_turn_that_is_sent_twice_is_written_once() -> None:
    async with open_backend("memory:", interceptors=[repeating("append_messages")]) as backend:
        await backend.runs.create_run(run_id="r")
        turn = TurnRecorder(backend, "r")
        turn.message(USER)
        await turn.commit()
        info = (await backend.runs.get_run(run_id="r")).info
        assert info is not None
        assert info.message_count == 1
