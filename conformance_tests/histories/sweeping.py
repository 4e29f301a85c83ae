"""The test of real time: nobody is shown less than somebody was shown before.

Everything that happened to one log is at a place on one line, and the log itself tells which.
So no order has to be searched for: a history is explained by that line exactly when every call can
have a place at or after the places of all calls that were over when it began.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance_tests.histories.recording import FOREVER, Record

END = 2**62
"""A place after all others."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a call can have been: at a place of ``ranges`` (ascending, both ends included).

    ``gives`` is the place that it moved the line to; None for a call that moved nothing.
    """

    record: Record
    ranges: Sequence[tuple[int, int]]
    gives: int | None = None


@dataclass(frozen=True, slots=True)
class Late:
    """A claim that came too late: when it began, ``before`` had been answered from ``reached``."""

    claim: Claim
    before: Record
    reached: int


def sweep(claims: Iterable[Claim]) -> Late | None:
    """The first call that has no place left; None where real time explains all.

    Each call takes the earliest place that is open to it, which leaves most to those after it.
    """
    ordered = sorted(claims, key=lambda claim: claim.record.called)
    reached, witness = 0, None
    returns = sorted(
        (claim.record.returned, number)
        for number, claim in enumerate(ordered)
        if claim.record.returned < FOREVER
    )
    places: dict[int, int] = {}
    next_return = 0
    for number, claim in enumerate(ordered):
        while next_return < len(returns) and returns[next_return][0] < claim.record.called:
            earlier = returns[next_return][1]
            if places[earlier] > reached:
                reached, witness = places[earlier], ordered[earlier].record
            next_return += 1
        open_to = [max(low, reached) for low, high in claim.ranges if max(low, reached) <= high]
        if not open_to:
            return Late(claim, witness or claim.record, reached)
        places[number] = open_to[0] if claim.gives is None else claim.gives
    return None
