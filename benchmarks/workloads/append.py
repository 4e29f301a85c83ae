"""Append a turn of four messages to runs of several lengths, one writer."""

import random
from collections.abc import AsyncIterator, Mapping
from functools import partial

from benchmarks.contender import Contender
from benchmarks.inputs import messages, turn
from benchmarks.timing import Job, medians
from stores_core import Message


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    turns = [turn(random.Random(seed)) for seed in range(200)]
    for length in (0, 100, 1_000, 10_000):
        name = f"append-{length}"
        jobs: dict[str, Job] = {}
        for key, contender in contenders.items():
            await contender.seed_run(name, messages(1, length))
            picks = random.Random(2)
            jobs[key] = partial(_append, contender, name, turns, picks)
        yield f"append a turn at {length:,}", await medians(jobs, seconds)


async def _append(
    contender: Contender, run: str, turns: list[list[Message]], picks: random.Random
) -> None:
    await contender.append(run, picks.choice(turns))
