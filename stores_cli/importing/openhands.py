"""OpenHands: event lists, output files with a history per line, and events of its newer SDK."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, filled, read_json_text, without
from stores_cli.importing.openai_chat import chat_call
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_SAID = {"message": "content", "think": "thought", "finish": "final_thought", "system": "content"}
_CALLS = ("run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive",
          "delegate", "call_tool_mcp")  # fmt: skip
_SILENT = ("null", "agent_state_changed", "recall")
_KINDS = ("MessageEvent", "ActionEvent", "ObservationEvent", "ConversationStateUpdateEvent")


def recognises(source: Source) -> bool:
    return any(_is_event(record) or _holds_history(record) for record in source.sample)


def _is_event(record: dict[str, Any]) -> bool:
    return ("source" in record and ("action" in record or "observation" in record)) or (
        record.get("kind") in _KINDS
    )


def _holds_history(record: dict[str, Any]) -> bool:
    return any(map(_is_old, map(as_dict, as_list(record.get("history"))[:3])))


def _is_old(event: dict[str, Any]) -> bool:
    return "role" not in event and isinstance(event.get("action", event.get("observation")), str)


def read(source: Source) -> Generator[Session]:
    """The run of a file, or one for each line of an output file."""
    if not any(map(_holds_history, source.sample)):
        session = source.session(source.unnamed(*source.sample[:2]))
        for event in source.records():
            _add(session, event)
        yield session
        return
    for number, line in enumerate(source.records()):
        history = as_list(line.get("history"))
        session = source.session(f"{source.unnamed(*history[:1])}/{number}")
        for event in source.objects(history):
            _add(session, event)
        session.stand(without(line, "history"))
        source.fold()
        yield session


def _add(session: Session, event: dict[str, Any]) -> None:
    if "kind" in event:
        _add_new(session, event)
    elif "observation" in event:
        _observation(session, event)
    else:
        _action(session, event)


def _action(session: Session, event: dict[str, Any]) -> None:
    kind, at, args = str(event.get("action")), event.get("timestamp"), as_dict(event.get("args"))
    told = args or without(event, "action", "id", "timestamp", "source", "cause")
    meta = as_dict(event.get("tool_call_metadata"))
    beside = without(event, "args", "timestamp") if args else {
        name: event[name] for name in ("action", "id", "source", "cause") if name in event
    }  # fmt: skip
    field = _SAID.get(kind)
    role = (
        "system" if kind == "system" else "user" if event.get("source") == "user" else "assistant"
    )
    if not args and kind == "message" and not session.messages:
        role = "user"  # histories of output files name no source; the first message is the task
    if field and not meta:
        where = next((name for name in (field, "content", "thought") if told.get(name)), "")
        rest = filled(without(told, where))
        beside |= {"args": rest} if rest else {}
        session.say(role, told.get(where), at=at, source=beside)
    elif meta or kind in _CALLS:
        made = _made(meta) if meta else call("", kind, without(told, "thought"))
        text = told.get("thought") or told.get("content") if meta else told.get("thought")
        beside |= {"args": without(told, "thought")} if meta else {}
        session.say(role, text, calls=[made], at=at, source=beside)
    else:
        session.happen(kind, at=at, source=beside | ({"args": told} if told else {}))


def _made(meta: dict[str, Any]) -> Any:
    """The call as the model made it, out of its whole answer where that stands by."""
    answer = as_dict(meta.get("model_response"))
    for choice in map(as_dict, as_list(answer.get("choices"))):
        for made in as_list(as_dict(choice.get("message")).get("tool_calls")):
            if as_dict(made).get("id") == meta.get("tool_call_id"):
                return chat_call(made)
    return call(meta.get("tool_call_id"), meta.get("function_name"), None)


def _observation(session: Session, event: dict[str, Any]) -> None:
    kind, at = str(event.get("observation")), event.get("timestamp")
    meta = as_dict(event.get("tool_call_metadata"))
    if kind in _SILENT:
        session.happen(kind, at=at, source=without(event, "timestamp"))
        return
    beside = without(event, "content", "timestamp", "tool_call_metadata")
    # The whole answer of the model stands with the action already.
    beside |= {"tool_call_metadata": without(meta, "model_response")} if meta else {}
    session.say(
        "tool", event.get("content"), answers=meta.get("tool_call_id"), at=at, source=beside
    )


def _add_new(session: Session, event: dict[str, Any]) -> None:
    kind, at = str(event["kind"]), event.get("timestamp")
    if kind == "ActionEvent":
        made = as_dict(event.get("tool_call"))
        one = call(event.get("tool_call_id"), event.get("tool_name"),
                   read_json_text(made.get("arguments")))  # fmt: skip
        beside = without(event, "timestamp", "tool_call_id", "tool_name", "thought")
        said = spoken(event.get("thought"))
        session.say("assistant", said.text, calls=[one], at=at, source=beside)
    elif kind == "ObservationEvent":
        seen = as_dict(event.get("observation"))
        said = spoken(seen.get("content"))
        beside = without(event, "timestamp", "tool_call_id", "observation")
        beside["observation"] = without(seen, "content") | (said.kept())
        session.say("tool", said.text, answers=event.get("tool_call_id"), at=at, source=beside)
    elif kind in ("MessageEvent", "SystemPromptEvent"):
        message = as_dict(event.get("llm_message") or event.get("system_prompt"))
        said = spoken(message.get("content") or message.get("text"))
        role = str(message.get("role") or ("system" if kind[0] == "S" else event.get("source")))
        rest = said.kept()
        beside = without(event, "timestamp", "llm_message", "system_prompt")
        session.say(
            role,
            said.text,
            at=at,
            source=beside | {"message": without(message, "role", "content") | rest},
        )
    else:
        session.happen(kind, at=at, source=without(event, "timestamp"))


OPENHANDS = Format("openhands", "OpenHands event lists, outputs and SDK events", recognises, read)
