"""Timing of contenders against each other: interleaved, medians, ratios."""

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Job = Callable[[], Awaitable[object]]


async def medians(jobs: Mapping[str, Job], seconds: float) -> dict[str, float]:
    """The median time of each job in seconds, taken in turns until ``seconds`` are over for each.

    Turns keep a noisy minute from falling on one contender alone.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        await job()
    gc.collect()
    ends = time.perf_counter() + seconds * len(jobs)
    while time.perf_counter() < ends or min(map(len, times.values())) < 5:
        for name, job in jobs.items():
            begun = time.perf_counter()
            await job()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken) for name, taken in times.items()}
