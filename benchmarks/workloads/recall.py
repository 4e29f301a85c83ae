"""Recall the best 10 notes of a namespace by embedding, 384 dimensions."""

from collections.abc import AsyncIterator, Mapping

import numpy as np

from benchmarks.contender import Contender
from benchmarks.timing import medians

DIMENSIONS = 384


async def run(
    contenders: Mapping[str, Contender], seconds: float
) -> AsyncIterator[tuple[str, dict[str, float]]]:
    rng = np.random.default_rng(5)
    for count in (1_000, 10_000):
        place = f"recall-{count}"
        vectors = rng.standard_normal((count, DIMENSIONS)).tolist()
        query = rng.standard_normal(DIMENSIONS).tolist()
        answers: set[tuple[str, ...]] = set()
        for contender in contenders.values():
            await contender.seed_notes(place, vectors)
            answers.add(tuple(await contender.recall(place, query, 10)))
        if len(answers) != 1:
            raise AssertionError("the contenders recall different notes")
        jobs = {
            key: lambda c=c, p=place, q=query: c.recall(p, q, 10) for key, c in contenders.items()
        }
        yield f"recall 10 of {count:,} notes", await medians(jobs, seconds)
