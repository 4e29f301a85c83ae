"""Content of Google's Gemini API: a role and parts, in camelCase or snake_case."""

from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, given, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.sessions import Session, call
from stores_core import ToolCall
from stores_core.codec import encode_json

ROLES = {"model": "assistant", "gemini": "assistant"}


def call_of(part: dict[str, Any]) -> ToolCall | None:
    """The call that a functionCall part is, with what else the part says."""
    made = as_dict(part.get("functionCall") or part.get("function_call"))
    if not made:
        return None
    further = given(without(part, "functionCall", "function_call"))
    further |= given(without(made, "id", "name", "args"))
    return call(made.get("id"), made.get("name"), made.get("args"), **further)


def say_parts(
    session: Session,
    role: str,
    parts: Any,
    *,
    at: Any = None,
    source: dict[str, Any] | None = None,
) -> bool:
    """Add the messages of one content: each functionResponse is one of role tool. False where
    there was nothing to say."""
    beside = source or {}
    plain: list[Any] = []
    answers: list[dict[str, Any]] = []
    for part in as_list(parts) or ([{"text": parts}] if isinstance(parts, str) else []):
        answer = as_dict(
            as_dict(part).get("functionResponse") or as_dict(part).get("function_response")
        )
        if answer:
            answers.append(answer)
        else:
            plain.append(given(as_dict(part)) or part)
    if plain:
        said = spoken(plain, call_of)
        rest = said.kept("parts")
        session.say(ROLES.get(role, role), said.text, calls=said.calls, at=at, source=rest | beside)
        beside = {}
    for answer in answers:
        say_answer(session, answer, at=at, source=beside)
        beside = {}
    return bool(plain or answers)


def say_answer(
    session: Session, answer: dict[str, Any], *, at: Any = None, source: dict[str, Any]
) -> None:
    """Add a functionResponse as a message. Its output is the text; an answer in fields is kept
    as fields, with their JSON as the text."""
    response: Any = answer.get("response")
    fields = as_dict(response)
    output = fields.get("output", fields.get("result"))
    further = given(without(answer, "id", "response"))
    if isinstance(output, str) and len(fields) == 1:
        further["as"] = next(iter(fields))
    else:
        output = response if isinstance(response, str) else encode_json(response).decode()
    session.say("tool", output, answers=answer.get("id"), at=at, source=further | source)
