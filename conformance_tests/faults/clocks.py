"""A clock that goes where it likes: nothing but what a time says may depend on it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle

STEPS: Sequence[timedelta] = (
    timedelta(0),
    timedelta(hours=-1),
    timedelta(days=3_652),
    timedelta(microseconds=1),
    timedelta(days=-3_653),
    timedelta(0),
)
"""It stands still, goes back, jumps ten years ahead, creeps, and falls behind where it began."""


class SteppingClock:
    """Each look at it is one of ``steps`` later than the look before, in turn."""

    def __init__(self, steps: Sequence[timedelta] = STEPS) -> None:
        self._now = datetime(2030, 1, 1, tzinfo=UTC)
        self._steps: Iterator[timedelta] = cycle(steps)

    def __call__(self) -> datetime:
        self._now += next(self._steps)
        return self._now
