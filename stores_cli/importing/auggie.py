"""Sessions of Auggie: one object with the exchanges of a talk as numbered nodes."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, filled, read_json_text, without
from stores_cli.importing.sessions import Session, call
from stores_cli.importing.sources import Source
from stores_core import ToolCall


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    return "chatHistory" in document and "sessionId" in document


def read(source: Source) -> Generator[Session]:
    """The one session of a file."""
    document = as_dict(source.document)
    session = source.session(str(document.get("sessionId")))
    session.label("root-task", document.get("rootTaskUuid"))  # this one is a sub-agent's
    for entry in source.objects_of(document, "chatHistory"):
        exchange = as_dict(entry.get("exchange"))
        answered = [as_dict(one) for one in as_list(exchange.get("response_nodes"))]
        times = [one["timestamp_ms"] for one in answered if one.get("timestamp_ms")]
        calls = [made for one in answered if (made := _call_of(one))]
        asked = without(exchange, "request_message", "response_text", "response_nodes")
        session.say("user", exchange.get("request_message"),
                    source=without(entry, "exchange") | asked)  # fmt: skip
        session.say("assistant", exchange.get("response_text"), calls=calls,
                    at=times[0] if times else None,
                    source={"response_nodes": [_rest(one) for one in answered]})  # fmt: skip
    session.stand(without(document, "chatHistory"))
    yield session


def _call_of(node: dict[str, Any]) -> ToolCall | None:
    used = as_dict(node.get("tool_use"))
    if not used:
        return None
    name = used.get("tool_name") or used.get("mcp_tool_name")
    further = without(used, "tool_name", "input", "tool_use_id")
    return call(used.get("tool_use_id"), name, read_json_text(used.get("input")), **further)


def _rest(node: dict[str, Any]) -> dict[str, Any]:
    return filled(without(node, "tool_use"))


AUGGIE = Format("auggie", "Auggie sessions (JSON)", recognises, read)
