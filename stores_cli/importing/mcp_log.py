"""Logs of connections of the Model Context Protocol: over standard streams, or recorded HTTP."""

from collections.abc import Generator, Iterator
from typing import Any

from pydantic import ValidationError

from stores_cli.importing.exchanges import Talks, exchange_of
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, read_json, without
from stores_cli.importing.openai_chat import add_exchange
from stores_cli.importing.parts import spoken
from stores_cli.importing.server_sent import data_of
from stores_cli.importing.sessions import Found, Result, call
from stores_cli.importing.sources import Source
from stores_core import ToolResult

_STREAMS = ("STDIN", "STDOUT", "STDERR")
_CALL = "tools/call"


def recognises(source: Source) -> bool:
    recorded = [
        exchange_of(as_dict(one)) for one in as_list(as_dict(source.document).get("interactions"))
    ]
    if any("jsonrpc" in exchange.request for exchange in recorded):
        return True
    if source.is_url or source.is_sqlite or source.document is not None:
        return False
    with source.path.open("rb") as file:
        return file.readline(1_000).decode(errors="replace").partition(":")[0] in _STREAMS


def read(source: Source) -> Generator[Found]:
    """The connection as a session: calls of tools and their results, all else as events. Each
    result is kept whole as a tool result too."""
    recorded = as_dict(source.document)
    if not recorded:
        log = _Connection(source, source.unnamed(source.begin(4_000)))
        for number, line in enumerate(source.each(source.text_lines()), 1):
            stream, _, rest = line.partition(":")
            if stream == "STDERR" or (line.strip() and stream not in _STREAMS):
                log.session.happen("stderr", rest.strip() if stream == "STDERR" else line)
            elif not line.strip():
                source.leave_out("empty lines")
            else:
                try:
                    log.take(as_dict(read_json(rest.strip().encode(), source.account.changed)),
                             from_client=stream == "STDIN")  # fmt: skip
                except ValueError:
                    source.damaged(f"line {number}", "no JSON")
            yield from log.results()
        yield from log.found()
        return
    log = _Connection(source, source.unnamed(*as_list(recorded.get("interactions"))[:1]))
    talks = Talks(source)
    for exchange in map(exchange_of, source.objects_of(recorded, "interactions")):
        if "jsonrpc" in exchange.request:
            log.take(exchange.request, from_client=True)
            for answer in map(as_dict, data_of(str(exchange.response or ""))):
                log.take(answer, from_client=False)
        elif exchange.request.get("messages"):
            add_exchange(talks, exchange)
        else:
            log.session.happen(
                "request", source={"uri": exchange.uri, "response": exchange.response}
            )
    yield from log.found()
    yield from talks.sessions


class _Connection:
    def __init__(self, source: Source, key: str) -> None:
        self._source = source
        self._asked: dict[str, str] = {}  # methods of open requests, by side and id
        self._results: list[Result] = []
        self.session = source.session(f"connection-{key}")

    def results(self) -> Iterator[Result]:
        """The results that came since this was asked last."""
        yield from self._results
        self._results.clear()

    def found(self) -> Iterator[Found]:
        """What is left when the log has ended."""
        yield from self.results()
        if self.session.messages or self.session.events:
            yield self.session

    def take(self, said: dict[str, Any], *, from_client: bool) -> None:
        """Take one message of the protocol. Both sides count their requests for themselves."""
        method, side = said.get("method"), "client" if from_client else "server"
        other = "server" if from_client else "client"
        if method and "id" in said:
            self._asked[f"{side} {said['id']}"] = str(method)
        if method == _CALL:
            params = as_dict(said.get("params"))
            made = call(str(said.get("id")), params.get("name"), params.get("arguments"))
            self.session.say("assistant", calls=[made],
                             source={"params": without(params, "name", "arguments")})  # fmt: skip
        elif not method and self._asked.pop(f"{other} {said.get('id')}", "") == _CALL:
            self._answer(said)
        elif said:
            self.session.happen(method or "answer", source={"from": side, **said})

    def _answer(self, said: dict[str, Any]) -> None:
        result, beside = as_dict(said.get("result")), without(said, "id", "result", "jsonrpc")
        if result:
            ref = f"mcp:{self.session.key}/{said.get('id')}"
            try:
                whole = ToolResult(
                    content=as_list(result.get("content")),
                    structured_content=result.get("structuredContent"),
                    is_error=bool(result.get("isError")),
                    meta=result.get("_meta"),
                    **without(result, "content", "structuredContent", "isError", "_meta"),
                )
            except (ValidationError, TypeError):
                beside["result"] = result
            else:
                self._results.append(Result(ref, whole, {"run": f"mcp:{self.session.key}"}))
                beside["resultRef"] = ref
        text = spoken(result.get("content")).text
        self.session.say("tool", text, answers=str(said.get("id")), source=beside)


MCP = Format("mcp", "Model Context Protocol logs (stdio, recorded HTTP)", recognises, read)
