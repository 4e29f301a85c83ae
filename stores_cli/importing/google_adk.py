"""Sessions of Google's Agent Development Kit: JSON, its SQLite tables, and eval cases."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.gemini_content import call_of, say_parts
from stores_cli.importing.json_values import as_dict, as_list, filled, read_json, without
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

PICKLED = "pickled actions of an event: refused"
_KEY = ("app_name", "user_id", "id")


def recognises(source: Source) -> bool:
    document = source.document
    held = as_dict(document)
    return (
        ("events" in held and "id" in held and ("state" in held or "context" in held))
        or "eval_cases" in held
        or any("data" in one and "initial_state" in one for one in source.sample)
        or ("invocation_id" in source.tables.get("events", set()) and "sessions" in source.tables)
    )


def read(source: Source) -> Generator[Session]:
    """Each session of a file or a database; an eval case is a session too."""
    if source.is_sqlite:
        yield from _from_tables(source)
    elif "events" in as_dict(source.document):
        yield _from_document(source)
    else:
        yield from _from_cases(source)


def _from_document(source: Source) -> Session:
    document = as_dict(source.document)
    session = _begin(source, *(document.get(name) for name in _KEY))
    for event in source.objects(
        [*as_list(document.get("past_events")), *as_list(document["events"])]
    ):
        add_event(session, event)
    session.stand(without(document, "events", "past_events"))
    return session


def _begin(source: Source, app: Any, user: Any, identity: Any) -> Session:
    key = "/".join(str(part) for part in (app, user, identity) if part)
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


def _from_tables(source: Source) -> Iterator[Session]:
    whole = "event_data" in source.tables["events"]
    columns = ["event_data"] if whole else sorted(source.tables["events"] - {"session_id"})
    names = ", ".join(f'e."{name}"' for name in columns)
    query = f"""
        SELECT s.app_name, s.user_id, s.id, s.state, {names} FROM sessions s JOIN events e
        ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.id
        ORDER BY s.app_name, s.user_id, s.id, e.timestamp
    """  # noqa: S608 - the names are quoted columns of the table itself
    session: Session | None = None
    for app, user, identity, state, *values in source.each(source.rows(query)):
        begun = _begin(source, app, user, identity)
        if session is None or session.key != begun.key:
            if session:
                yield session
            session = begun
            session.stand({"state": _json(source, state)})
        fields = {name: _json(source, item) for name, item in zip(columns, values, strict=True)}
        add_event(session, as_dict(fields["event_data"]) if whole else fields)
    if session:
        yield session


def _json(source: Source, value: Any) -> Any:
    if isinstance(value, bytes):
        source.leave_out(PICKLED)
        return None
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return read_json(value.encode(), source.account.changed)
        except ValueError:
            return value
    return value


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
    "google-adk", "Google ADK sessions (JSON, SQLite) and eval cases", recognises, read
)
