"""Sessions of Gemini CLI: a session object, a log of lines, a saved chat, recorded answers."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.gemini_content import say_answer, say_parts
from stores_cli.importing.json_values import as_dict, as_list, as_word, without
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_SPEAKERS = ("user", "gemini")


def recognises(source: Source) -> bool:
    first = source.sample[0] if source.sample else {}
    return (
        ("sessionId" in first and ("projectHash" in first or "startTime" in first))
        or (str(first.get("method", "")).startswith("generateContent") and "response" in first)
        or (first.get("role") in ("user", "model") and isinstance(first.get("parts"), list))
    )


def read(source: Source) -> Generator[Session]:
    """The one session of a file. A message that a later line replaces comes as it was last."""
    first = source.sample[0] if source.sample else {}
    if "sessionId" not in first:
        session = source.session(source.unnamed(first))
        for record in source.records():
            _chat(session, record)
    else:
        session = source.session(str(first["sessionId"]), project=first.get("projectHash"))
        document = as_dict(source.document)
        if document:
            session.stand(without(document, "messages"))
            _log(source, session, source.objects_of(document, "messages"))
        else:
            _log(source, session, source.records())
    if session.messages or session.events:
        yield session


def _log(source: Source, session: Session, records: Any) -> None:
    latest = {as_word(record.get("id")): at for at, record in enumerate(source.glance())}
    for number, record in enumerate(records):
        name = as_word(record.get("id"))
        if name and latest.get(name, number) != number and not source.document:
            source.leave_out("an earlier state of a message that a later line gives whole")
        else:
            _entry(session, record)


def _entry(session: Session, record: dict[str, Any]) -> None:
    kind, at, content = record.get("type"), record.get("timestamp"), record.get("content")
    if kind not in _SPEAKERS:
        text = content if isinstance(content, str) else ""
        beside = without(record, "type", "timestamp", *(["content"] if text else []))
        session.happen(kind or ("session-changed" if "$set" in record else "session"), text,
                       at=at, source=beside)  # fmt: skip
        return
    calls = [as_dict(made) for made in as_list(record.get("toolCalls"))]
    beside = without(record, "type", "timestamp", "content", "toolCalls")
    if not calls:
        if not say_parts(session, str(kind), content, at=at, source=beside):
            session.say("assistant" if kind == "gemini" else "user", at=at, source=beside)
        return
    # The calls stand beside the content here, and the results inside the calls.
    text = content if isinstance(content, str) else ""
    if not isinstance(content, str) and content is not None:
        beside["content"] = content
    made = [
        call(one.get("id"), one.get("name"), one.get("args"),
             **without(one, "id", "name", "args", "result"))
        for one in calls
    ]  # fmt: skip
    session.say("assistant", text, calls=made, at=at, source=beside)
    for one in calls:
        for part in as_list(one.get("result")):
            answer = as_dict(as_dict(part).get("functionResponse"))
            if answer:
                say_answer(session, answer, at=one.get("timestamp"), source={})
            else:
                session.say("tool", answers=one.get("id"), at=one.get("timestamp"),
                            source={"parts": [part]})  # fmt: skip


def _chat(session: Session, record: dict[str, Any]) -> None:
    if "parts" in record:
        say_parts(session, str(record.get("role")), record["parts"],
                  source=without(record, "role", "parts"))  # fmt: skip
        return
    # A recorded answer comes in chunks, each with some parts of it.
    chunks = [
        as_dict(chunk) for chunk in as_list(record.get("response")) or [record.get("response")]
    ]
    parts: list[Any] = []
    for chunk in chunks:
        for candidate in as_list(chunk.get("candidates")):
            parts += as_list(as_dict(as_dict(candidate).get("content")).get("parts"))
    last = without(chunks[-1], "candidates") if chunks else {}
    beside = without(record, "response") | ({"response": last} if last else {})
    if not say_parts(session, "model", _joined(parts), source=beside):
        session.happen(record.get("method"), source=record)


def _joined(parts: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for part in parts:
        text = as_dict(part).get("text")
        if isinstance(text, str) and len(part) == 1 and joined and [*joined[-1]] == ["text"]:
            joined[-1] = {"text": joined[-1]["text"] + text}
        else:
            joined.append(part)
    return joined


GEMINI_CLI = Format("gemini-cli", "Gemini CLI sessions, logs and saved chats", recognises, read)
