"""The OpenAI Agents SDK: sessions in SQLite, and frozen run states."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, read_json, without
from stores_cli.importing.response_items import add_item
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

_SESSIONS, _MESSAGES = "agent_sessions", "agent_messages"
_ITEMS = """
SELECT id, session_id, message_data, created_at FROM agent_messages ORDER BY session_id, id
"""


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    return ("$schemaVersion" in document and "generated_items" in document) or (
        _SESSIONS in source.tables and "message_data" in source.tables.get(_MESSAGES, set())
    )


def read(source: Source) -> Generator[Session]:
    """Each session of a database, or the one run of a state."""
    yield from _from_tables(source) if source.is_sqlite else (_from_state(source),)


def _from_tables(source: Source) -> Iterator[Session]:
    session: Session | None = None
    for number, name, data, created in source.each(source.rows(_ITEMS)):
        if session is None or session.key != str(name):
            if session:
                yield session
            session = source.session(str(name))
        try:
            item = as_dict(read_json(str(data).encode(), source.account.changed))
        except ValueError:
            source.damaged(f"row {number}", "no JSON")
        else:
            add_item(session, item, at=created)
    if session:
        yield session


def _from_state(source: Source) -> Session:
    """The run of a frozen state: its input, what was generated, what waits for an approval."""
    state = as_dict(source.document)
    given: Any = state.get("original_input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    generated = as_list(state.get("generated_items"))
    begin = items or [as_dict(one).get("raw_item") for one in generated[:1]]
    key = state.get("conversation_id") or source.unnamed(*begin)
    session = source.session(str(key), agent=as_dict(state.get("current_agent")).get("name"))
    for item in source.objects(items):
        add_item(session, item)
    for one in source.objects(generated):
        raw = as_dict(one.get("raw_item"))
        beside = without(one, "raw_item")
        if raw and one.get("type") != "tool_approval_item":
            add_item(session, raw, source={"item": beside})
        else:
            session.happen(one.get("type"), source=without(one, "type"))
    session.stand(without(state, "original_input", "generated_items"))
    return session


OPENAI_AGENTS = Format(
    "openai-agents", "OpenAI Agents SDK sessions (SQLite) and run states", recognises, read
)
