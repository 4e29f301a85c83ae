"""Put and get tool results of several sizes."""

import random
from collections.abc import AsyncIterator, Mapping

from benchmarks.contender import Contender
from benchmarks.inputs import text
from benchmarks.timing import medians


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    unit = text(random.Random(4), 10_000)
    for size, label in ((10_000, "10 kB"), (1_000_000, "1 MB"), (20_000_000, "20 MB")):
        body = unit * (size // len(unit))
        jobs = {key: lambda c=c, b=body: c.put_result("r", b) for key, c in contenders.items()}
        yield f"put a result of {label}", await medians(jobs, seconds)
        jobs = {key: lambda c=c: c.get_result("r") for key, c in contenders.items()}
        yield f"get a result of {label}", await medians(jobs, seconds)
