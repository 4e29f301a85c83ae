"""Exports of editors: Kiro, Windsurf, Antigravity."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, filled, without
from stores_cli.importing.openai_chat import chat_call
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core.codec import encode_json

_TIMES = ("created_at", "createdAt", "timestamp")


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    pairs = [as_dict(one) for one in as_list(document.get("history"))[:1]]
    return ("app" in document and "messages" in as_dict(document.get("conversation"))) or (
        "conversation_id" in document and any("user" in one or "assistant" in one for one in pairs)
    )


def read(source: Source) -> Generator[Session]:
    """The one talk of a file."""
    document = as_dict(source.document)
    talk = as_dict(document.get("conversation"))
    key = document.get("conversation_id") or talk.get("id")
    session = source.session(str(key or source.unnamed(*as_list(talk.get("messages"))[:1])))
    for message in source.objects_of(talk, "messages"):
        _say(session, message)
    for pair in source.objects_of(document, "history"):
        _say_pair(session, pair)
    session.stand(without(document, "conversation", "history") | without(talk, "messages"))
    yield session


def _say(session: Session, message: dict[str, Any]) -> None:
    stamp = next((name for name in _TIMES if message.get(name)), "")
    said = spoken(message.get("content", message.get("parts")))
    rest = said.kept()
    calls = tuple(map(chat_call, as_list(message.get("tool_calls"))))
    beside = without(
        message, "role", "sender", "content", "parts", "tool_calls", "tool_call_id", stamp
    )
    session.say(
        str(message.get("role") or message.get("sender") or "user"),
        said.text,
        calls=calls,
        answers=message.get("tool_call_id"),
        at=message.get(stamp),
        source=beside | rest,
    )


def _say_pair(session: Session, pair: dict[str, Any]) -> None:
    user, content = as_dict(pair.get("user")), as_dict(as_dict(pair.get("user")).get("content"))
    at, beside = user.get("timestamp"), without(user, "content", "timestamp")
    results = content.get("ToolUseResults")
    listed = as_list(as_dict(results).get("tool_use_results")) or as_list(results)
    for result in map(as_dict, listed):
        texts = [_text(part) for part in map(as_dict, as_list(result.get("content")))]
        session.say("tool", "\n".join(texts), answers=result.get("tool_use_id"), at=at,
                    source=without(result, "tool_use_id", "content") | beside)  # fmt: skip
        beside = {}
    if "Prompt" in content or not content:
        prompt: Any = content.get("Prompt")
        text = as_dict(prompt).get("prompt") if isinstance(prompt, dict) else prompt
        session.say("user", text, at=at, source=beside)
    for kind, answer in as_dict(pair.get("assistant")).items():
        held = as_dict(answer)
        calls = [
            call(
                one.get("id"),
                one.get("name"),
                one.get("args"),
                **without(one, "id", "name", "args"),
            )
            for one in map(as_dict, as_list(held.get("tool_uses")))
        ]
        session.say("assistant", held.get("content"), calls=calls,
                    source={"kind": kind, **without(held, "content", "tool_uses")})  # fmt: skip
    rest = filled(without(pair, "user", "assistant"))
    if rest:
        session.happen("request", source=rest)


def _text(part: dict[str, Any]) -> str:
    text = part.get("Text")
    return text if isinstance(text, str) else encode_json(part).decode()


IDE_EXPORTS = Format("ide-exports", "Exports of Kiro, Windsurf and Antigravity", recognises, read)
