"""Load runs of several lengths, decoded; the newest 20 of a long one; a fork of forks."""

from collections.abc import AsyncIterator, Mapping

from benchmarks.contender import Contender
from benchmarks.inputs import messages
from benchmarks.timing import medians

LONG = 100_000
GENERATIONS = 10


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    for length in (100, 1_000, 10_000):
        name = f"load-{length}"
        for contender in contenders.values():
            await contender.seed_run(name, messages(1, length))
        jobs = {key: lambda c=c, n=name: c.load(n) for key, c in contenders.items()}
        yield f"load {length:,} messages", await medians(jobs, seconds)

    forks = {key: await _deep(contender, "load-1000") for key, contender in contenders.items()}
    jobs = {key: lambda c=c, n=forks[key]: c.load(n) for key, c in contenders.items()}
    yield f"load 1,040 messages, {GENERATIONS} forks deep", await medians(jobs, seconds)

    body = messages(2, 10_000) * (LONG // 10_000)
    for contender in contenders.values():
        await contender.seed_run("long", body)
    jobs = {key: lambda c=c: c.last("long", 20) for key, c in contenders.items()}
    yield f"the newest 20 of {LONG:,}", await medians(jobs, seconds)


async def _deep(contender: Contender, run: str) -> str:
    length = 1_000
    for generation in range(GENERATIONS):
        run = await contender.fork(run, length)
        await contender.append(run, messages(generation, 4))
        length += 4
    return run
