"""Data sets of talks in the manner of ShareGPT: many talks in one file, without ids and times."""

from collections import deque
from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, read_json_text, without
from stores_cli.importing.openai_chat import say_chat
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core import ToolCall

_ROLES = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}
_BESIDE = ("tools", "images", "videos", "audios")


def recognises(source: Source) -> bool:
    return any(map(_is_talk, source.sample))


def _is_talk(record: dict[str, Any]) -> bool:
    said = [as_dict(one) for one in as_list(record.get("conversations"))]
    if said:
        return "from" in said[0]
    alone = not any(name in record for name in ("request", "response", "model"))
    return alone and "messages" in record and any(name in record for name in _BESIDE)


def read(source: Source) -> Generator[Session]:
    """A session for each talk. Results belong to the calls before them, in their order."""
    for number, talk in enumerate(source.records()):
        said = as_list(talk.get("conversations")) or as_list(talk.get("messages"))
        if not said:
            continue
        session = source.session(f"{source.unnamed(said[0])}/{talk.get('id') or number}")
        open_calls: deque[str] = deque()
        for turn in map(as_dict, said):
            _say(session, turn, open_calls)
        beside = without(talk, "conversations", "messages", "id")
        if beside:
            session.happen(
                "session", source={name: read_json_text(item) for name, item in beside.items()}
            )
        yield session


def _say(session: Session, turn: dict[str, Any], open_calls: deque[str]) -> None:
    word = str(turn.get("from") or turn.get("role") or "user")
    content: Any = turn.get("value", turn.get("content"))
    parts = [as_dict(part) for part in as_list(content)]
    texts = [str(part.get("value")) for part in parts if part.get("type") == "text"]
    made: list[ToolCall] = []
    if word == "function_call":
        made = _calls(session, content, open_calls)
    for part in parts:
        if part.get("type") == "tool_call":
            made += _calls(session, part.get("value"), open_calls)
    rest = [part for part in parts if part.get("type") not in ("text", "tool_call")]
    text = "\n".join(texts) if parts else "" if made else content
    role = _ROLES.get(word, word)
    answers = open_calls.popleft() if role == "tool" and open_calls else turn.get("tool_call_id")
    if not parts and not made and "from" not in turn:
        say_chat(session, turn)
        return
    session.say(role, text, calls=made, answers=answers,
                source=without(turn, "from", "role", "value", "content")
                | ({"content": rest} if rest else {}))  # fmt: skip


def _calls(session: Session, text: Any, open_calls: deque[str]) -> list[ToolCall]:
    """The calls in a text of JSON, with ids of their place in the talk: there are none inside."""
    held = read_json_text(text)
    made: list[ToolCall] = []
    for one in map(as_dict, as_list(held) or [held]):
        if "name" not in one:
            continue
        name = f"{len(session.messages)}.{len(open_calls)}"
        open_calls.append(name)
        made.append(call(name, one["name"], read_json_text(one.get("arguments")),
                         **without(one, "name", "arguments")))  # fmt: skip
    return made


SHAREGPT = Format("sharegpt", "Data sets of talks (ShareGPT, LLaMA-Factory)", recognises, read)
