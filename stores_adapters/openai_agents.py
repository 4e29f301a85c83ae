"""OpenAI Agents SDK: a ``Session`` whose items are the messages of a run.

``await Runner.run(agent, "hello", session=BackendSession("t-7", backend))``. Needs the extra
``openai-agents``.
"""

import secrets
from contextlib import suppress
from typing import Any, NamedTuple, cast

from stores_core import Backend, CorruptRecordError, Event, InvalidRequestError, Message, Run
from stores_core.errors import StoreError
from stores_core.extras import need

need("agents.memory.session_settings", extra="openai-agents", field="stores_adapters.openai_agents")

from agents import SessionSettings  # noqa: E402 - after need
from agents.items import TResponseInputItem  # noqa: E402 - after need
from agents.memory.session_settings import (  # noqa: E402 - after need
    coerce_session_settings,
    resolve_session_limit,
)

from stores_adapters.listing import runs_with  # noqa: E402 - after need

SESSION = "openai-agents.session"
"""The label of all runs of a session, its branches too: the id of the session."""

BRANCH = "openai-agents.branch"
"""The label of a run that says its own id: a fork made by hand inherits that of another run."""

MOVED = "openai-agents-moved"
"""The kind of the event that ends a branch: the session goes on in a fork of it."""


class BackendSession:
    """One conversation: one message for each item, beginning in the run ``session_id``.

    An item comes back equal, key order included. Popping an item forks the run one item back and
    goes on in the fork, so what was popped stays where it was; `clear_session` deletes all runs of
    the session. The session is the only writer of its runs' events.

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
        self._moved = False

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest ``limit`` items, oldest first; all of them without a limit, none with 0.

        Raises InvalidRequestError for a negative, boolean or float limit.
        """
        wanted = _checked(resolve_session_limit(limit, self.session_settings))
        branch = await self._branch(wanted)
        return [_item_of(message) for message in branch.run.messages] if branch else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append the items, all or none, in one batch that no other writer's divides."""
        if not items:
            return
        messages = [_message_of(item) for item in items]
        runs, key = self.backend.runs, secrets.token_hex(16)
        run_id, events = self.session_id, 0
        while True:
            answer = await runs.append_messages(
                run_id=run_id, messages=messages, expected_events=events, idempotency_key=key
            )
            if answer.found and not answer.conflict:
                return
            branch = await self._branch(0)
            if branch is None:
                await self._create(self.session_id)
                run_id, events = self.session_id, 0
            else:
                run_id, events = branch.run.id, branch.run.event_count

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None where there is none.

        Of any number of callers each gets another item, and none passes over an item that was
        added meanwhile: the branch ends with an event, written only where nothing came since.
        """
        while True:
            branch = await self._branch(0)
            if branch is None or branch.run.message_count == 0:
                return None
            run, to = branch.run, secrets.token_hex(16)
            move = Move(run.id, _born(run), run.id, run.message_count - 1, to)
            answer = await self.backend.runs.append_events(
                run_id=run.id,
                events=[move.event()],
                expected_count=run.event_count,
                expected_messages=run.message_count,
                # A retry below, that did not see the first answer, pops no second item.
                idempotency_key=secrets.token_hex(16),
            )
            if not answer.found or answer.conflict:
                continue
            # Only now nobody appends to it. Where the session was cleared before the event, and as
            # many items came anew, the event ended nothing.
            ended = await self._load(run.id, 1, 0)
            if ended is None or _born(ended) != _born(run):
                continue
            # The item is popped, whatever happens here: whoever comes next forks as well.
            with suppress(StoreError):
                await self._fork(move)
                await self._say_at_the_root(branch.root, move)
            return _item_of(ended.messages[-1])

    async def clear_session(self) -> None:
        """Delete all runs of the session: all items, popped ones too, leave the storage."""
        # Those that are listed now cannot be of a session that begins anew once the root is gone.
        runs = runs_with(self.backend, {SESSION: self.session_id})
        own = [info.id async for info in runs if info.labels.get(BRANCH) == info.id]
        for run_id in dict.fromkeys([self.session_id, *own]):
            await self.backend.runs.delete_run(run_id=run_id)

    async def fork_session(self, session_id: str, items: int | None = None) -> "BackendSession":
        """A new session that begins with the first ``items`` items of this one, or with all.

        It costs the same however many there are. Raises InvalidRequestError where a run of that
        id is there already, this session has no items yet, or has fewer.
        """
        wanted = _checked(items) or 0
        branch = await self._branch(0)
        held = branch.run.message_count if branch else 0
        if branch is None or wanted > held:
            raise InvalidRequestError(
                field="items", found=f"a session of {held} items", allowed="no more than it has"
            )
        count = held if items is None else wanted
        fork = BackendSession(session_id, self.backend, self.session_settings)
        if not await fork._fork(Move("", "", branch.run.id, count, session_id)):
            raise InvalidRequestError(
                field="session_id", found="a run that is there already", allowed="a new id"
            )
        return fork

    async def _branch(self, last_messages: int | None) -> "Branch | None":
        """Where the session goes on, with its newest messages; None where none is."""
        run_id, root, reached_by, tried = self.session_id, None, None, set[Move]()
        while True:
            # A root that was left behind is not read whole just to be told so.
            wanted = 0 if self._moved and root is None else last_messages
            run = await self._load(run_id, wanted, 1)
            if run is None:
                if root is None or reached_by is None:
                    return None
                if reached_by in tried:
                    raise CorruptRecordError(store="runs", id=run_id, position=0)
                # Whoever popped was cut off before the fork. Then from the root again: the
                # session may as well have been cleared meanwhile.
                tried.add(reached_by)
                await self._fork(reached_by)
                run_id, root, reached_by = self.session_id, None, None
                continue
            move = await self._move_of(run)
            if root is None:
                self._moved = move is not None
            if move is not None:
                run_id, root, reached_by = move.to, root or run, move
            elif wanted == last_messages:
                return Branch(root or run, run)

    async def _load(self, run_id: str, messages: int | None, events: int) -> Run | None:
        answer = await self.backend.runs.load_run(
            run_id=run_id, last_messages=messages, last_events=events
        )
        return answer.run

    async def _move_of(self, run: Run) -> "Move | None":
        """The newest move that ended this very run, if it has ended."""
        moves = [_read_move(event) for event in run.events]
        if moves and not any(move.is_of(run) for move in moves):
            # A stray one stands last: look behind it.
            whole = await self._load(run.id, 0, run.event_count)
            moves = [_read_move(event) for event in whole.events] if whole else []
        return next((move for move in reversed(moves) if move.is_of(run)), None)

    async def _fork(self, move: "Move") -> bool:
        """Make the run that the move names, if it is not there. False where it was not made."""
        if move.items == 0:
            return await self._create(move.to)
        fork = await self.backend.runs.fork_run(
            run_id=move.source,
            new_run_id=move.to,
            at_message=move.items,
            labels=self._labels(move.to),
        )
        return fork.created

    async def _create(self, run_id: str) -> bool:
        created = await self.backend.runs.create_run(run_id=run_id, labels=self._labels(run_id))
        return created.created

    def _labels(self, run_id: str) -> dict[str, str]:
        return {SESSION: self.session_id, BRANCH: run_id}

    async def _say_at_the_root(self, root: Run, move: "Move") -> None:
        """So that nobody walks from branch to branch; an older word here is no worse."""
        if move.source != root.id:
            event = move._replace(of=root.id, born=_born(root)).event()
            await self.backend.runs.append_events(run_id=root.id, events=[event])


class Branch(NamedTuple):
    """The run in which a session goes on, and the one in which it began."""

    root: Run
    run: Run


class Move(NamedTuple):
    """Where a session goes on: the run ``of`` ends, ``to`` begins as the first ``items`` items
    of ``source``. ``born`` says which run of that id it was.

    Not all moves among a run's events are its own: a fork inherits those of its source, and one
    may come late, after the session was cleared and begun anew.
    """

    of: str
    born: str
    source: str
    items: int
    to: str

    def event(self) -> Event:
        further: dict[str, Any] = {"move": self._asdict()}
        return Event(kind=MOVED, **further)

    def is_of(self, run: Run) -> bool:
        return (self.of, self.born) == (run.id, _born(run))


def _born(run: Run) -> str:
    return run.created_at.isoformat()


def _read_move(event: Event) -> Move:
    if event.kind != MOVED:
        raise InvalidRequestError(
            field="session_id",
            found="a run whose events another writer appends",
            allowed="a run that belongs to the session alone",
        )
    return Move(**(event.model_extra or {})["move"])


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
