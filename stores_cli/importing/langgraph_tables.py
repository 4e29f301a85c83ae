"""Checkpoint tables of LangGraph, in SQLite and Postgres.

A thread is a run. Each checkpoint holds the whole list of messages; what its parent did not have is
appended. A second checkpoint that follows one with a successor is a branch, and becomes a fork. The
other channels are kept as events, each when it changed.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from stores_cli.importing.branches import Branches
from stores_cli.importing.checkpoint_values import value_of
from stores_cli.importing.databases import rows
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
SELECT channel, version, type, blob FROM checkpoint_blobs
WHERE thread_id = ?1 AND checkpoint_ns = ?2
"""
WRITES = "pending writes: what a step wrote stands in the checkpoint that it led to"


def recognises(source: Source) -> bool:
    return source.tables.get("checkpoints", set()) >= _COLUMNS


async def read(source: Source) -> AsyncIterator[Session]:
    """Each thread, its branches, and its subgraphs as the runs of sub-agents."""
    thread: _Thread | None = None
    blobs: dict[tuple[str, str], Any] = {}
    async for row in rows(source, _CHECKPOINTS):
        name, space = str(row[0]), str(row[1] or "")
        if thread is None or (thread.name, thread.space) != (name, space):
            for session in thread.sessions() if thread else ():
                yield session
            thread = _Thread(source, name, space)
            blobs = await _blobs(source, name, space)
        for checkpoint in source.each([row]):
            _take(source, thread, checkpoint, blobs)
    for session in thread.sessions() if thread else ():
        yield session
    table = next((name for name in ("writes", "checkpoint_writes") if name in source.tables), "")
    if table:
        async for (count,) in rows(source, f"SELECT count(*) FROM {table}"):  # noqa: S608 - a name of ours
            source.account.records += int(count)
            source.account.left_out[WRITES] += int(count)


async def _blobs(source: Source, name: str, space: str) -> dict[tuple[str, str], Any]:
    """The values that Postgres keeps beside the checkpoints, by channel and version."""
    found: dict[tuple[str, str], Any] = {}
    if "checkpoint_blobs" in source.tables:
        async for channel, version, kind, blob in rows(source, _BLOBS, name, space):
            try:
                found[str(channel), str(version)] = value_of(str(kind), blob, source.account)
            except ValueError:
                source.damaged(f"channel {channel!r} of {name!r}", f"no {kind}")
    return found


def _take(source: Source, thread: "_Thread", row: Any, blobs: dict[tuple[str, str], Any]) -> None:
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
    values = dict(as_dict(checkpoint.get("channel_values")))
    for channel, version in as_dict(checkpoint.get("channel_versions")).items():
        if (channel, str(version)) in blobs:
            values[channel] = blobs[channel, str(version)]
    further = without(checkpoint, "channel_values", "channel_versions", "versions_seen")
    thread.take(str(identity), str(parent or ""), values, further | {"metadata": meta})


@dataclass
class _Line:
    """What a session holds: the ids of its messages, in order, and digests of their content."""

    ids: list[str] = field(default_factory=list[str])
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
        messages = [fields for one in as_list(values.get("messages")) if (fields := plain(one))]
        others = without(values, "messages") if messages else values
        session = self._branches.beside("", parent)
        line = self._lines.setdefault(session.key, _Line())
        new = [one for one in messages if _id_of(one) not in line.ids]
        if new:
            branched = self._branches.follow(identity, parent)
            if branched is not session:
                known = line.ids[: branched.at_message]
                line = _Line(known, {one: line.digests[one] for one in known})
                self._lines[branched.key] = line
                new = [one for one in messages if _id_of(one) not in line.ids]
                session = branched
            for one in new:
                say_langchain(session, one)
                line.ids.append(_id_of(one))
                line.digests[_id_of(one)] = _digest(one)
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
            if line.digests.get(_id_of(one), _digest(one)) != _digest(one):
                line.digests[_id_of(one)] = _digest(one)
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
