"""Tables of Google's Agent Development Kit, in SQLite and Postgres, of any of its schemas."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Any

from stores_cli.importing.databases import Rows, reading
from stores_cli.importing.json_values import as_dict, read_json
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

PICKLED = "pickled actions of an event: refused"
SHARED = "state of an app or a user, which belongs to no session"
_SHARED = ("app_states", "user_states")
_PLACE = ("app_name", "user_id", "id", "state")

Begin = Callable[[Source, Any, Any, Any], Session]
AddEvent = Callable[[Session, dict[str, Any]], None]


def has_sessions(source: Source) -> bool:
    """Whether a database holds such tables."""
    return "sessions" in source.tables and "invocation_id" in source.tables.get("events", set())


async def read_tables(source: Source, begin: Begin, add_event: AddEvent) -> AsyncGenerator[Session]:
    """Each session of a database. ``begin`` makes one of its app, user and id."""
    async with reading(source) as rows:
        session: Session | None = None
        whole = "event_data" in source.tables["events"]
        columns = ["event_data"] if whole else sorted(source.tables["events"] - {"session_id"})
        async for row in rows(_query(source, columns)):
            for app, user, identity, state, event_id, *values in source.each([row]):
                begun = begin(source, app, user, identity)
                if session is None or session.key != begun.key:
                    if session:
                        yield session
                    session = begun
                    session.stand({"state": _value(source, state)})
                if event_id is None:  # a session in which nothing happened yet
                    source.fold()
                    continue
                fields = {
                    name: _value(source, item) for name, item in zip(columns, values, strict=True)
                }
                add_event(session, as_dict(fields["event_data"]) if whole else fields)
        if session:
            yield session
        await _count_shared(source, rows)


def _query(source: Source, columns: list[str]) -> str:
    place = ", ".join(f"s.{name}" for name in _PLACE)
    names = ", ".join('e."' + name.replace('"', '""') + '"' for name in columns)
    # Events of one time stand as they came where the database knows it.
    last = "e.rowid" if source.is_sqlite else "e.id"
    return f"""
        SELECT {place}, e.id, {names} FROM sessions s LEFT JOIN events e
        ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.id
        ORDER BY s.app_name, s.user_id, s.id, e.timestamp, {last}
    """  # noqa: S608 - the names are quoted columns of the table itself


async def _count_shared(source: Source, rows: Rows) -> None:
    for table in _SHARED:
        if table in source.tables:
            async for (count,) in rows(f"SELECT count(*) FROM {table}"):  # noqa: S608 - of _SHARED
                source.account.records += int(count)
                source.account.left_out[SHARED] += int(count)


def _value(source: Source, value: Any) -> Any:
    if isinstance(value, bytes):
        source.leave_out(PICKLED)
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return read_json(value.encode(), source.account.changed)
        except ValueError:
            return value
    return value
