"""Append a turn to each of 32 runs at once."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping

from benchmarks.contender import Contender
from benchmarks.inputs import messages, turn
from benchmarks.timing import medians

RUNS = 32


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    turns = [turn(random.Random(seed)) for seed in range(RUNS)]

    async def all_at_once(contender: Contender) -> None:
        await asyncio.gather(
            *(contender.append(f"many-{number}", turns[number]) for number in range(RUNS))
        )

    for contender in contenders.values():
        for number in range(RUNS):
            await contender.seed_run(f"many-{number}", messages(number, 1_000))
    jobs = {key: lambda c=contender: all_at_once(c) for key, contender in contenders.items()}
    yield f"append a turn to each of {RUNS} runs at once", await medians(jobs, seconds)
