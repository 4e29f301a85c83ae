"""In memory: dicts and lists that hold the same JSON text, and our store."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import numpy.typing as npt

from benchmarks.contender import Contender, Entry, Ours, VectorEmbedder
from stores_core import Message, ToolResult, open_backend
from stores_core.codec import decode_messages, decode_tool_result, encode

DIMENSIONS = 384


class InNumpy:
    """The least for recall: one product with a matrix of unit vectors."""

    def __init__(self) -> None:
        self._vectors: npt.NDArray[np.float32] = np.zeros((0, DIMENSIONS), np.float32)

    async def seed_notes(self, place: str, vectors: Sequence[Sequence[float]]) -> None:
        rows = np.asarray(vectors, dtype=np.float32)
        self._vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    async def recall(self, place: str, vector: Sequence[float], count: int) -> list[str]:
        query = np.asarray(vector, dtype=np.float32)
        scores = self._vectors @ (query / np.linalg.norm(query))
        best = np.argpartition(scores, len(scores) - count)[-count:]
        return [str(row) for row in best[np.argsort(-scores[best])]]


class Raw(InNumpy):
    """The least: encode, keep, decode; no ids checked, no stamps, nothing shared, no locks."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, list[bytes]] = {}
        self._results: dict[str, bytes] = {}
        self._names = itertools.count()
        self._order: list[str] = []

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        self._runs[run] = [encode(message) for message in messages]

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        self._runs[run].extend([encode(message) for message in turn])

    async def load(self, run: str) -> int:
        return len(decode_messages(self._runs[run]))

    async def last(self, run: str, count: int) -> int:
        return len(decode_messages(self._runs[run][-count:]))

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._names)}"
        self._runs[new] = self._runs[run][:at]
        return new

    async def seed_runs(self, count: int) -> None:
        self._order = [f"listed-{number}" for number in range(count)]

    async def newest(self, count: int) -> int:
        return len([{"id": run} for run in self._order[-count:]])

    async def put_result(self, ref: str, text: str) -> None:
        self._results[ref] = encode(ToolResult(content=[{"type": "text", "text": text}]))

    async def get_result(self, ref: str) -> int:
        content = decode_tool_result(self._results[ref]).content or [{"text": ""}]
        return len(content[0]["text"])


@asynccontextmanager
async def _raw() -> AsyncGenerator[Contender]:
    yield Raw()


@asynccontextmanager
async def _ours() -> AsyncGenerator[Contender]:
    embedder = VectorEmbedder(DIMENSIONS)
    async with open_backend("memory:", embedder=embedder) as backend:
        yield Ours(backend, embedder)


def entries() -> list[Entry]:
    return [Entry("raw dicts", "raw dicts", _raw), Entry("memory:", "raw dicts", _ours)]
