"""What is written while something is killed, and what must be found afterwards.

Writers write at once and tell what was acknowledged to them. Afterwards another client looks:
nothing that was acknowledged is lost, nothing is there in part or twice, nothing is there that was
refused, the store finds itself whole and can be written at once.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stores_core import AppendMessagesResponse, Backend, Event, MemoryItem, Message, ToolResult

HOT = ("hot-0", "hot-1", "hot-2")
LEAST_ACKNOWLEDGED = 2
"""Acknowledged operations per kill, on average, below which a run proves nothing."""

TORN = "no whole batch and do not count"
"""What verify says of the end of a file that a kill cut off, which is no damage."""

Line = list[Any]
Tell = Callable[[Line], None]


@dataclass
class Told:
    """What was acknowledged, over all writers of one file."""

    batches: dict[str, Line] = field(default_factory=dict[str, Line])
    forks: dict[str, Line] = field(default_factory=dict[str, Line])
    deleted: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])
    notes: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, int] = field(default_factory=dict[str, int])
    count: int = 0

    def take(self, line: Line) -> None:
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
    padding = "x" * rng.choices((0, 50, 2_000, 40_000), (6, 8, 5, 1))[0]
    return f"{batch}|{index}|{size}|{padding}"


def result_text(n: int) -> str:
    """A text in which every piece says the version; longer than one chunk for some."""
    return f"{n:09d};" * (10 + n % 7 * 4_000)


class Writer:
    """Writes until it, or what it writes to, is killed."""

    def __init__(self, name: str, tell: Tell, seed: int) -> None:
        self.name, self._tell, self._rng, self._n = name, tell, random.Random(seed), 0
        self._forks: list[str] = []
        # Of two puts at once nobody can say which came last, whatever order they were answered in.
        self._in_turn = asyncio.Lock()

    def tell(self, *line: object) -> None:
        self._tell(list(line))

    async def write(self, backend: Backend) -> None:
        steps = (self.append, self.append, self.append, self.fork, self.delete, self.note)
        while True:
            # Several at once, so that commits are shared.
            group = [
                self._rng.choice((*steps, self.result)) for _ in range(self._rng.randint(1, 4))
            ]
            await asyncio.gather(*(step(backend) for step in group))

    def _next(self) -> int:
        self._n += 1
        return self._n

    async def append(self, backend: Backend) -> None:
        rng, run_id = self._rng, self._rng.choice(HOT)
        batch, size = f"{self.name}-{self._next()}", self._rng.randint(1, 6)
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
        id = f"fork-{self.name}-{self._next()}"
        source = self._rng.choice([*HOT, *self._forks[-3:]])
        answer = await backend.runs.fork_run(run_id=source, new_run_id=id)
        if answer.created:
            self._forks.append(id)
            self.tell("fork", id, source, answer.fork_point)

    async def delete(self, backend: Backend) -> None:
        if len(self._forks) > 3:
            id = self._forks.pop(0)
            self.tell("deleting", id)
            if (await backend.runs.delete_run(run_id=id)).deleted:
                self.tell("delete", id)

    async def note(self, backend: Backend) -> None:
        n, key = self._next(), f"note-{self.name}"
        item = MemoryItem(key=key, value=f"{n}", metadata={"n": n})
        async with self._in_turn:
            await backend.memory.put_memory(item=item)
            self.tell("note", key, n)

    async def result(self, backend: Backend) -> None:
        n, ref = self._next(), f"result-{self.name}"
        content = [{"type": "text", "text": result_text(n)}, {"type": "image", "data": str(n)}]
        async with self._in_turn:
            await backend.tool_results.put_tool_result(ref=ref, result=ToolResult(content=content))
            self.tell("result", ref, n)


async def look(backend: Backend, told: Told) -> list[str]:
    """What is wrong with the store, a sentence each."""
    faults: list[str] = []
    held: dict[str, list[str]] = {}
    page = await backend.runs.list_runs(limit=1_000)
    for info in page.runs:
        loaded = (await backend.runs.load_run(run_id=info.id)).run
        if loaded is None:
            faults.append(f"{info.id} is listed and cannot be loaded")
            continue
        held[info.id] = [(message.text or "") for message in loaded.messages]
        if len(loaded.messages) != info.message_count or len(loaded.events) != info.event_count:
            faults.append(f"{info.id} has other counts than entries")
        for kind, texts in (
            ("messages", held[info.id]),
            ("events", [event.text or "" for event in loaded.events]),
        ):
            faults += [f"{info.id} {kind}: {what}" for what in broken_batches(texts)]
        parent = held.get(info.parent_id)
        if parent and parent[: info.fork_point] != held[info.id][: info.fork_point]:
            faults.append(f"{info.id} is no prefix of {info.parent_id}")
    for batch, (run_id, size, _, count) in told.batches.items():
        found = [text for text in held.get(run_id, []) if text.startswith(f"{batch}|")]
        if len(found) != size or held[run_id].index(found[0]) + size != count:
            faults.append(f"the batch {batch} was acknowledged and is not at its place")
    held_batches = {text.partition("|")[0] for texts in held.values() for text in texts}
    faults += [
        f"the batch {batch} was refused and is there" for batch in told.refused & held_batches
    ]
    for id, (_, fork_point) in told.forks.items():
        if len(held.get(id, ())) != fork_point:
            faults.append(f"the fork {id} was acknowledged and is not whole")
    faults += [f"{id} was deleted and is there" for id in told.deleted if id in held]
    for key, n in told.notes.items():
        note = (await backend.memory.get_memory(key=key)).item
        if note is None or int(note.value) < n or note.metadata != {"n": int(note.value)}:
            faults.append(f"{key} is not what was acknowledged, or of two versions")
    for ref, n in told.results.items():
        result = (await backend.tool_results.get_tool_result(ref=ref)).result
        content = list(result.content or ()) if result else []
        found_n = int(content[1]["data"]) if len(content) == 2 else -1
        if found_n < n or content[0]["text"] != result_text(found_n):
            faults.append(f"{ref} is not what was acknowledged, or of two versions")
    checked = await backend.admin.verify(timeout=300)
    faults += [
        f"{problem.store} {problem.id}: {problem.what}"
        for problem in checked.problems
        if TORN not in problem.what
    ]
    return faults + await still_known(backend, told)


def broken_batches(texts: list[str]) -> list[str]:
    """Batches that are not there whole, in one piece and once."""
    faults: list[str] = []
    seen: set[str] = set()
    position = 0
    while position < len(texts):
        batch, index, size, _ = texts[position].split("|", 3)
        wanted = [f"{batch}|{n}|{size}|" for n in range(int(size))]
        there = texts[position : position + int(size)]
        whole = len(there) == len(wanted) and all(map(str.startswith, there, wanted))
        if index != "0" or not whole or batch in seen:
            faults.append(f"the batch {batch} is there in part or twice")
        seen.add(batch)
        position += max(1, int(size) if whole else 1)
    return faults


async def still_known(backend: Backend, told: Told) -> list[str]:
    """Keys that were acknowledged lately and are not known any more; and whether one can write."""
    faults: list[str] = []
    keyed = [(batch, line) for batch, line in told.batches.items() if line[2]][-5:]
    for batch, (run_id, _, key, count) in keyed:
        try:
            answer = await backend.runs.append_messages(
                run_id=run_id, messages=[Message(role="user", text="again")], idempotency_key=key
            )
            faults.append(f"the key of {batch} is forgotten ({answer.message_count} for {count})")
        except ValueError:
            pass  # the key is known, with another batch
    started = time.monotonic()
    await backend.runs.create_run(run_id="probe")
    await backend.runs.append_events(run_id="probe", events=[Event(kind="p", text="p|0|1|")])
    await backend.runs.delete_run(run_id="probe")
    if time.monotonic() - started > 2:
        faults.append("the store could not be written at once")
    return faults


def arguments(module: str, given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line of a module that kills: ``kills``, ``seed``, ``json``."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="the counts and faults as JSON")
    return parser.parse_args(given)


def conclude(options: argparse.Namespace, kills: int, acknowledged: int, faults: list[str]) -> int:
    """Print what came of it, as JSON; the exit code, which is 0 only if nothing was found."""
    if acknowledged < LEAST_ACKNOWLEDGED * kills:
        faults = [*faults, "too little was acknowledged between the kills to prove anything"]
    told = {"kills": kills, "acknowledged": acknowledged, "seed": options.seed, "faults": faults}
    text = json.dumps(told)
    print(text)
    if options.json is not None:
        options.json.write_text(text, "utf-8")
    return 1 if faults else 0
