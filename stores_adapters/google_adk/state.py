"""State as the event log of a run: changes, and now and then the whole.

So a state is read from a bounded number of events, and a change writes no more than it changes,
but for every `CHAIN`-th.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.sessions.state import State

from stores_core import Backend, Event

STATE = "google-adk-state"
CHAIN = 32
NEWEST = CHAIN + 1
"""So many of the newest events hold the whole state."""


def divided(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The changes that are the session's, the user's and the app's. Those of `temp:` are nobody's.

    The keys are bare: without ``user:`` and ``app:``.
    """
    session, user, app = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for key, value in delta.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            session[key] = value
    return session, user, app


def merged(
    session: Mapping[str, Any], user: Mapping[str, Any], app: Mapping[str, Any]
) -> dict[str, Any]:
    """The inverse of `divided`: what an agent of the session sees."""
    return {
        **session,
        **{State.APP_PREFIX + key: value for key, value in app.items()},
        **{State.USER_PREFIX + key: value for key, value in user.items()},
    }


def whole(state: Mapping[str, Any]) -> Event:
    further: dict[str, Any] = {"state": dict(state)}
    return Event(kind=STATE, **further)


def folded(newest: Sequence[Event]) -> dict[str, Any]:
    """The state, from the `NEWEST` events."""
    state: dict[str, Any] = {}
    for event in newest:
        further = event.model_extra or {}
        state = dict(further["state"]) if "state" in further else {**state, **further["delta"]}
    return state


def change(newest: Sequence[Event], delta: Mapping[str, Any]) -> Event:
    """The event that changes the state which the `NEWEST` events hold."""
    if any("state" in (event.model_extra or {}) for event in newest[-CHAIN:]):
        further: dict[str, Any] = {"delta": dict(delta)}
        return Event(kind=STATE, **further)
    return whole({**folded(newest), **delta})


async def shared_state(backend: Backend, run_id: str) -> dict[str, Any]:
    """The state that a run of its own keeps; empty where there is none."""
    answer = await backend.runs.load_run(run_id=run_id, last_messages=0, last_events=NEWEST)
    return folded(answer.run.events) if answer.run else {}


async def change_shared(backend: Backend, run_id: str, delta: Mapping[str, Any]) -> None:
    """Change a state that sessions share. Of changes to one key that race the last one holds."""
    while delta:
        answer = await backend.runs.load_run(run_id=run_id, last_messages=0, last_events=NEWEST)
        if answer.run is None:
            await backend.runs.create_run(run_id=run_id)
            continue
        written = await backend.runs.append_events(
            run_id=run_id,
            events=[change(answer.run.events, delta)],
            expected_count=answer.run.event_count,
            idempotency_key=secrets.token_hex(16),
        )
        if written.found and not written.conflict:
            return
