"""Checkpoint tables of LangGraph, in SQLite and Postgres.

A thread is a run. Each checkpoint holds the whole list of messages; what its parent did not have is
appended. A second checkpoint that follows one with a successor is a branch, and becomes a fork. The
other channels are kept as events, each when it changed.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from stores_cli.importing.branches import Branches
from stores_cli.importing.checkpoint_values import value_of
from stores_cli.importing.databases import Rows, reading
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, read_json, without
from stores_cli.importing.langchain_messages import plain, say_langchain
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source
from stores_core.codec import encode_json

_COLUMNS = {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint"}
_CHECKPOINTS = """
SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id
"""
_BLOBS = """
SELECT blobs.channel, blobs.type, blobs.blob
FROM jsonb_each_text(?3::text::jsonb) AS wanted
JOIN checkpoint_blobs AS blobs ON blobs.channel = wanted.key AND blobs.version = wanted.value
WHERE blobs.thread_id = ?1 AND blobs.checkpoint_ns = ?2
"""
_WRITES = {
    "writes": "SELECT count(*) FROM writes",
    "checkpoint_writes": "SELECT count(*) FROM checkpoint_writes",
}
WRITES = "pending writes: what a step wrote stands in the checkpoint that it led to"


def recognises(source: Source) -> bool:
    return source.tables.get("checkpoints", set()) >= _COLUMNS


async def read(source: Source) -> AsyncGenerator[Session]:
    """Each thread, its branches, and its subgraphs as the runs of sub-agents."""
    async with reading(source) as rows:
        thread: _Thread | None = None
        async for row in rows(_CHECKPOINTS):
            name, space = str(row[0]), str(row[1] or "")
            if thread is None or (thread.name, thread.space) != (name, space):
                for session in thread.sessions() if thread else ():
                    yield session
                thread = _Thread(source, name, space)
            for checkpoint in source.each([row]):
                await _take(source, thread, checkpoint, rows)
        for session in thread.sessions() if thread else ():
            yield session
        for table, query in _WRITES.items():
            if table in source.tables:
                async for (count,) in rows(query):
                    source.account.records += int(count)
                    source.account.left_out[WRITES] += int(count)


async def _beside(source: Source, thread: "_Thread", versions: Any, rows: Rows) -> dict[str, Any]:
    """The values of a checkpoint that Postgres keeps beside it, by channel."""
    found: dict[str, Any] = {}
    if "checkpoint_blobs" in source.tables and versions:
        wanted = encode_json(versions).decode()
        async for channel, kind, blob in rows(_BLOBS, thread.name, thread.space, wanted):
            try:
                found[str(channel)] = value_of(str(kind), blob, source.account)
            except ValueError:
                source.damaged(f"channel {channel!r} of {thread.name!r}", f"no {kind}")
    return found


async def _take(source: Source, thread: "_Thread", row: Any, rows: Rows) -> None:
    _, _, identity, parent, kind, data, metadata = row
    try:
        if isinstance(data, str):  # Postgres gives JSON as text
            checkpoint = as_dict(read_json(data.encode(), source.account.changed))
        else:
            checkpoint = as_dict(value_of(str(kind or "msgpack"), data, source.account))
        about = metadata.encode() if isinstance(metadata, str) else metadata or b"{}"
        meta = read_json(about, source.account.changed)
    except ValueError:
        source.damaged(f"checkpoint {identity!r}", f"no {kind or 'msgpack'}")
        return
    if not checkpoint:
        return  # the account has the reason
    beside = await _beside(source, thread, as_dict(checkpoint.get("channel_versions")), rows)
    values = as_dict(checkpoint.get("channel_values")) | beside
    further = without(checkpoint, "channel_values", "channel_versions", "versions_seen")
    thread.take(str(identity), str(parent or ""), values, further | {"metadata": meta})


@dataclass
class _Line:
    """What a session holds: the ids of its messages, in order, and digests of their content."""

    ids: dict[str, None] = field(default_factory=dict[str, None])
    digests: dict[str, bytes] = field(default_factory=dict[str, bytes])


class _Thread:
    def __init__(self, source: Source, name: str, space: str) -> None:
        self.name, self.space = name, space
        main = source.session(name)
        first = main.sub_agent(f"{name}/{space}") if space else main
        self._branches = Branches(first)
        self._lines: dict[str, _Line] = {}
        self._values: dict[str, dict[str, bytes]] = {}

    def sessions(self) -> list[Session]:
        return [one for one in self._branches.sessions if one.messages or one.events]

    def take(
        self, identity: str, parent: str, values: dict[str, Any], further: dict[str, Any]
    ) -> None:
        listed = as_list(values.get("messages"))
        messages = [fields for one in listed if (fields := plain(one))]
        odd = [one for one in listed if not plain(one)]
        others = without(values, "messages") | ({"messages": odd} if odd or not listed else {})
        session = self._branches.beside("", parent)
        line = self._lines.setdefault(session.key, _Line())
        new = [one for one in messages if _id_of(one) not in line.ids]
        if new:
            branched = self._branches.follow(identity, parent)
            if branched is not session:
                known = dict.fromkeys([*line.ids][: branched.at_message])
                digests = {one: line.digests[one] for one in known if one in line.digests}
                line = _Line(known, digests)
                self._lines[branched.key] = line
                new = [one for one in messages if _id_of(one) not in line.ids]
                session = branched
            for one in new:
                say_langchain(session, one)
                line.ids[_id_of(one)] = None
        self._tell(session, line, messages, identity)
        changed = self._changed(identity, parent, others)
        at = further.get("ts")
        session.happen("checkpoint", at=at, source={"checkpoint": identity, "parent": parent,
                       **without(further, "ts"), "values": changed})  # fmt: skip
        if new:
            self._branches.place(identity, session)
        else:
            self._branches.beside(identity, parent)

    def _tell(
        self, session: Session, line: _Line, messages: list[dict[str, Any]], identity: str
    ) -> None:
        """Say which messages were replaced or removed: the log itself is never rewritten."""
        for one in messages:
            digest = _digest(one)
            before = line.digests.get(_id_of(one), digest)
            line.digests[_id_of(one)] = digest
            if before != digest:
                session.happen("message-replaced", source={"checkpoint": identity, "message": one})
        there = {_id_of(one) for one in messages}
        gone = [one for one in line.digests if one not in there] if messages else []
        if gone:
            session.happen("messages-removed", source={"checkpoint": identity, "ids": gone})
            for one in gone:
                del line.digests[one]

    def _changed(self, identity: str, parent: str, values: dict[str, Any]) -> dict[str, Any]:
        digests = {channel: _digest(value) for channel, value in values.items()}
        before = self._values.get(parent, {})
        self._values[identity] = digests
        return {
            channel: value
            for channel, value in values.items()
            if before.get(channel) != digests[channel]
        }


def _id_of(message: dict[str, Any]) -> str:
    return str(message.get("id") or _digest(message).hex())


def _digest(value: Any) -> bytes:
    return blake2b(encode_json(value), digest_size=12).digest()


LANGGRAPH_TABLES = Format(
    "langgraph-checkpoints", "LangGraph checkpoint tables (SQLite, Postgres)", recognises, read
)
