"""List the newest 50 of many runs."""

from collections.abc import AsyncIterator, Mapping

from benchmarks.contender import Contender
from benchmarks.timing import medians


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    for count in (1_000, 20_000):
        for contender in contenders.values():
            await contender.seed_runs(count)
        jobs = {key: lambda c=c: c.newest(50) for key, c in contenders.items()}
        yield f"the newest 50 of {count:,} runs", await medians(jobs, seconds)
