"""Messages of OpenAI's chat completions: lists, requests, recorded calls."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.exchanges import Exchange, Talks, exchanges, first_exchange
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, given, read_json_text, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core import ToolCall

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def recognises(source: Source) -> bool:
    """A list of messages with content, alone or in a request."""
    exchange = first_exchange(source)
    said = [as_dict(one) for one in as_list(exchange.request.get("messages"))]
    return bool(said) and all(
        one.get("role") in _ROLES and ("content" in one or "tool_calls" in one) for one in said
    )


def read(source: Source) -> Generator[Session]:
    """The talks of a file."""
    talks = Talks(source)
    for exchange in exchanges(source):
        add_exchange(talks, exchange)
    yield from talks.sessions


def add_exchange(talks: Talks, exchange: Exchange) -> None:
    """Add one call to the talks: what is new in its messages, and the answer."""
    said = as_list(exchange.request.get("messages"))
    if not said:
        return
    draft = talks.draft()
    for one in said:
        say_chat(draft, as_dict(one))
    settings = without(exchange.request, "messages")
    if settings:
        draft.happen("request", source=settings)
    session = talks.resume(draft)
    answer = as_dict(exchange.response)
    choices = as_list(answer.get("choices"))
    if choices:
        first = as_dict(choices[0])
        further = without(answer, "choices", "created") | {"choice": without(first, "message")}
        further |= {"otherChoices": choices[1:]} if choices[1:] else {}
        say_chat(session, as_dict(first.get("message")), at=answer.get("created"),
                 source={"response": further})  # fmt: skip
    elif exchange.response is not None:
        session.happen("response", source={"response": exchange.response})


def say_chat(
    session: Session,
    record: dict[str, Any],
    *,
    at: Any = None,
    source: dict[str, Any] | None = None,
) -> None:
    """Add one message in the form of chat completions. ``source`` goes with it."""
    made = tuple(map(chat_call, as_list(record.get("tool_calls"))))
    said = spoken(record.get("content"))
    further = given(without(record, "role", "content", "tool_calls", "tool_call_id"))
    further |= said.kept()
    session.say(
        str(record.get("role") or "assistant"),
        said.text,
        calls=made,
        answers=record.get("tool_call_id"),
        at=at,
        source=further | (source or {}),
    )


def chat_call(made: Any) -> ToolCall:
    """One of the tool_calls of a message. Arguments that are no JSON stay text."""
    made = as_dict(made)
    function = as_dict(made.get("function"))
    further = given(without(made, "id", "type", "function"))
    return call(
        made.get("id"), function.get("name"), read_json_text(function.get("arguments")), **further
    )


OPENAI_CHAT = Format("openai-chat", "OpenAI chat completions (JSON)", recognises, read)
