"""Sessions of Google's Agent Development Kit: JSON, its tables, and eval cases."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from pydantic.alias_generators import to_camel

from stores_cli.importing.formats import Format
from stores_cli.importing.gemini_content import call_of, say_parts
from stores_cli.importing.google_adk_tables import has_sessions, read_tables
from stores_cli.importing.json_values import as_dict, as_list, filled, without
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_KEY = ("app_name", "user_id", "id")


def recognises(source: Source) -> bool:
    return (
        any(map(_is_session, source.sample))
        or "eval_cases" in as_dict(source.document)
        or any("data" in one and "initial_state" in one for one in source.sample)
        or has_sessions(source)
    )


def _is_session(record: dict[str, Any]) -> bool:
    return "events" in record and "id" in record and ("state" in record or "context" in record)


async def read(source: Source) -> AsyncGenerator[Session]:
    """Each session of a file or a database; an eval case is a session too."""
    if source.is_sqlite or source.is_postgres:
        async with aclosing(read_tables(source, begin, add_event)) as sessions:
            async for session in sessions:
                yield session
    elif _is_session(as_dict(source.document)):
        yield _from_record(source, as_dict(source.document))
    elif any(map(_is_session, source.sample)):
        for record in source.records():
            if _is_session(record):
                source.fold()
                yield _from_record(source, record)
    else:
        for session in _from_cases(source):
            yield session


def _from_record(source: Source, record: dict[str, Any]) -> Session:
    # The service of the ADK writes camelCase, its Python classes do not.
    session = begin(source, *(record.get(name, record.get(to_camel(name))) for name in _KEY))
    for event in source.objects([*as_list(record.get("past_events")), *as_list(record["events"])]):
        add_event(session, event)
    session.stand(without(record, "events", "past_events"))
    return session


def begin(source: Source, app: Any, user: Any, identity: Any) -> Session:
    """A session, named by the three parts of its id."""
    given = (str(part) for part in (app, user, identity) if part)
    key = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in given)
    return source.session(key, app=app, user=user)


def add_event(session: Session, event: dict[str, Any]) -> None:
    """Add one event: what was said and called to the messages, a mere change of state to the
    events."""
    content, at = as_dict(event.get("content")), event.get("timestamp")
    beside = filled(without(event, "content", "timestamp"))
    role = str(content.get("role") or ("user" if event.get("author") == "user" else "model"))
    further = without(content, "role", "parts")
    if not say_parts(session, role, content.get("parts"), at=at, source=further | beside):
        session.happen("state", at=at, source=beside | further)


def _from_cases(source: Source) -> Iterator[Session]:
    document = as_dict(source.document)
    in_set = "eval_cases" in document
    cases = source.objects_of(document, "eval_cases") if in_set else source.records()
    for number, case in enumerate(cases):
        name = case.get("eval_id") or case.get("name") or number
        session = source.session(f"{document.get('eval_set_id') or source.unnamed()}/{name}")
        for turn in map(as_dict, as_list(case.get("conversation"))):
            _turn(session, turn)
        for turn in map(as_dict, as_list(case.get("data"))):
            _oldest_turn(session, turn)
        session.happen("case", source=without(case, "conversation", "data"))
        yield session


def _turn(session: Session, turn: dict[str, Any]) -> None:
    at, between = turn.get("creation_timestamp"), as_dict(turn.get("intermediate_data"))
    beside = without(
        turn, "user_content", "final_response", "intermediate_data", "creation_timestamp"
    )
    say_parts(session, "user", as_dict(turn.get("user_content")).get("parts"), at=at, source=beside)
    made = [found for one in as_list(between.get("tool_uses"))
            if (found := call_of({"functionCall": as_dict(one)}))]  # fmt: skip
    rest = filled(without(between, "tool_uses"))
    if made or rest:
        session.say("assistant", calls=made, source=rest)
    say_parts(session, "model", as_dict(turn.get("final_response")).get("parts"))


def _oldest_turn(session: Session, turn: dict[str, Any]) -> None:
    session.say("user", turn.get("query"))
    made = [call("", one.get("tool_name"), one.get("tool_input"))
            for one in map(as_dict, as_list(turn.get("expected_tool_use")))]  # fmt: skip
    rest = filled(without(turn, "query", "expected_tool_use", "reference"))
    if made or rest:
        session.say("assistant", calls=made, source=rest)
    if "reference" in turn:
        session.say("assistant", turn["reference"])


GOOGLE_ADK = Format(
    "google-adk", "Google ADK sessions (JSON, SQLite, Postgres) and eval cases", recognises, read
)
