"""Eval logs of Inspect: samples with messages and events, and bare lists of its events."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, as_word, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_POINTERS = ("attachment://", "tc://")


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    events = [as_dict(one) for one in as_list(document.get("events"))[:1]]
    return ("samples" in document and "eval" in document) or any("event" in one and "uuid" in one
                                                                  for one in events)  # fmt: skip


def read(source: Source) -> Generator[Session]:
    """A session for each sample; sub-agents of an event list are sessions of their own."""
    document = as_dict(source.document)
    if "samples" not in document:
        yield from _from_events(source, document)
        return
    about = as_dict(document.get("eval"))
    name = about.get("run_id") or about.get("task_id") or source.unnamed(about)
    for sample in source.objects_of(document, "samples"):
        session = source.session(f"{name}/{sample.get('id')}/{sample.get('epoch', 1)}")
        session.label("task", about.get("task"))
        session.label("model", about.get("model"))
        attached = as_dict(sample.get("attachments"))
        for message in map(as_dict, as_list(sample.get("messages"))):
            _say(session, _filled(message, attached))
        for event in map(as_dict, as_list(sample.get("events"))):
            session.happen(event.get("event"), at=event.get("timestamp"),
                           source=without(event, "event", "timestamp"))  # fmt: skip
        session.stand(without(sample, "messages", "events") | {"log": without(document, "samples")})
        yield session


def _filled(value: Any, attached: dict[str, Any]) -> Any:
    """``value`` with pointers to the sample's attachments replaced by what they point to."""
    if isinstance(value, str) and value.startswith(_POINTERS):
        return attached.get(value.partition("://")[2], value)
    if isinstance(value, list):
        return [_filled(item, attached) for item in as_list(value)]
    if isinstance(value, dict):
        return {name: _filled(item, attached) for name, item in as_dict(value).items()}
    return value


def _say(session: Session, message: dict[str, Any], *, at: Any = None, **around: Any) -> None:
    said = spoken(message.get("content"))
    rest = said.kept()
    calls = [
        call(one.get("id"), one.get("function"), one.get("arguments"),
             **without(one, "id", "function", "arguments", "type"))
        for one in map(as_dict, as_list(message.get("tool_calls")))
    ]  # fmt: skip
    beside = without(message, "role", "content", "tool_calls", "tool_call_id") | rest | around
    session.say(str(message.get("role") or "assistant"), said.text, calls=calls,
                answers=message.get("tool_call_id"), at=at, source=beside)  # fmt: skip


def _from_events(source: Source, document: dict[str, Any]) -> Iterator[Session]:
    """Answers of models and tools to the messages of the agent whose span they stand in."""
    key = source.unnamed(*as_list(document.get("events"))[:2])
    main = source.session(key)
    agents: dict[str, Session] = {}
    spans: dict[str, Session] = {}
    for event in source.objects_of(document, "events"):
        kind, at = str(event.get("event")), event.get("timestamp")
        around = without(event, "event", "timestamp")
        session = spans.get(str(event.get("span_id") or event.get("parent_id")), main)
        if kind == "span_begin":
            if event.get("type") == "agent":
                session = session.sub_agent(f"{key}/{event.get('id')}") if agents else main
                agents[session.key] = session
            spans[str(event.get("id"))] = session
            session.happen(kind, at=at, source=around)
        elif kind == "model":
            _answer(session, event, at)
        elif kind == "tool":
            said = spoken(event.get("result"))
            beside = without(around, "id", "result") | said.kept()
            session.say("tool", said.text, answers=event.get("id"), at=at, source=beside)
        else:
            spans.get(str(event.get("id")), session).happen(kind, at=at, source=around)
    main.stand(without(document, "events"))
    yield main
    yield from (found for found in agents.values() if found is not main)


def _answer(session: Session, event: dict[str, Any], at: Any) -> None:
    """What is new in the input of a model's call, then its answer."""
    told = {(message.role, message.text) for message in session.messages}
    for message in map(as_dict, as_list(event.get("input"))):
        if (as_word(message.get("role")), spoken(message.get("content")).text) not in told:
            _say(session, message, at=at)
    output = as_dict(event.get("output"))
    beside = without(event, "event", "timestamp", "input", "output") | {
        "output": without(output, "choices")
    }
    for choice in map(as_dict, as_list(output.get("choices"))[:1]):
        _say(session, as_dict(choice.get("message")), at=event.get("completed") or at,
             call=beside | {"choice": without(choice, "message")})  # fmt: skip
    if not as_list(output.get("choices")):
        session.happen("model", at=at, source=beside)


INSPECT_AI = Format("inspect-ai", "Inspect eval logs and event lists (JSON)", recognises, read)
