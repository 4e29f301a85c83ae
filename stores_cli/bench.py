"""``bench``: how quick one backend answers, through the front, as a caller would see it."""

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Annotated

from typer import Option

from stores_cli.commands import command, group
from stores_cli.embedders import embedder_of
from stores_cli.exits import Exit
from stores_cli.memory import Embedding
from stores_cli.options import Json, Url
from stores_cli.output import Output
from stores_cli.urls import in_tenant, opened, shown, url_or_default
from stores_core.backend import Backend
from stores_core.entries import Message
from stores_core.memory import MemoryItem

commands = group()

Operation = Callable[[Backend, int], Awaitable[object]]
"""One operation of the caller of this number."""

SOURCE = "source"
MESSAGES, NOTES, RUNS = 500, 500, 100
"""What is there before anything is timed: messages in one run, notes, other runs."""

TEXT_LENGTH = 300
"""Characters of a message or a note, words of one vocabulary."""

A_DAY = 86_400.0


async def _append(backend: Backend, caller: int) -> None:
    said = [Message(role="user", text="x" * TEXT_LENGTH)]
    await backend.runs.append_messages(run_id=f"run-{caller}", messages=said)


async def _load(backend: Backend, caller: int) -> None:
    await backend.runs.load_run(run_id=SOURCE, last_messages=20)


async def _fork(backend: Backend, caller: int) -> None:
    await backend.runs.fork_run(run_id=SOURCE, at_message=MESSAGES // 2)


async def _list(backend: Backend, caller: int) -> None:
    await backend.runs.list_runs(limit=50)


async def _recall(backend: Backend, caller: int) -> None:
    await backend.memory.list_memories(query=_WORDS[caller % len(_WORDS)], limit=10)


OPERATIONS: dict[str, Operation] = {
    "append": _append,
    "load": _load,
    "list": _list,
    "recall": _recall,
    "fork": _fork,  # last, since it makes runs, which listings would meet
}

WHAT = {
    "append": "one message, a batch of its own",
    "load": f"the newest 20 of {MESSAGES} messages",
    "list": "the newest 50 runs",
    "recall": f"the best 10 of {NOTES} notes",
    "fork": f"at message {MESSAGES // 2} of {MESSAGES}",
}


@command(commands, "bench", example="bench sqlite:agent.db --seconds 10")
async def bench(
    url: Url = "",
    seconds: Annotated[
        float, Option("--seconds", min=0.1, max=3_600, metavar="S", help="In all, for five parts.")
    ] = 5.0,
    callers: Annotated[
        int, Option("--callers", min=1, max=RUNS, metavar="N", help="So many at the same time.")
    ] = 1,
    embedder: Embedding = "",
    json: Json = False,
) -> int:
    """Time five operations: append, load, list, recall, fork.

    Each is repeated for a fifth of --seconds, by callers who wait for each answer. It works in a
    tenant of its own (bench-...), which is erased at the end, also after Ctrl-C.
    """
    output, url = Output(json=json), url_or_default(url)
    tenant = f"bench-{secrets.token_hex(6)}"
    async with (
        embedder_of(embedder) as made,
        opened(in_tenant(url, tenant), embedder=made, create=True) as backend,
    ):
        admin = backend.admin  # without one the tenant could not be erased
        times: dict[str, dict[str, float]] = {}
        try:
            await _fill(backend)
            with output.progress("timing", total=len(OPERATIONS)) as step:
                for name, operation in OPERATIONS.items():
                    share = seconds / len(OPERATIONS)
                    times[name] = await timed(backend, operation, callers, share)
                    step(1)
        finally:
            await admin.erase_tenant(tenant=tenant, timeout=A_DAY)
    if json:
        facts = {"url": shown(url), "backend": backend.name, "durability": backend.durability}
        output.document({**facts, "callers": callers, "operations": times})
        return Exit.FINE
    output.line(f"{backend.name}, durability {backend.durability}, {callers} at the same time")
    columns = ("operation", "what", "count", "per second", "median ms", "p95 ms")
    output.table(columns, [_row(name, numbers) for name, numbers in times.items()])
    return Exit.FINE


def _row(name: str, numbers: dict[str, float]) -> tuple[object, ...]:
    rate = round(numbers["perSecond"])
    times = (f"{numbers[key]:.3f}" for key in ("medianMs", "p95Ms"))
    return name, WHAT[name], int(numbers["count"]), rate, *times


async def _fill(backend: Backend) -> None:
    """What all operations find: the same at every start, since the words are drawn by a seed."""
    draw = random.Random(7)  # noqa: S311 - sample texts
    runs = backend.runs
    for number in range(RUNS):
        await runs.create_run(run_id=f"run-{number}")
    await runs.create_run(run_id=SOURCE)
    said = [Message(role="user", text=_text(draw)) for _ in range(MESSAGES)]
    await runs.append_messages(run_id=SOURCE, messages=said)
    notes = [MemoryItem(key=f"note-{number}", value=_text(draw)) for number in range(NOTES)]
    await backend.memory.put_memories(items=notes)


_WORDS = [f"{first}{last}" for first in ("al", "be", "co", "du") for last in ("ra", "mi", "no")]


def _text(draw: random.Random) -> str:
    words = draw.choices(_WORDS, k=TEXT_LENGTH // 5)
    return " ".join(words)[:TEXT_LENGTH]


async def timed(
    backend: Backend, operation: Operation, callers: int, seconds: float
) -> dict[str, float]:
    """Count, rate and times of an operation. The first of each caller is not counted."""
    took: list[float] = []

    async def call(caller: int) -> None:
        while (begin := time.perf_counter()) < end:
            await operation(backend, caller)
            took.append(time.perf_counter() - begin)

    await asyncio.gather(*(operation(backend, caller) for caller in range(callers)))
    start = time.perf_counter()
    end = start + seconds
    async with asyncio.TaskGroup() as group:
        for caller in range(callers):
            group.create_task(call(caller))
    whole = time.perf_counter() - start
    return {
        "count": len(took),
        "perSecond": round(len(took) / whole, 3),
        "medianMs": round(1_000 * median(took), 4),
        "p95Ms": round(1_000 * percentile(took, 0.95), 4),
    }


def percentile(times: Sequence[float], share: float) -> float:
    """The least of ``times`` that at least this share of them do not exceed (nearest rank)."""
    ordered = sorted(times)
    rank = -int(-share * len(ordered) // 1)
    return ordered[max(rank, 1) - 1]
