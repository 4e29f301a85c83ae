"""The session service for Google ADK: what ADK asks of any, and what ours promises beyond."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from stores_adapters.google_adk import BackendSessionService
from stores_core import InvalidRequestError, open_backend
from tests.meanwhile import Meanwhile, repeating

APP: Any = {"app_name": "app", "user_id": "anna"}
HERS: Any = {**APP, "session_id": "s"}


def event(text: str = "", at: float | None = None, **delta: Any) -> Event:
    made = Event(author="user", actions=EventActions(state_delta=delta))
    if text:
        made.content = types.Content(role="user", parts=[types.Part(text=text)])
    if at is not None:
        made.timestamp = at
    return made


def said(session: Session | None) -> list[str | None]:
    assert session is not None
    return [
        one.content.parts[0].text if one.content and one.content.parts else None
        for one in session.events
    ]


async def test_a_session_comes_back_equal(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**APP, state={"key": {"deep": [1.0, None]}})
        full = Event(
            invocation_id="i",
            author="agent",
            content=types.Content(
                role="user", parts=[types.Part.from_bytes(data=b"\0\xff", mime_type="image/png")]
            ),
            turn_complete=True,
            actions=EventActions(
                artifact_delta={"file": 0}, transfer_to_agent="other", state_delta={"none": None}
            ),
            long_running_tool_ids={"tool"},
            error_code="code",
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
            custom_metadata={"key": "value"},
            timestamp=1700000000.123,
        )
        await service.append_event(session, full)
        await service.append_event(session, event("and text", own="value"))
        got = await service.get_session(**APP, session_id=session.id)
        assert got is not None
        assert got == session
        assert got.state == {"key": {"deep": [1.0, None]}, "none": None, "own": "value"}


async def test_an_unknown_session_is_none_and_its_deletion_does_nothing(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        assert await service.get_session(**HERS) is None
        await service.delete_session(**HERS)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(**APP, id="s"), event("x"))


async def test_a_taken_id_is_refused_and_a_deleted_one_begins_anew(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS, state={"a": 1})
        await service.append_event(session, event("hello"))
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**HERS)
        assert said(await service.get_session(**HERS)) == ["hello"]
        await service.delete_session(**HERS)
        anew = await service.create_session(**HERS)
        assert (anew.state, anew.events) == ({}, [])
        with pytest.raises(StaleSessionError):
            await service.append_event(session, event("of the old one"))


async def test_of_creates_that_race_one_is_served(url: str) -> None:
    async with open_backend(url) as backend:
        calls = [BackendSessionService(backend).create_session(**HERS) for _ in range(6)]
        made = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(one, Session) for one in made) == 1
        assert sum(isinstance(one, AlreadyExistsError) for one in made) == 5


async def test_an_id_is_taken_without_the_spaces_around_it(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**APP, session_id="  s ")
        assert session.id == "s"
        assert await service.get_session(**APP, session_id=" s  ") == session
        await service.delete_session(**APP, session_id=" s")
        assert await service.get_session(**HERS) is None
        generated = await service.create_session(**APP, session_id="   ")
        assert generated.id.strip()


async def test_state_is_the_sessions_the_users_the_apps_or_nobodys(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        state = {"own": 1, "user:her": 2, "app:all": 3, "temp:gone": 4}
        session = await service.create_session(**HERS, state=state)
        assert session.state == {"own": 1, "user:her": 2, "app:all": 3}
        changed = event("", None, **{"own2": 5, "user:her": 6, "app:all2": 7, "temp:now": 8})
        await service.append_event(session, changed)
        assert session.state["temp:now"] == 8
        assert "temp:now" not in changed.actions.state_delta
        stored = await service.get_session(**HERS)
        assert stored
        assert stored.state == {
            "own": 1,
            "own2": 5,
            "user:her": 6,
            "app:all": 3,
            "app:all2": 7,
        }
        assert "temp:now" not in stored.events[0].actions.state_delta
        second = await service.create_session(**APP, session_id="s2")
        assert second.state == {"user:her": 6, "app:all": 3, "app:all2": 7}
        ben = await service.create_session(app_name="app", user_id="ben", session_id="s")
        assert ben.state == {"app:all": 3, "app:all2": 7}
        other = await service.create_session(app_name="other", user_id="anna", session_id="s")
        assert other.state == {}
        assert await service.get_user_state(app_name="app", user_id="anna") == {"her": 6}
        assert await service.get_user_state(app_name="app", user_id="ben") == {}


async def test_a_state_of_many_changes_is_whole_at_every_step(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS, state={"first": 0})
        for number in range(70):
            await service.append_event(session, event("", None, **{f"k{number % 40}": number}))
        stored = await service.get_session(**HERS, config=GetSessionConfig(num_recent_events=1))
        assert stored
        assert stored.state == session.state
        assert stored.state["first"] == 0
        assert len(stored.state) == 41


async def test_a_partial_event_is_not_kept(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS)
        partial = event("hal")
        partial.partial = True
        await service.append_event(session, partial)
        assert said(await service.get_session(**HERS)) == []


async def test_events_are_filtered_by_number_and_time(url: str) -> None:
    async with open_backend(url) as backend:
        service, theirs = BackendSessionService(backend), InMemorySessionService()
        for one in (service, theirs):
            session = await one.create_session(**HERS)
            for at in (1.0, 2.0, 3.0, 4.0):
                await one.append_event(session, event(f"at {at}", at=at))
        for config in (
            GetSessionConfig(num_recent_events=0),
            GetSessionConfig(num_recent_events=2),
            GetSessionConfig(num_recent_events=9),
            GetSessionConfig(after_timestamp=3.0),
            GetSessionConfig(after_timestamp=9.0),
            GetSessionConfig(num_recent_events=3, after_timestamp=3.0),
        ):
            ours = await service.get_session(**HERS, config=config)
            assert said(ours) == said(await theirs.get_session(**HERS, config=config)), config


async def test_order_is_that_of_appending_whatever_the_times_say(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS)
        for text, at in (("first", 9.0), ("second", 3.0), ("third", 3.0)):
            await service.append_event(session, event(text, at=at))
        assert said(await service.get_session(**HERS)) == ["first", "second", "third"]
        assert session.last_update_time == 3.0


async def test_listings_have_no_events_and_end_with_the_session_written_last(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        now = datetime.now().timestamp()  # noqa: DTZ005 - a number all the same
        for user, id, at in (("anna", "1", 30), ("anna", "2", 10), ("ben", "1", 20)):
            session = await service.create_session(
                app_name="app", user_id=user, session_id=id, state={"key": id, "app:a": 1}
            )
            await service.append_event(session, event("x", at=now + at))
        await service.create_session(app_name="other", user_id="anna", session_id="3")
        hers = (await service.list_sessions(app_name="app", user_id="anna")).sessions
        assert [(one.id, one.events) for one in hers] == [("2", []), ("1", [])]
        assert hers[0].state == {"key": "2", "app:a": 1}
        all = (await service.list_sessions(app_name="app")).sessions
        assert [(one.user_id, one.id) for one in all] == [
            ("anna", "2"),
            ("ben", "1"),
            ("anna", "1"),
        ]
        assert (await service.list_sessions(app_name="app", user_id="cleo")).sessions == []


async def test_a_stale_writer_is_refused_and_changes_nothing(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        stale = await service.create_session(**HERS)
        fresh = await service.get_session(**HERS)
        assert fresh
        await service.append_event(fresh, event("fresh", a=1))
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, event("stale", a=2, **{"app:b": 2}))
        stored = await service.get_session(**HERS)
        assert stored == fresh
        stale.last_update_time = fresh.last_update_time + 100  # no clock makes it current
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, event("stale"))
        fresh.last_update_time -= 0.1
        await service.append_event(fresh, event("and on"))


async def test_of_writers_that_have_seen_the_same_one_is_served(url: str) -> None:
    async with open_backend(url) as backend:
        session = await BackendSessionService(backend).create_session(**HERS)
        answers = await asyncio.gather(
            *[
                BackendSessionService(backend).append_event(
                    session.model_copy(deep=True), event(f"{number}", **{f"k{number}": 1})
                )
                for number in range(6)
            ],
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Event) for answer in answers) == 1
        assert sum(isinstance(answer, StaleSessionError) for answer in answers) == 5
        stored = await BackendSessionService(backend).get_session(**HERS)
        assert stored
        assert (len(stored.events), len(stored.state)) == (1, 1)


async def test_a_write_between_looking_and_writing_is_noticed(url: str) -> None:
    before_the_append = Meanwhile("append_messages")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        service = BackendSessionService(backend)
        ours = await service.create_session(**HERS)
        theirs = ours.model_copy(deep=True)
        other = BackendSessionService(backend)
        before_the_append.act = lambda: other.append_event(theirs, event("theirs"))
        with pytest.raises(StaleSessionError):
            await service.append_event(ours, event("ours"))
        assert said(await service.get_session(**HERS)) == ["theirs"]


async def test_agents_side_by_side_append_to_one_session_object(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS)
        calls = [service.append_event(session, event(f"{number}")) for number in range(10)]
        await asyncio.gather(*calls)
        stored = await service.get_session(**HERS)
        assert said(stored) == said(session)
        assert sorted(map(str, said(stored))) == sorted(map(str, range(10)))


async def test_a_session_made_by_hand_must_end_with_what_is_stored(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS)
        await service.append_event(session, event("one"))
        by_hand = Session.model_validate(session.model_dump())
        await service.append_event(by_hand, event("two"))
        with pytest.raises(StaleSessionError):
            await service.append_event(Session.model_validate(session.model_dump()), event("no"))


async def test_an_event_that_is_repeated_below_the_service_counts_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS)
        await service.append_event(session, event("one"))
        await service.append_event(session, event("two"))
        assert said(await service.get_session(**HERS)) == ["one", "two"]


async def test_a_value_that_json_has_no_form_for_is_refused_before_anything_is_written() -> None:
    async with open_backend("memory:") as backend:
        service = BackendSessionService(backend)
        with pytest.raises(InvalidRequestError, match="state"):
            await service.create_session(**HERS, state={"f": object()})
        session = await service.create_session(**HERS)
        with pytest.raises(InvalidRequestError, match="state_delta"):
            await service.append_event(session, event("x", f=object()))
        assert said(await service.get_session(**HERS)) == []


async def test_a_fork_has_the_state_of_its_last_event(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendSessionService(backend)
        session = await service.create_session(**HERS, state={"first": 0})
        for number in range(3):
            await service.append_event(session, event(f"{number}", n=number))
        at_two = await service.fork_session(**HERS, new_session_id="two", at_event=2)
        whole = await service.fork_session(**HERS, new_session_id="whole")
        assert (said(at_two), at_two.state) == (["0", "1"], {"first": 0, "n": 1})
        assert (said(whole), whole.state) == (["0", "1", "2"], {"first": 0, "n": 2})
        await service.append_event(at_two, event("left", n="left"))
        await service.append_event(session, event("right", n="right"))
        for id, text in (("two", "left"), ("s", "right")):
            got = await service.get_session(**APP, session_id=id)
            assert got
            assert (said(got)[-1], got.state["n"]) == (text, text)
        with pytest.raises(AlreadyExistsError):
            await service.fork_session(**HERS, new_session_id="two", at_event=2)
        with pytest.raises(InvalidRequestError, match="at_event"):
            await service.fork_session(**HERS, new_session_id="x", at_event=9)
        with pytest.raises(SessionNotFoundError):
            await service.fork_session(**APP, session_id="no", new_session_id="x")
