"""What takes part in a comparison: a backend of ours, or the least code that does the job."""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from stores_core import (
    Backend,
    EmbedderInfo,
    ImportMemoriesRequest,
    MemoryRecord,
    Message,
    StoredMemory,
    ToolResult,
)
from stores_core.shape import EPOCH
from stores_core.values import from_micros


class Contender(Protocol):
    """The jobs. Those that only prepare one (``seed_run``, ``seed_runs``, …) are not timed."""

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None: ...
    async def append(self, run: str, turn: Sequence[Message]) -> None: ...
    async def load(self, run: str) -> int: ...
    async def last(self, run: str, count: int) -> int: ...
    async def fork(self, run: str, at: int) -> str: ...
    async def seed_runs(self, count: int) -> None: ...
    async def newest(self, count: int) -> int: ...
    async def put_result(self, ref: str, text: str) -> None: ...
    async def get_result(self, ref: str) -> int: ...
    async def seed_notes(self, place: str, vectors: Sequence[Sequence[float]]) -> None: ...
    async def recall(self, place: str, vector: Sequence[float], count: int) -> list[str]: ...


@dataclass(frozen=True)
class Entry:
    """A contender by name. ``limit`` names the one that its ratios are taken against."""

    name: str
    limit: str
    open: Callable[[], AbstractAsyncContextManager[Contender]]


Entries = Callable[[], AsyncIterator[Entry]]


class VectorEmbedder:
    """Stands in for an embedder: the text is the number of a vector that is known beforehand."""

    def __init__(self, dimensions: int) -> None:
        self.name, self.dimensions = "bench", dimensions
        self.query: Sequence[float] = [0.0] * dimensions

    async def embed(self, texts: Sequence[str], purpose: str) -> list[Sequence[float]]:
        return [self.query] * len(texts)


class Ours:
    """Any backend of ours through its front, as users call it."""

    def __init__(self, backend: Backend, embedder: VectorEmbedder) -> None:
        self._backend, self._embedder = backend, embedder
        self._forks = itertools.count()

    async def seed_run(self, run: str, messages: Sequence[Message]) -> None:
        await self._backend.runs.create_run(run_id=run)
        for start in range(0, len(messages), 400):
            await self.append(run, messages[start : start + 400])

    async def append(self, run: str, turn: Sequence[Message]) -> None:
        await self._backend.runs.append_messages(run_id=run, messages=turn)

    async def load(self, run: str) -> int:
        loaded = (await self._backend.runs.load_run(run_id=run)).run
        return len(loaded.messages) if loaded else -1

    async def last(self, run: str, count: int) -> int:
        loaded = (await self._backend.runs.load_run(run_id=run, last_messages=count)).run
        return len(loaded.messages) if loaded else -1

    async def fork(self, run: str, at: int) -> str:
        new = f"fork-{next(self._forks)}"
        await self._backend.runs.fork_run(run_id=run, new_run_id=new, at_message=at)
        return new

    async def seed_runs(self, count: int) -> None:
        for number in range(count):
            await self._backend.runs.create_run(run_id=f"listed-{number}")

    async def newest(self, count: int) -> int:
        return len((await self._backend.runs.list_runs(limit=count)).runs)

    async def put_result(self, ref: str, text: str) -> None:
        result = ToolResult(content=[{"type": "text", "text": text}])
        await self._backend.tool_results.put_tool_result(ref=ref, result=result)

    async def get_result(self, ref: str) -> int:
        result = (await self._backend.tool_results.get_tool_result(ref=ref)).result
        return len((result.content or [{"text": ""}])[0]["text"]) if result else -1

    async def seed_notes(self, place: str, vectors: Sequence[Sequence[float]]) -> None:
        import numpy as np

        info = EmbedderInfo(name=self._embedder.name, dimensions=self._embedder.dimensions)
        for start in range(0, len(vectors), 1_000):
            records = [
                MemoryRecord(
                    namespace=place,
                    item=StoredMemory(
                        key=str(number),
                        value="",
                        created_at=from_micros(number),
                        updated_at=EPOCH,
                        version=1,
                    ),
                    vector=np.asarray(vectors[number], dtype="<f4").tobytes(),
                )
                for number in range(start, min(start + 1_000, len(vectors)))
            ]
            request = ImportMemoriesRequest(memories=records, embedder=info)
            await self._backend.moving.import_memories(request)

    async def recall(self, place: str, vector: Sequence[float], count: int) -> list[str]:
        self._embedder.query = vector
        answer = await self._backend.memory.list_memories(query="q", limit=count, namespace=place)
        return [scored.item.key for scored in answer.items]
