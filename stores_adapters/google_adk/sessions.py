"""Sessions of Google ADK: the events are the messages of a run, the state its events."""

import asyncio
import secrets
from typing import Any
from weakref import WeakValueDictionary

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from pydantic_core import PydanticSerializationError, to_jsonable_python

from stores_adapters.google_adk.names import joined, labels_of
from stores_adapters.google_adk.state import (
    NEWEST,
    change,
    change_shared,
    divided,
    folded,
    merged,
    shared_state,
    whole,
)
from stores_adapters.listing import runs_with
from stores_core import Backend, InvalidRequestError, Message, Run


class BackendSessionService(BaseSessionService):
    """Keeps each session in a run of its own, and the state of users and apps in runs of theirs.

    An event is appended only to the session that its writer has seen: one that was written since,
    or deleted and made anew, is a StaleSessionError. Events come in the order in which they were
    appended, whatever their timestamps say. State is JSON; another value is refused before
    anything is written.

    Errors are ADK's and those of the stores. The backend stays the caller's to close.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Agents that run side by side append to one session object: each after the other.
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Raises AlreadyExistsError for a taken id. An id is taken without the spaces around it."""
        id = (session_id or "").strip() or secrets.token_hex(16)
        own, user, app = divided(_json("state", state or {}))
        run_id = joined("session", app_name, user_id, id)
        await self._backend.runs.create_run(
            run_id=run_id,
            labels={**labels_of("session", app_name, user_id), "google-adk-session": id},
        )
        # A run without a state is no session yet, so this is the step that makes it one.
        made = await self._backend.runs.append_events(
            run_id=run_id,
            events=[whole(own)],
            expected_count=0,
            idempotency_key=secrets.token_hex(16),
        )
        if made.conflict or not made.found:
            raise AlreadyExistsError(f"Session with id {id} already exists.")
        await self._share(app_name, user_id, user, app)
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=id)
        if session is None:
            raise SessionNotFoundError(f"Session {id} was deleted as it was created.")
        return session

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """With ``num_recent_events`` at a cost that follows that number."""
        recent = config.num_recent_events if config else None
        answer = await self._backend.runs.load_run(
            run_id=joined("session", app_name, user_id, session_id.strip()),
            # The newest message tells when the session was last written.
            last_messages=None if recent is None else max(recent, 1),
            last_events=NEWEST,
        )
        if answer.run is None or not answer.run.events:
            return None
        session = await self._session_of(answer.run, app_name, user_id)
        session.events = [_event_of(message) for message in answer.run.messages]
        if recent == 0:
            session.events = []
        if config and config.after_timestamp is not None:
            session.events = [
                event for event in session.events if event.timestamp >= config.after_timestamp
            ]
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Without events, the one written last at the end; looks at each session."""
        sessions: list[Session] = []
        async for info in runs_with(self._backend, labels_of("session", app_name, user_id)):
            answer = await self._backend.runs.load_run(
                run_id=info.id, last_messages=1, last_events=NEWEST
            )
            if answer.run is not None and answer.run.events:
                user = answer.run.labels["google-adk-user"].removeprefix("user ")
                sessions.append(await self._session_of(answer.run, app_name, user))
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the run. What the session wrote into the state of its user and app stays."""
        run_id = joined("session", app_name, user_id, session_id.strip())
        await self._backend.runs.delete_run(run_id=run_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await shared_state(self._backend, joined("user", app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event and its change of the state in one step.

        What it changes of the state of user and app follows in a step of its own. Raises
        StaleSessionError, SessionNotFoundError.
        """
        if event.partial:
            return event
        run_id = joined("session", session.app_name, session.user_id, session.id)
        async with self._turns.setdefault(run_id, asyncio.Lock()):
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            own, user, app = divided(_json("event.actions.state_delta", event.actions.state_delta))
            answer = await self._backend.runs.load_run(
                run_id=run_id, last_messages=1, last_events=NEWEST
            )
            run = answer.run
            if run is None or not run.events:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            _refuse_stale(session, run)
            written = await self._backend.runs.append_messages(
                run_id=run_id,
                messages=[_message_of(event)],
                events=[change(run.events, own)] if own else [],
                expected_count=run.message_count,
                expected_events=run.event_count,
                # A retry below, that did not see the first answer, is no other writer.
                idempotency_key=secrets.token_hex(16),
            )
            if not written.found:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if written.conflict:
                raise _stale(session)
            await self._share(session.app_name, session.user_id, user, app)
            session.last_update_time = event.timestamp
            _set_marker(session, _marker(run, written.message_count))
            return self._commit_event_to_session(session, event)

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str,
        at_event: int | None = None,
    ) -> Session:
        """Start a session as the first ``at_event`` events of another, with the state of then.

        It shares those events, at a cost that their number does not change but for reading them
        where some are left out. Raises SessionNotFoundError, AlreadyExistsError.
        """
        run_id = joined("session", app_name, user_id, session_id.strip())
        id = new_session_id.strip()
        source = (await self._backend.runs.load_run(run_id=run_id)).run
        if source is None or not source.events:
            raise SessionNotFoundError(f"Session {session_id} not found.")
        cut = source.message_count if at_event is None else at_event
        if not 0 < cut <= source.message_count:
            raise InvalidRequestError(
                field="at_event",
                found=str(cut),
                allowed=f"1 to {source.message_count}, the number of events of the session",
            )
        own = folded(source.events[:1])
        for message in source.messages[:cut]:
            own |= divided(_event_of(message).actions.state_delta)[0]
        fork_id = joined("session", app_name, user_id, id)
        forked = await self._backend.runs.fork_run(
            run_id=run_id,
            new_run_id=fork_id,
            at_message=cut,
            labels={**source.labels, "google-adk-session": id},
        )
        made = (await self._backend.runs.get_run(run_id=fork_id)).info
        # One without a state is a fork that was cut off before its last step, which follows.
        unfinished = made and (forked.parent_id, forked.fork_point) == (run_id, cut)
        if not forked.created and not (unfinished and made and not made.event_count):
            raise AlreadyExistsError(f"Session with id {id} already exists.")
        if cut < source.message_count:  # whose events, so its state, did not come along
            await self._backend.runs.append_events(
                run_id=fork_id, events=[whole(own)], expected_count=0
            )
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=id)
        if session is None:
            raise SessionNotFoundError(f"Session {id} was deleted as it was created.")
        return session

    async def _share(
        self, app_name: str, user_id: str, user: dict[str, Any], app: dict[str, Any]
    ) -> None:
        await change_shared(self._backend, joined("user", app_name, user_id), user)
        await change_shared(self._backend, joined("app", app_name), app)

    async def _session_of(self, run: Run, app_name: str, user_id: str) -> Session:
        user = await shared_state(self._backend, joined("user", app_name, user_id))
        app = await shared_state(self._backend, joined("app", app_name))
        session = Session(
            id=run.labels["google-adk-session"],
            app_name=app_name,
            user_id=user_id,
            state=merged(folded(run.events), user, app),
            last_update_time=(
                _event_of(run.messages[-1]).timestamp
                if run.messages
                else run.created_at.timestamp()
            ),
        )
        _set_marker(session, _marker(run, run.message_count))
        return session


# ADK's sessions have a private field for the revision that a storage gave them.


def _marker(run: Run, count: int) -> str:
    return f"{run.created_at.isoformat()} {count}"


def _set_marker(session: Session, marker: str) -> None:
    session._storage_update_marker = marker  # type: ignore[reportPrivateUsage]  # noqa: SLF001


def _refuse_stale(session: Session, run: Run) -> None:
    marker = session._storage_update_marker  # type: ignore[reportPrivateUsage]  # noqa: SLF001
    if marker is not None:
        current = marker == _marker(run, run.message_count)
    else:  # made by hand: it has seen what is stored if its newest event is the one stored last
        stored = [_event_of(message).id for message in run.messages[-1:]]
        current = stored == [event.id for event in session.events[-1:]]
    if not current:
        raise _stale(session)


def _stale(session: Session) -> StaleSessionError:
    return StaleSessionError(
        f"Session {session.id} has been modified in storage since it was read; get it again."
    )


def _json(field: str, value: dict[str, Any]) -> dict[str, Any]:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise InvalidRequestError(
            field=field, found="a value that JSON has no form for", allowed="JSON values"
        ) from error


def _message_of(event: Event) -> Message:
    """The event whole, in a further field, and role and text for other readers of the run."""
    parts = (event.content.parts if event.content else None) or []
    try:
        stored = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidRequestError(
            field="event", found="a value that JSON has no form for", allowed="JSON values"
        ) from error
    further: dict[str, Any] = {"event": stored}
    return Message(
        role="user" if event.author == "user" else "assistant",
        text="\n".join(part.text for part in parts if part.text),
        **further,
    )


def _event_of(message: Message) -> Event:
    return Event.model_validate((message.model_extra or {})["event"])
