"""SQLite: one thread, one table for each job and a commit with a sync; and our store."""

import asyncio
import itertools
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from benchmarks.contender import Contender, Entry, Ours, VectorEmbedder
from benchmarks.contenders.in_memory import DIMENSIONS, InNumpy
from stores_core import Message, ToolResult, open_backend
from stores_core.codec import decode_messages, decode_tool_result, encode

A = TypeVar("A")

_SCHEMA = """
create table message (run text, position int, body blob, primary key (run, position)) without rowid;
create table run (id text primary key, created int);
create index newest on run (created desc, id);
create table result (ref text primary key, body blob);
"""


class Raw(InNumpy):
    """The least: a statement and a commit for each job. The caller keeps the positions."""

    _db: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._thread = ThreadPoolExecutor(1)
        self._path = path
        self._counts: dict[str, int] = {}
        self._names = itertools.count()

    async def open(self) -> None:
        def work() -> None:
            self._db = sqlite3.connect(self._path, isolation_level=None)
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.executescript(_SCHEMA)

        await self._do(work)

    async def close(self) -> None:
        await self._do(lambda: self._db.close())
        self._thread.shutdown()

    async def _do(self, work: Callable[[], A]) -> A:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        def work() -> None:
            self._db.execute("begin immediate")
            self._db.executemany(statement, rows)
            self._db.execute("commit")

        await self._do(work)

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        await self.append(run, messages)

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        first = self._counts.get(run, 0)
        self._counts[run] = first + len(turn)
        rows = [(run, first + index, encode(message)) for index, message in enumerate(turn)]
        await self._write("insert into message values (?, ?, ?)", rows)

    async def load(self, run: str) -> int:
        return await self.last(run, self._counts[run])

    async def last(self, run: str, count: int) -> int:
        def work() -> int:
            rows = self._db.execute(
                "select body from message where run = ? and position >= ? order by position",
                (run, self._counts[run] - count),
            )
            return len(decode_messages([body for (body,) in rows]))

        return await self._do(work)

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._names)}"
        self._counts[new] = at
        await self._write(
            "insert into message select ?, position, body from message where run = ? "
            "and position < ?",
            [(new, run, at)],
        )
        return new

    async def seed_runs(self, count: int) -> None:
        rows = [(f"listed-{number}-{count}", number) for number in range(count)]
        await self._write("insert into run values (?, ?)", rows)

    async def newest(self, count: int) -> int:
        def work() -> int:
            rows = self._db.execute(
                "select id, created from run order by created desc, id limit ?", (count,)
            )
            return len([{"id": run, "created": created} for run, created in rows])

        return await self._do(work)

    async def put_result(self, ref: str, text: str) -> None:
        body = encode(ToolResult(content=[{"type": "text", "text": text}]))
        await self._write("insert or replace into result values (?, ?)", [(ref, body)])

    async def get_result(self, ref: str) -> int:
        def work() -> int:
            (body,) = self._db.execute("select body from result where ref = ?", (ref,)).fetchone()
            return len((decode_tool_result(body).content or [{"text": ""}])[0]["text"])

        return await self._do(work)


@asynccontextmanager
async def _raw() -> AsyncGenerator[Contender]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        raw = Raw(Path(folder) / "raw.db")
        await raw.open()
        try:
            yield raw
        finally:
            await raw.close()


@asynccontextmanager
async def _ours() -> AsyncGenerator[Contender]:
    embedder = VectorEmbedder(DIMENSIONS)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        url = f"sqlite:{quote(folder)}/ours.db"
        async with open_backend(url, embedder=embedder) as backend:
            yield Ours(backend, embedder)


def entries() -> list[Entry]:
    return [Entry("raw sqlite3", "raw sqlite3", _raw), Entry("sqlite:", "raw sqlite3", _ours)]
