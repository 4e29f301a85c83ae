"""Requests and recorded calls of Anthropic's Messages API."""

from collections.abc import Generator

from stores_cli.importing.anthropic_content import say_blocks
from stores_cli.importing.exchanges import Talks, exchanges, first_exchange
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, as_word, without
from stores_cli.importing.parts import spoken
from stores_cli.importing.server_sent import put_together
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document",
           "server_tool_use", "mcp_tool_use", "mcp_tool_result", "compaction"}  # fmt: skip


def recognises(source: Source) -> bool:
    exchange = first_exchange(source)
    said = [as_dict(one) for one in as_list(exchange.request.get("messages"))]
    answer = as_dict(exchange.response)
    parts = [as_dict(part) for one in said for part in as_list(one.get("content"))]
    blocks = {as_word(part.get("type")) for part in parts}
    return bool(said) and (
        exchange.uri.partition("?")[0].endswith("/v1/messages")
        or (answer.get("type") == "message" and isinstance(answer.get("content"), list))
        or bool(blocks & _BLOCKS)
        or ("system" in exchange.request and "max_tokens" in exchange.request)
    )


def read(source: Source) -> Generator[Session]:
    """The talks of a file."""
    talks = Talks(source)
    for exchange in exchanges(source):
        request, answer = exchange.request, as_dict(put_together(exchange.response))
        draft = talks.draft()
        if request.get("system"):
            said = spoken(request["system"])
            draft.say("system", said.text, source=said.kept())
        for one in map(as_dict, as_list(request.get("messages"))):
            say_blocks(draft, str(one.get("role")), one.get("content"),
                       source=without(one, "role", "content"))  # fmt: skip
        settings = without(request, "messages", "system")
        if settings:
            draft.happen("request", source=settings)
        if not draft.messages:
            continue
        session = talks.resume(draft)
        if "content" in answer:
            say_blocks(session, str(answer.get("role") or "assistant"), answer["content"],
                       source={"message": without(answer, "role", "content")})  # fmt: skip
        elif exchange.response is not None:
            session.happen("response", source={"response": exchange.response})
    yield from talks.sessions


ANTHROPIC_MESSAGES = Format(
    "anthropic-messages", "Anthropic Messages requests and calls (JSON)", recognises, read
)
