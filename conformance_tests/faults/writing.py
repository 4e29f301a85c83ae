"""What is written while something breaks, and what was acknowledged of it.

A writer writes several things at once to a few runs that all writers share, to forks, notes and
tool results of its own, and tells each acknowledgement as soon as it has it, to what outlives it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.memory import MemoryItem
from stores_core.runs import AppendMessagesResponse
from stores_core.tool_results import ToolResult

HOT_RUNS = 3
LABEL = "stage"

Line = list[Any]
Tell = Callable[[Line], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where writers write: ``name`` begins every id of theirs, so it must be new."""

    name: str

    @property
    def hot(self) -> list[str]:
        """The runs that all writers append to."""
        return [f"{self.name}-hot-{n}" for n in range(HOT_RUNS)]

    @property
    def labels(self) -> dict[str, str]:
        """By which the runs of this stage are found."""
        return {LABEL: self.name}

    async def prepare(self, backend: Backend) -> None:
        """Create what has to be there before anybody writes."""
        if "runs" in backend.offered:
            for run_id in self.hot:
                await backend.runs.create_run(run_id=run_id, labels=self.labels)


@dataclass
class Told:
    """What was acknowledged to all writers of one stage."""

    batches: dict[str, Line] = field(default_factory=dict[str, Line])
    forks: dict[str, Line] = field(default_factory=dict[str, Line])
    deleted: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])
    notes: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, int] = field(default_factory=dict[str, int])
    count: int = 0

    def take(self, line: Line) -> None:
        """Take in what a writer told. Raises ValueError for what no writer tells."""
        self.count += 1
        match line:
            case ["batch", str(batch), *rest]:
                self.batches[batch] = rest
            case ["fork", str(id), *rest]:
                self.forks[id] = rest
            case ["deleting", str(id)]:
                self.count -= 1
                self.forks.pop(id, None)
            case ["refused", str(batch)]:
                self.count -= 1
                self.refused.add(batch)
            case ["delete", str(id)]:
                self.deleted.add(id)
            case ["note", str(key), int(n)]:
                self.notes[key] = n
            case ["result", str(ref), int(n)]:
                self.results[ref] = n
            case _:
                raise ValueError(line)


def entry(batch: str, index: int, size: int, rng: random.Random) -> str:
    """A text that says which batch it belongs to, and at which place of how many."""
    padding = "x" * rng.choices((0, 50, 2_000, 40_000), (80, 80, 20, 1))[0]
    return f"{batch}|{index}|{size}|{padding}"


def result_text(n: int) -> str:
    """A text in which every piece says the version; longer than one chunk for some."""
    return f"{n:09d};" * (10 + (4_000 * (n % 7) if n % 5 == 0 else 0))


class Writer:
    """Writes until it, or what it writes to, is ended. ``name`` is nobody else's."""

    def __init__(self, stage: Stage, name: str, tell: Tell, seed: int) -> None:
        self.stage, self.name = stage, f"{stage.name}-{name}"
        self.rng = random.Random(seed)
        self._tell, self._n = tell, 0
        self._forks: list[str] = []
        # Of two puts at once nobody can say which came last, whatever order they were answered in.
        self._in_turn = asyncio.Lock()

    def tell(self, *line: object) -> None:
        self._tell(list(line))

    def group(self, backend: Backend) -> list[Awaitable[None]]:
        """One to four things to do at once, so that commits are shared."""
        steps: list[Callable[[Backend], Awaitable[None]]] = []
        if "runs" in backend.offered:
            steps += [self.append, self.append, self.append, self.fork, self.delete]
        if "memory" in backend.offered:
            steps.append(self.note)
        if "tool_results" in backend.offered:
            steps.append(self.result)
        return [step(backend) for step in self.rng.choices(steps, k=self.rng.randint(1, 4))]

    async def write(self, backend: Backend) -> None:
        """Write for ever."""
        while True:
            await asyncio.gather(*self.group(backend))

    def _next(self) -> int:
        self._n += 1
        return self._n

    async def append(self, backend: Backend) -> None:
        rng, run_id = self.rng, self.rng.choice(self.stage.hot)
        batch, size = f"{self.name}-{self._next()}", self.rng.randint(1, 6)
        key = batch if rng.random() < 0.7 else ""
        texts = [entry(batch, index, size, rng) for index in range(size)]
        answer = await self.send(backend, batch, run_id, texts, key)
        self.tell("batch", batch, run_id, size, key, answer.message_count)

    async def send(
        self, backend: Backend, batch: str, run_id: str, texts: list[str], key: str
    ) -> AppendMessagesResponse:
        return await backend.runs.append_messages(
            run_id=run_id,
            messages=[Message(role="user", text=text) for text in texts],
            events=[Event(kind="e", text=text) for text in texts],
            idempotency_key=key,
        )

    async def fork(self, backend: Backend) -> None:
        id = f"{self.name}-fork-{self._next()}"
        source = self.rng.choice([*self.stage.hot, *self._forks[-3:]])
        answer = await backend.runs.fork_run(run_id=source, new_run_id=id, labels=self.stage.labels)
        if answer.created:
            self._forks.append(id)
            self.tell("fork", id, source, answer.fork_point)

    async def delete(self, backend: Backend) -> None:
        if len(self._forks) > 1:
            id = self._forks.pop(0)
            self.tell("deleting", id)
            if (await backend.runs.delete_run(run_id=id)).deleted:
                self.tell("delete", id)

    async def note(self, backend: Backend) -> None:
        n, key = self._next(), f"{self.name}-note"
        item = MemoryItem(key=key, value=f"{n}", metadata={"n": n})
        async with self._in_turn:
            await backend.memory.put_memory(item=item)
            self.tell("note", key, n)

    async def result(self, backend: Backend) -> None:
        n, ref = self._next(), f"{self.name}-result"
        content = [{"type": "text", "text": result_text(n)}, {"type": "image", "data": str(n)}]
        async with self._in_turn:
            await backend.tool_results.put_tool_result(ref=ref, result=ToolResult(content=content))
            self.tell("result", ref, n)
