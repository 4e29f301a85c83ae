"""Trajectories of SWE-agent and mini-SWE-agent."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, as_word, without
from stores_cli.importing.openai_chat import say_chat
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    return isinstance(document.get("history"), list) and "trajectory" in document


def read(source: Source) -> Generator[Session]:
    """The run: the history is the talk; what the steps say beside it becomes events."""
    document = as_dict(source.document)
    history = as_list(document.get("history"))
    session = source.session(source.unnamed(*history[:3]))
    for record in source.objects(history):
        _say(session, record)
    said = {message.text for message in session.messages}
    for step in source.objects_of(document, "trajectory"):
        repeated = [
            name
            for name in ("response", "thought", "observation", "messages", "query")
            if isinstance(step.get(name), list) or as_word(step.get(name)) in said
        ]
        if repeated:
            source.leave_out("what a step repeats of the history")
        session.happen("step", source=without(step, *repeated))
    session.stand(without(document, "history", "trajectory"))
    yield session


def _say(session: Session, record: dict[str, Any]) -> None:
    answered = as_list(record.get("tool_call_ids"))
    if len(answered) == 1:
        record = without(record, "tool_call_ids") | {"tool_call_id": answered[0]}
    if record.get("thought") == record.get("content"):
        record = without(record, "thought")
    say_chat(session, record)


SWE_AGENT = Format("swe-agent", "SWE-agent trajectories (JSON)", recognises, read)


def _is_mini(source: Source) -> bool:
    document: Any = source.document
    messages = as_list(document) or as_list(as_dict(document).get("messages"))
    named = source.path.name.endswith(".traj.json") or "trajectory_format" in as_dict(document)
    return named and bool(messages) and all("role" in as_dict(one) for one in messages)


def _read_mini(source: Source) -> Generator[Session]:
    """The run. No call is made out of the commands that stand in the text."""
    document = source.document
    messages = as_list(document) or as_list(as_dict(document).get("messages"))
    session = source.session(source.unnamed(*messages[:2]))
    for record in source.objects(messages):
        say_chat(session, record)
    if isinstance(document, dict):
        session.stand(without(as_dict(document), "messages"))
    yield session


MINI_SWE_AGENT = Format(
    "mini-swe-agent", "mini-SWE-agent trajectories (JSON)", _is_mini, _read_mini
)
