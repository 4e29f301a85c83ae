"""Sessions of Claude Code: JSON lines, linked as a tree by uuid and parentUuid."""

import re
from collections.abc import Generator, Iterator
from hashlib import blake2b
from typing import Any

from stores_cli.importing.anthropic_content import say_blocks
from stores_cli.importing.branches import Branches, only_results
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.sessions import SOURCE, Session
from stores_cli.importing.sources import Source
from stores_core import COMPACTION
from stores_core.codec import encode_json
from stores_core.entries import Compaction, Message

_MESSAGES = ("user", "assistant")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNBEGUN = "what was noted before a session had its first message"


def recognises(source: Source) -> bool:
    """Lines with a message and a session id, or the export of them as a list of loglines."""
    return any(
        isinstance(record.get("loglines"), list)
        or (record.get("type") in _MESSAGES and "message" in record
            and ("sessionId" in record or "parentUuid" in record))
        for record in source.sample
    )  # fmt: skip


def read(source: Source) -> Generator[Session]:
    """The session of a file, the branches of rewinds and the sub-agents it holds."""
    document = as_dict(source.document)
    listed = document.get("loglines")
    records = source.records() if listed is None else source.objects(as_list(listed))
    main = source.session(_key(source, as_list(listed)))
    if listed is not None and len(document) > 1:
        main.happen("session", source=without(document, "loglines"))
    yield from _Reader(source, main).read(records)


def _key(source: Source, listed: list[Any]) -> str:
    stem = source.path.name.partition(".")[0]
    if _ID.fullmatch(stem):  # the program names its files so, also where history was copied in
        return stem
    records = listed or source.glance()
    ids = (found for record in records if (found := as_dict(record).get("sessionId")))
    return str(next(ids, "")) or source.unnamed(*(listed or source.sample)[:1])


class _Reader:
    def __init__(self, source: Source, main: Session) -> None:
        self._source, self._main = source, main
        self._talk = Branches(main)
        self._agents: dict[str, Branches] = {}
        self._seen: set[bytes] = set()

    def read(self, records: Iterator[dict[str, Any]]) -> Iterator[Session]:
        for record in records:
            uuid = str(record.get("uuid") or "")
            whole = blake2b(encode_json(record), digest_size=16).digest()
            if uuid and whole in self._seen:
                self._source.leave_out("a record that is there twice")
                continue
            self._seen.add(whole)
            self._take(record, uuid)
        for session in (found for talk in (self._talk, *self._agents.values())
                        for found in talk.sessions):  # fmt: skip
            if session.messages:
                yield session
            elif session.events:  # its id may yet be another one
                self._source.account.left_out[UNBEGUN] += len(session.events)

    def _take(self, record: dict[str, Any], uuid: str) -> None:
        talk = self._talks(record)
        parent = str(record.get("parentUuid") or record.get("logicalParentUuid") or "")
        message = as_dict(record.get("message"))
        kind = record.get("type")
        if kind in _MESSAGES and "content" in message:
            session = talk.follow(uuid, parent, lambda line, at: _same_step(line, at, message))
            beside = without(record, "type", "message", "timestamp")
            model = without(message, "role", "content", "type")
            say_blocks(
                session,
                str(message.get("role") or kind),
                message["content"],
                at=record.get("timestamp"),
                source=beside | ({"message": model} if model else {}),
            )
            talk.place(uuid, session)
        elif kind == "system" and record.get("subtype") == "compact_boundary":
            before = as_dict(record.get("compactMetadata")).get("preTokens")
            talk.beside(uuid, parent).happen(
                COMPACTION,
                str(record.get("content") or ""),
                at=record.get("timestamp"),
                source=without(record, "type", "content", "timestamp"),
                compaction=Compaction(before=before),
            )
        else:
            talk.beside(uuid, parent).happen(
                kind, at=record.get("timestamp"), source=without(record, "type", "timestamp")
            )

    def _talks(self, record: dict[str, Any]) -> Branches:
        """The tree that a record belongs to: the main one, or that of a sub-agent."""
        if not record.get("isSidechain"):
            return self._talk
        parent = str(record.get("parentUuid") or "")
        for talk in self._agents.values():
            if parent in talk:
                return talk
        agent = str(record.get("agentId") or record.get("uuid") or "sub-agent")
        if agent not in self._agents:
            session = self._main.sub_agent(f"{self._main.key}/{agent}")
            session.label("agent", agent)
            self._agents[agent] = Branches(session)
        return self._agents[agent]


def _same_step(session: Session, at: int, message: dict[str, Any]) -> bool:
    """Whether a message goes with those after ``at`` rather than instead of them: tools that ran
    side by side, their results, further parts of one answer."""
    content = [as_dict(part) for part in as_list(message.get("content"))]
    answered = {part.get("tool_use_id") for part in content if part.get("type") == "tool_result"}
    step = session.messages[max(0, at - 1) :]
    if answered:
        return any(made.id in answered for said in step for made in said.tool_calls or ())
    if message.get("id") and any(_answer_id(said) == message["id"] for said in step):
        return True
    return only_results(session, at)


def _answer_id(message: Message) -> Any:
    further = as_dict((message.__pydantic_extra__ or {}).get(SOURCE))
    return as_dict(further.get("message")).get("id")


CLAUDE_CODE = Format(
    "claude-code", "Claude Code sessions (JSON lines)", recognises, read, copies_history=True
)
