"""Recorded calls of a model's API, put together again as the talks that they were part of.

Each request carries all that was said before. So a request that begins like a talk seen earlier
goes on with it, or branches off it where the two part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.reports import FileReport
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source
from stores_core import Message
from stores_core.codec import canonical


@dataclass(frozen=True)
class Exchange:
    """One call: the bodies of its request and its answer, either of which may be missing."""

    request: dict[str, Any]
    response: Any = None
    uri: str = ""


def exchange_of(record: dict[str, Any]) -> Exchange:
    """The call that a record holds: recorded over HTTP, logged by a client, or bare."""
    request, response = as_dict(record.get("request")), record.get("response")
    if request:
        body, answer = request.get("body", request), as_dict(response)
        return Exchange(as_dict(body), answer.get("body", response), str(request.get("uri") or ""))
    return Exchange(without(record, "response"), response)


def first_exchange(source: Source) -> Exchange:
    """The first call of a file; for recognising it."""
    document: Any = source.document
    first = source.sample[0] if source.sample else {}
    if "role" in first:
        return Exchange({"messages": document if isinstance(document, list) else [first]})
    recorded = as_list(first.get("interactions"))
    return exchange_of(as_dict(recorded[0]) if recorded else first)


def exchanges(source: Source) -> Iterator[Exchange]:
    """All calls of a file, each one record of the account."""
    document: Any = source.document
    if isinstance(document, list) and "role" in as_dict(source.sample[0] if source.sample else {}):
        yield from (Exchange({"messages": listed}) for listed in source.each([document]))
    elif "interactions" in as_dict(document):
        yield from map(exchange_of, source.objects_of(as_dict(document), "interactions"))
    else:
        yield from map(exchange_of, source.records())


class Talks:
    """The talks found so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.sessions: list[Session] = []

    def draft(self) -> Session:
        """A session to put the messages of a request into, for :meth:`resume`."""
        return Session("", FileReport(""), self._source.spill)

    def new(self, key: str) -> Session:
        """Begin a talk."""
        session = self._source.session(key if not self.sessions else f"{key}/{len(self.sessions)}")
        self.sessions.append(session)
        return session

    def resume(self, draft: Session) -> Session:
        """The talk that ``draft`` is a state of, with what it adds. Draft events come along."""
        shared, best = 0, None
        for session in self.sessions:
            length = _shared(session.messages, draft.messages)
            if length > shared:
                shared, best = length, session
        if best is None:
            best = self.new(self._source.unnamed(*map(canonical, draft.messages[:2])))
        elif shared < len(best.messages):
            best = best.branch(f"{self.sessions[0].key}/{len(self.sessions)}", shared)
            self.sessions.append(best)
        for message in draft.messages[shared:]:
            best.add_message(message)
        for event in draft.events:
            best.add_event(event)
        if shared == len(draft.messages) and not draft.events:
            self._source.fold()
        return best


def _shared(one: Sequence[Message], two: Sequence[Message]) -> int:
    length = 0
    for mine, theirs in zip(one, two, strict=False):
        if _said(mine) != _said(theirs):
            break
        length += 1
    return length


def _said(message: Message) -> tuple[Any, ...]:
    calls = [(made.id, made.name, canonical(made.args)) for made in message.tool_calls or ()]
    return message.role, message.text, calls, message.tool_call_id
