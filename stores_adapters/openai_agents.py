"""OpenAI Agents SDK: a ``Session`` whose items are the messages of a run.

``await Runner.run(agent, "hello", session=BackendSession("t-7", backend))``. Needs the extra
``openai-agents``.
"""

import secrets
from collections.abc import Sequence
from typing import Any, cast

from stores_core import Backend, Event, InvalidRequestError, Message, Run
from stores_core.extras import need

need("agents.memory.session_settings", extra="openai-agents", field="stores_adapters.openai_agents")

from agents import SessionSettings  # noqa: E402 - after need
from agents.items import TResponseInputItem  # noqa: E402 - after need
from agents.memory.session_settings import (  # noqa: E402 - after need
    coerce_session_settings,
    resolve_session_limit,
)

REMOVAL = "openai-agents-removal"
"""The kind of the events that say which items were popped. The last one holds all of them."""

Stretch = tuple[int, int]
"""Positions from the first number up to the second, which is not among them."""


class BackendSession:
    """One conversation: the run whose id is ``session_id``, one message for each item.

    An item comes back equal, key order included. The log of a run only grows, so a popped item
    stays stored and an event says that it is gone; `clear_session` deletes the run with all that
    it held. The session is the only writer of its run's events.

    ``session_settings`` is what the SDK makes of it: its ``limit`` holds where a call gives none.
    Errors are those of the stores. The backend stays the caller's to close.
    """

    def __init__(
        self,
        session_id: str,
        backend: Backend,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.backend = backend
        self.session_settings: SessionSettings | None = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest ``limit`` items, oldest first; all of them without a limit, none with 0.

        Raises InvalidRequestError for a negative, boolean or float limit.
        """
        wanted = _checked(resolve_session_limit(limit, self.session_settings))
        reach = wanted
        while True:
            run = await self._load(reach)
            if run is None:
                return []
            removed = _removed_of(run)
            start = _start_of_newest(wanted, run.message_count, removed)
            first = run.message_count - len(run.messages)
            if start >= first:
                return _items(run.messages[start - first :], start, removed)
            # Removed items stand among the newest messages: look further back.
            reach = run.message_count - start

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append the items, all or none, in one batch that no other writer's divides."""
        if not items:
            return
        messages = [_message_of(item) for item in items]
        runs, key = self.backend.runs, secrets.token_hex(16)
        while True:
            answer = await runs.append_messages(
                run_id=self.session_id, messages=messages, idempotency_key=key
            )
            if answer.found:
                return
            await runs.create_run(run_id=self.session_id)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None where there is none.

        Of any number of callers each gets another item, and none passes over an item that was
        added meanwhile: a pop is one more event, written only where nothing came since it looked.
        """
        while True:
            run = await self._load(1)
            if run is None:
                return None
            removed = _removed_of(run)
            if run.message_count == sum(stop - start for start, stop in removed):
                return None
            position = _start_of_newest(1, run.message_count, removed)
            item = await self._item_at(position, run)
            if item is None:
                continue
            answer = await self.backend.runs.append_events(
                run_id=self.session_id,
                events=[_removal(_with_one_more(position, removed))],
                expected_count=run.event_count,
                expected_messages=run.message_count,
                # A retry below, that did not see the first answer, pops no second item.
                idempotency_key=secrets.token_hex(16),
            )
            if answer.found and not answer.conflict:
                return item

    async def clear_session(self) -> None:
        """Delete the run: all items, popped ones too, leave the storage."""
        await self.backend.runs.delete_run(run_id=self.session_id)

    async def _load(self, last_messages: int | None) -> Run | None:
        answer = await self.backend.runs.load_run(
            run_id=self.session_id, last_messages=last_messages, last_events=1
        )
        return answer.run

    async def _item_at(self, position: int, run: Run) -> TResponseInputItem | None:
        if position == run.message_count - 1:
            return _item_of(run.messages[-1])
        try:
            page = await self.backend.runs.read_messages(
                run_id=self.session_id, start=position, limit=1
            )
        except InvalidRequestError:
            return None  # cleared since, and shorter now
        return _item_of(page.entries[0]) if page.entries else None


def _checked(limit: int | None) -> int | None:
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidRequestError(
            field="limit",
            found=f"{type(limit).__name__} {limit}",
            allowed="a whole number from 0 up, or None for all",
        )
    return limit


def _message_of(item: TResponseInputItem) -> Message:
    """The item whole, in a further field, and a role for other readers of the run to go by."""
    further: dict[str, Any] = {"item": item}
    role = item.get("role")
    if not isinstance(role, str):
        role = "tool" if str(item.get("type")).endswith("_output") else "assistant"
    return Message(role=role, **further)


def _item_of(message: Message) -> TResponseInputItem:
    return cast(TResponseInputItem, (message.model_extra or {})["item"])


def _items(messages: Sequence[Message], start: int, removed: list[Stretch]) -> list[Any]:
    return [
        _item_of(message)
        for position, message in enumerate(messages, start)
        if not any(first <= position < stop for first, stop in removed)
    ]


# Which items are gone. The positions are kept as stretches, ascending, none touching another;
# pops take from the end, so there are few stretches, however many items went.


def _removal(removed: list[list[int]]) -> Event:
    further: dict[str, Any] = {"removed": removed}
    return Event(kind=REMOVAL, **further)


def _removed_of(run: Run) -> list[Stretch]:
    if not run.events:
        return []
    event = run.events[-1]
    if event.kind != REMOVAL:
        raise InvalidRequestError(
            field="session_id",
            found="a run whose events another writer appends",
            allowed="a run that belongs to the session alone",
        )
    return [(start, stop) for start, stop in (event.model_extra or {})["removed"]]


def _with_one_more(position: int, removed: list[Stretch]) -> list[list[int]]:
    joined: list[list[int]] = []
    for start, stop in sorted([*removed, (position, position + 1)]):
        if joined and joined[-1][1] == start:
            joined[-1][1] = stop
        else:
            joined.append([start, stop])
    return joined


def _start_of_newest(wanted: int | None, count: int, removed: list[Stretch]) -> int:
    """The position from which on ``wanted`` items stand; 0 where there are not so many."""
    if wanted is None:
        return 0
    stop = count
    for start, end in [*reversed(removed), (0, 0)]:
        if stop - end >= wanted:
            return stop - wanted
        wanted -= stop - end
        stop = start
    return 0
