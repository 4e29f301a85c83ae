"""One turn in one commit: its messages and events land together, or none of them."""

import secrets
from collections.abc import Sequence

from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.errors import InvalidRequestError
from stores_core.runs import AppendMessagesResponse


class TurnRecorder:
    """Collects what happens in one turn of a run; `commit` appends it.

    ``expected_count`` is the number of messages that the run must have then, where another writer
    shall not come between.
    """

    def __init__(self, backend: Backend, run_id: str, *, expected_count: int | None = None) -> None:
        self._runs = backend.runs
        self._run_id = run_id
        self._expected_count = expected_count
        self._key = secrets.token_hex(16)
        self._messages: list[Message] = []
        self._events: list[Event] = []

    def message(self, message: Message) -> None:
        """Take down a message of the turn."""
        self._messages.append(message)

    def event(self, event: Event) -> None:
        """Take down an event of the turn."""
        self._events.append(event)

    async def commit(self) -> AppendMessagesResponse:
        """Append all that was taken down, and answer as append_messages does.

        Raises InvalidRequestError, and writes nothing, where a tool call has not exactly one
        result after it, or a result no call. After OutcomeUnknownError commit again: what arrived
        is not written twice.
        """
        check_paired(self._messages)
        return await self._runs.append_messages(
            run_id=self._run_id,
            messages=self._messages,
            events=self._events,
            expected_count=self._expected_count,
            idempotency_key=self._key,
        )


def check_paired(messages: Sequence[Message]) -> None:
    """Raise InvalidRequestError, with its place, for a tool call or result that stands alone."""
    called: dict[str, str] = {}
    answered: set[str] = set()
    for number, message in enumerate(messages):
        for index, call in enumerate(message.tool_calls or ()):
            field = f"messages[{number}].tool_calls[{index}].id"
            if not call.id:
                raise InvalidRequestError(field=field, found="nothing", allowed="the call's id")
            if call.id in called:
                raise _unpaired(field, "the id of another call", "an id that is new in the turn")
            called[call.id] = field
        if message.role == "tool" or message.tool_call_id:
            field = f"messages[{number}].tool_call_id"
            if message.tool_call_id not in called:
                raise _unpaired(field, "no id of a call before it", "the id of a call of the turn")
            if message.tool_call_id in answered:
                raise _unpaired(field, "a second result of a call", "one result for each call")
            answered.add(message.tool_call_id)
    for id, field in called.items():
        if id not in answered:
            raise _unpaired(field, "a call without a result", "a tool message with its id after it")


def _unpaired(field: str, found: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(field=field, found=found, allowed=allowed)
