"""Run stores of the Go SDK of the same design: Redis keys, or tables in SQLite or Postgres.

Messages and events stand there in the form that this project keeps too, so they come as they are,
and runs keep their ids.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from stores_cli.importing.databases import reading, redis_client
from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, read_json
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source
from stores_core import CorruptRecordError, InvalidRequestError
from stores_core.codec import decode_event, decode_message, encode

DEFAULT_PREFIX = "mcpkit.agent.run"
_TABLES = ("agent_runs", "agent_run_messages", "agent_run_events")
_PAGE = 500
_RUNS = "SELECT id, parent_id, created_at FROM agent_runs ORDER BY created_at, id"
_RUNS_WITH_POINT = """
SELECT id, parent_id, created_at, fork_point FROM agent_runs ORDER BY created_at, id
"""
_ENTRIES = {
    "messages": "SELECT seq, body FROM agent_run_messages WHERE run_id = ?1 ORDER BY seq",
    "events": "SELECT seq, body FROM agent_run_events WHERE run_id = ?1 ORDER BY seq",
}


def recognises(source: Source) -> bool:
    return source.is_redis or all(table in source.tables for table in _TABLES)


async def read(source: Source) -> AsyncGenerator[Session]:
    """All runs, parents before their forks."""
    known: dict[str, list[int]] = {}
    readings = _from_redis(source) if source.is_redis else _from_tables(source)
    async with aclosing(readings) as found:
        async for session, fork_point in found:
            ours = [hash(encode(message)) for message in session.messages]
            theirs = known.get(session.parent, [])
            same = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
                        min(len(ours), len(theirs)))  # fmt: skip
            session.at_message = min(fork_point or same, same)
            known[session.key] = ours
            yield session


def _session(source: Source, run_id: str, parent: str, created: Any) -> Session:
    session = source.session(run_id, created=created)
    session.keeps_id, session.parent = True, parent
    return session


def _add(source: Source, session: Session, kind: str, number: int, body: bytes) -> None:
    try:
        if kind == "messages":
            session.add_message(decode_message(body))
        else:
            session.add_event(decode_event(body))
    except CorruptRecordError:
        source.damaged(f"{kind} {number} of run {session.key!r}", "not in the form of the SDK")


async def _from_redis(source: Source) -> AsyncGenerator[tuple[Session, int]]:
    parts = urlsplit(source.place)
    options = parse_qs(parts.query)
    prefix = options.pop("prefix", [DEFAULT_PREFIX])[0]
    query = "&".join(f"{name}={value}" for name, values in options.items() for value in values)
    async with redis_client(source, urlunsplit(parts._replace(query=query))) as client:
        metas = await _metas(source, client, prefix)
        if not metas:
            raise InvalidRequestError(
                field="prefix",
                found=f"no run under {prefix!r}",
                allowed="another one, as redis://host/0?prefix=NAME",
            )
        for meta, run_id in sorted(metas, key=_by_creation):
            session = _session(
                source, run_id, str(meta.get("parentId") or ""), meta.get("createdAt")
            )
            source.fold()
            for kind in ("messages", "events"):
                async for number, body in _entries(client, f"{prefix}:{run_id}:{kind}"):
                    for entry in source.each([body]):
                        _add(source, session, kind, number, entry)
            yield session, int(meta.get("forkPoint") or 0)


def _by_creation(found: tuple[dict[str, Any], str]) -> tuple[str, str]:
    return str(found[0].get("createdAt") or ""), found[1]


async def _metas(source: Source, client: Any, prefix: str) -> list[tuple[dict[str, Any], str]]:
    found: list[tuple[dict[str, Any], str]] = []
    pattern = "".join(f"\\{char}" if char in "*?[]^\\-" else char for char in prefix)
    async for key in client.scan_iter(match=f"{pattern}:*:meta", count=_PAGE):
        run_id = key.decode(errors="replace").removeprefix(f"{prefix}:").removesuffix(":meta")
        source.account.records += 1
        try:
            meta = as_dict(read_json(await client.get(key) or b"", source.account.changed))
        except ValueError:
            source.damaged(f"meta of run {run_id!r}", "no JSON")
        else:
            found.append((meta, run_id))
    return found


async def _entries(client: Any, key: str) -> AsyncIterator[tuple[int, bytes]]:
    start = 0
    while page := await client.lrange(key, start, start + _PAGE - 1):
        for number, body in enumerate(page, start):
            yield number, body
        start += len(page)


async def _from_tables(source: Source) -> AsyncGenerator[tuple[Session, int]]:
    has_point = "fork_point" in source.tables["agent_runs"]
    async with reading(source) as rows:
        async for row in rows(_RUNS_WITH_POINT if has_point else _RUNS):
            source.account.records += 1
            source.fold()
            session = _session(source, str(row[0]), str(row[1] or ""), row[2])
            for kind, query in _ENTRIES.items():
                async for number, body in rows(query, session.key):
                    for entry in source.each([body]):
                        data = entry if isinstance(entry, bytes) else str(entry).encode()
                        _add(source, session, kind, number, data)
            yield session, int(row[3] or 0) if has_point else 0


GO_SDK = Format("go-sdk", "Run stores of the Go SDK (Redis, SQLite, Postgres)", recognises, read)
