"""States and histories of AutoGen: of an agent, of a team, and recorded calls of models."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, given, read_json_text, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_ROLES = {"SystemMessage": "system", "UserMessage": "user", "AssistantMessage": "assistant"}
_RESULTS = "FunctionExecutionResultMessage"


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    first = [as_dict(one) for one in as_list(document.get("messages"))[:1]]
    return (
        "llm_messages" in document
        or "agent_states" in document
        or any(str(one.get("type", "")).endswith("Message") and "content" in one for one in first)
        or any("mode" in one and "messages" in one and "response" in one for one in source.sample)
    )


def read(source: Source) -> Generator[Session]:
    """The talks of a file: in a team's state one for each member's view."""
    document = as_dict(source.document)
    if "agent_states" in document:
        yield from _team(source, document)
    elif document:
        name = "llm_messages" if "llm_messages" in document else "messages"
        session = source.session(source.unnamed(*as_list(document.get(name))[:1]))
        for message in source.objects_of(document, name):
            _say(session, message)
        rest = without(document, name)
        if rest:
            session.stand(rest)
        yield session
    else:
        yield from _recorded(source)


def _team(source: Source, document: dict[str, Any]) -> Iterator[Session]:
    team = document.get("team_id") or source.unnamed(*document["agent_states"])
    for name, state in as_dict(document["agent_states"]).items():
        held = as_dict(state)
        inner = as_dict(held.get("agent_state"))
        told = as_list(held.get("message_thread")) or as_list(inner.get("llm_messages"))
        session = source.session(f"{team}/{name}", agent=name, team=team)
        for message in source.objects(told):
            _say(session, message)
        rest = without(held, "message_thread", "agent_state") | without(inner, "llm_messages")
        session.stand({"state": rest, "team": without(document, "agent_states")})
        if session.messages:
            yield session


def _recorded(source: Source) -> Iterator[Session]:
    """Each recorded call starts from nothing, so it is a session of its own."""
    for number, record in enumerate(source.records()):
        session = source.session(f"{source.unnamed(*as_list(record.get('messages'))[:2])}/{number}")
        for message in map(as_dict, as_list(record.get("messages"))):
            _say(session, message)
        answer = as_dict(record.get("response"))
        if answer:
            _say(session, {"type": "AssistantMessage", **answer})
        session.happen("request", source=without(record, "messages", "response"))
        yield session


def _say(session: Session, message: dict[str, Any]) -> None:
    kind, content = str(message.get("type")), message.get("content")
    role = _ROLES.get(kind) or ("user" if message.get("source") == "user" else "assistant")
    rest = given(without(message, "type", "content"))
    rest |= {} if kind in _ROLES else {"type": kind}
    listed = [as_dict(one) for one in as_list(content)]
    if kind == _RESULTS:
        for one in listed:
            session.say("tool", one.get("content"), answers=one.get("call_id"),
                        source=without(one, "content", "call_id") | rest)  # fmt: skip
    elif listed and all("arguments" in one for one in listed):
        calls = [
            call(one.get("id"), one.get("name"), read_json_text(one["arguments"]),
                 **without(one, "id", "name", "arguments"))
            for one in listed
        ]  # fmt: skip
        session.say(role, calls=calls, source=rest)
    else:
        said = spoken(content)
        rest |= said.kept()
        session.say(role, said.text, source=rest)


AUTOGEN = Format("autogen", "AutoGen states, histories and recorded calls (JSON)", recognises, read)
