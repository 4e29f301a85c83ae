"""Files: one to append to for each run, with and without a sync; and our store."""

import asyncio
import itertools
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from benchmarks.contender import Contender, Entry, Ours, VectorEmbedder
from benchmarks.contenders.in_memory import DIMENSIONS, InNumpy
from stores_core import Message, ToolResult, open_backend
from stores_core.codec import (
    decode_json,
    decode_messages,
    decode_tool_result,
    encode,
    encode_json,
)

A = TypeVar("A")


class Raw(InNumpy):
    """The least: JSON lines, one write a job. The caller keeps offsets; nothing is locked."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        super().__init__()
        self._folder, self._sync = folder, sync
        self._threads = ThreadPoolExecutor(8)
        self._names = itertools.count()
        self._files: dict[str, int] = {}
        self._offsets: dict[str, list[int]] = {}

    def close(self) -> None:
        self._threads.shutdown()
        for file in self._files.values():
            os.close(file)

    async def _do(self, work: Callable[[], A]) -> A:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _write(self, name: str, lines: Sequence[bytes]) -> None:
        if name not in self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._files[name] = os.open(self._folder / name, flags, 0o600)
            self._offsets[name] = [0]
        offsets = self._offsets[name]
        for line in lines:
            offsets.append(offsets[-1] + len(line) + 1)
        os.write(self._files[name], b"".join(line + b"\n" for line in lines))
        if self._sync:
            os.fdatasync(self._files[name])

    def _read(self, name: str, count: int) -> list[bytes]:
        offsets = self._offsets[name]
        start = offsets[-1 - count]
        return os.pread(self._files[name], offsets[-1] - start, start).splitlines()

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        await self.append(run, messages)

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        await self._do(partial(self._write, run, [encode(message) for message in turn]))

    async def load(self, run: str) -> int:
        return await self.last(run, len(self._offsets[run]) - 1)

    async def last(self, run: str, count: int) -> int:
        return len(await self._do(lambda: decode_messages(self._read(run, count))))

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._names)}"
        length = len(self._offsets[run]) - 1
        await self._do(lambda: self._write(new, self._read(run, length)[:at]))
        return new

    async def seed_runs(self, count: int) -> None:
        lines = [encode_json({"id": f"listed-{number}", "at": number}) for number in range(count)]
        await self._do(lambda: self._write("listed", lines))

    async def newest(self, count: int) -> int:
        return len(
            await self._do(lambda: [decode_json(line) for line in self._read("listed", count)])
        )

    async def put_result(self, ref: str, text: str) -> None:
        body = encode(ToolResult(content=[{"type": "text", "text": text}]))

        def work() -> None:
            new = self._folder / f"{ref}.new"
            with new.open("wb") as file:
                file.write(body)
                file.flush()
                if self._sync:
                    os.fdatasync(file.fileno())
            new.rename(self._folder / f"{ref}.result")

        await self._do(work)

    async def get_result(self, ref: str) -> int:
        def work() -> int:
            result = decode_tool_result((self._folder / f"{ref}.result").read_bytes())
            return len((result.content or [{"text": ""}])[0]["text"])

        return await self._do(work)


@asynccontextmanager
async def _raw(*, sync: bool) -> AsyncGenerator[Contender]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        raw = Raw(Path(folder), sync=sync)
        try:
            yield raw
        finally:
            raw.close()


@asynccontextmanager
async def _ours() -> AsyncGenerator[Contender]:
    embedder = VectorEmbedder(DIMENSIONS)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        async with open_backend(f"file:{quote(folder)}/ours", embedder=embedder) as backend:
            yield Ours(backend, embedder)


def entries() -> list[Entry]:
    synced = "raw append, fsync"
    return [
        Entry("raw append, no fsync", synced, partial(_raw, sync=False)),
        Entry(synced, synced, partial(_raw, sync=True)),
        Entry("file:", synced, _ours),
    ]
