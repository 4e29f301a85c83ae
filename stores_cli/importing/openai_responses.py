"""Recorded calls of OpenAI's Responses API, and lists of its items."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.branches import Branches
from stores_cli.importing.exchanges import Exchange, Talks, exchanges, first_exchange
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.response_items import add_item
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source
from stores_core import COMPACTION

_ITEMS = ("message", "function_call", "function_call_output", "reasoning", "custom_tool_call")


def recognises(source: Source) -> bool:
    exchange = first_exchange(source)
    answer = as_dict(exchange.response)
    return (
        answer.get("object") in ("response", "response.compaction", "conversation")
        or "input" in exchange.request
        or any(as_dict(item).get("type") in _ITEMS[1:] for item in as_list(source.document))
    )


def read(source: Source) -> Generator[Session]:
    """The talks of a file. What a request leaves to the server is found by the ids of answers."""
    yield from _Reader(source).read()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._talks = Talks(source)
        self._after: dict[str, tuple[Branches, str]] = {}  # ids of answers, conversations, items

    def read(self) -> Iterator[Session]:
        for exchange in exchanges(self._source):
            self._take(exchange)
        yield from self._talks.sessions

    def _take(self, exchange: Exchange) -> None:
        answer, request = as_dict(exchange.response), exchange.request
        given = request.get("input", request.get("messages"))
        if "input" not in request and "messages" not in request and not answer.get("output"):
            session = self._talks.sessions[-1] if self._talks.sessions else self._begin(answer)
            told = {"uri": exchange.uri, "request": request, "response": answer}
            session.happen(answer.get("object") or "request", source=told)
            return
        items = [as_dict(item) for item in as_list(given)]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else items
        session = self._session_for(request, items)
        settings = without(request, "input", "messages", "previous_response_id")
        if settings:
            session.happen("request", source=settings)
        at = answer.get("created_at")
        if answer.get("object") == "response.compaction":
            session.happen(COMPACTION, at=at, source=answer)
        else:
            for item in as_list(answer.get("output")):
                add_item(session, as_dict(item), at=at)
            session.happen("response", at=at, source=without(answer, "output"))
        self._remember(request, answer, session)

    def _session_for(self, request: dict[str, Any], items: list[dict[str, Any]]) -> Session:
        """The talk that a request goes on with, with the items that are new in it."""
        names = [request.get("previous_response_id"), _conversation(request)]
        for place, item in enumerate(items):
            if item.get("type") == "compaction":
                names.append(item.get("id") or item.get("encrypted_content"))
                items = items[place + 1 :] if str(names[-1]) in self._after else items
        for name in names:
            if name and str(name) in self._after:
                session = self._continued(str(name))
                break
        else:
            draft = self._talks.draft()
            for item in items:
                add_item(draft, item)
            return self._talks.resume(draft)
        for item in items:
            add_item(session, item)
        return session

    def _continued(self, name: str) -> Session:
        branches, node = self._after[name]
        session = branches.follow(name, node)
        if session not in self._talks.sessions:
            self._talks.sessions.append(session)
        return session

    def _remember(self, request: dict[str, Any], answer: dict[str, Any], session: Session) -> None:
        branches = Branches(session)
        node = str(answer.get("id") or "")
        branches.place(node, session)
        names = [answer.get("id"), _conversation(request)]
        for item in as_list(answer.get("output")):
            if as_dict(item).get("type") == "compaction":
                names += [as_dict(item).get("id"), as_dict(item).get("encrypted_content")]
        for name in names:
            if name:
                self._after[str(name)] = branches, node

    def _begin(self, answer: dict[str, Any]) -> Session:
        session = self._talks.new(str(answer.get("id") or self._source.unnamed(answer)))
        if answer.get("object") == "conversation":
            branches = Branches(session)
            branches.place(session.key, session)
            self._after[session.key] = branches, session.key
        return session


def _conversation(request: dict[str, Any]) -> Any:
    named = request.get("conversation")
    return as_dict(named).get("id") if isinstance(named, dict) else named


OPENAI_RESPONSES = Format(
    "openai-responses", "OpenAI Responses items and calls (JSON)", recognises, read
)
