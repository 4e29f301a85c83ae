"""Sessions of Copilot CLI: JSON lines whose records form a tree by id and parentId."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.branches import Branches, only_results
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source

_ROLES = {"user.message": "user", "assistant.message": "assistant", "system.message": "system"}


def recognises(source: Source) -> bool:
    return any(
        isinstance(record.get("data"), dict) and "parentId" in record
        and str(record.get("type")).partition(".")[0] in ("session", "user", "assistant")
        for record in source.sample
    )  # fmt: skip


def read(source: Source) -> Generator[Session]:
    """The session of a file and its branches."""
    first = source.sample[:1]
    start = as_dict(first[0].get("data")) if first else {}
    main = source.session(str(start.get("sessionId") or source.unnamed(*first)))
    talk = Branches(main)
    for record in source.records():
        _take(talk, record)
    yield from (session for session in talk.sessions if session.messages or session.events)


def _take(talk: Branches, record: dict[str, Any]) -> None:
    kind, data, at = str(record.get("type")), as_dict(record.get("data")), record.get("timestamp")
    node, parent = str(record.get("id") or ""), str(record.get("parentId") or "")
    around = without(record, "type", "data", "timestamp")
    if kind in _ROLES:
        session = talk.follow(node, parent, only_results)
        calls = [
            call(one.get("toolCallId"), one.get("name"), one.get("arguments"),
                 **without(one, "toolCallId", "name", "arguments"))
            for one in map(as_dict, as_list(data.get("toolRequests")))
        ]  # fmt: skip
        beside = without(data, "content", "toolRequests", "role") | around
        session.say(_ROLES[kind], data.get("content"), calls=calls, at=at, source=beside)
        talk.place(node, session)
    elif kind == "tool.execution_complete":
        # Tools that ran side by side: their results follow each other whatever they hang on.
        session = talk.follow(node, parent, lambda line, at: True)
        result = as_dict(data.get("result"))
        beside = without(data, "toolCallId", "result") | around
        beside |= {"result": without(result, "content")} if len(result) > 1 else {}
        session.say(
            "tool", result.get("content"), answers=data.get("toolCallId"), at=at, source=beside
        )
        talk.place(node, session)
    else:
        talk.beside(node, parent).happen(kind, at=at, source={"data": data} | around)


COPILOT_CLI = Format("copilot-cli", "Copilot CLI sessions (JSON lines)", recognises, read)
