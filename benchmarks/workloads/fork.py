"""Fork at the end and in the middle of runs of several lengths."""

from collections.abc import AsyncIterator, Mapping

from benchmarks.contender import Contender
from benchmarks.inputs import messages
from benchmarks.timing import medians


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    for length in (100, 10_000, 100_000):
        body = messages(3, min(length, 10_000)) * max(1, length // 10_000)
        name = f"fork-of-{length}"
        for contender in contenders.values():
            await contender.seed_run(name, body)
        for where, at in (("end", length), ("middle", length // 2)):
            jobs = {key: lambda c=c, n=name, a=at: c.fork(n, a) for key, c in contenders.items()}
            yield f"fork {length:,} at the {where}", await medians(jobs, seconds)
