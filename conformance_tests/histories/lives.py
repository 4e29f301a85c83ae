"""Births and deaths of one run id: whether one order of them explains who was told what.

An id is free or bears one life. Creates and forks to it begin a life, deletes end one, and every
other answer saw a life or saw none. The test goes through the calls in order of time and keeps all
states that the id can be in. A call takes effect only where some answer needs it to, so there are
few of them, and the verdict is exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from conformance_tests.histories.recording import FOREVER, Record

MOST_STATES = 20_000


class What(Enum):
    """What a call did to an id, or saw there."""

    BIRTH = auto()
    DEATH = auto()
    ALIVE = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Told:
    """One call as an id saw it. ``lives`` is the life born, or those of which one was seen.

    Empty, for one that was seen, it stands for any. A call of unknown outcome never returns and
    need not have happened.
    """

    record: Record
    what: What
    lives: frozenset[str] = frozenset()

    @property
    def changes(self) -> bool:
        return self.what in (What.BIRTH, What.DEATH)

    def fits(self, life: str) -> bool:
        """Whether a read can have been answered so while ``life``, or none, was there."""
        if self.what is What.GONE:
            return not life
        return self.what is What.ALIVE and bool(life) and (not self.lives or life in self.lives)

    def after(self, life: str) -> str | None:
        """The life after this change; None where it cannot happen now."""
        if self.what is What.BIRTH:
            return None if life else next(iter(self.lives))
        return "" if life else None


class TooManyStatesError(Exception):
    """So many calls of unknown outcome were under way that the test would take too long."""


State = tuple[str, frozenset[int]]
"""The life that is there, and which of the calls under way have had their moment."""


def explain(told: Sequence[Told]) -> Told | None:
    """The first answer that no order of births and deaths explains; None where one explains all.

    Raises TooManyStatesError.
    """
    moments = sorted(
        [(one.record.called, 0, number) for number, one in enumerate(told)]
        + [
            (one.record.returned, 1, number)
            for number, one in enumerate(told)
            if one.record.returned < FOREVER
        ]
    )
    under_way: dict[int, Told] = {}
    states: set[State] = {("", frozenset())}
    for _, returns, number in moments:
        one = told[number]
        if not returns:
            under_way[number] = one
            if not one.changes:
                states = {(life, had | {number} if one.fits(life) else had) for life, had in states}
            continue
        states = {
            (life, had - {number})
            for state in states
            for life, had in _until(number, state, under_way)
        }
        del under_way[number]
        if not states:
            return one
        if len(states) > MOST_STATES:
            raise TooManyStatesError
    return None


def _until(wanted: int, state: State, under_way: dict[int, Told]) -> Iterable[State]:
    """The states in which the wanted call has just had its moment, by as many changes as needed."""
    reached: set[State] = set()
    seen = {state}
    front = [state]
    while front:
        life, had = front.pop()
        if wanted in had:
            reached.add((life, had))
            continue
        for following in _changed(life, had, under_way):
            if following not in seen:
                seen.add(following)
                front.append(following)
        if len(seen) > MOST_STATES:
            raise TooManyStatesError
    return reached


def _changed(life: str, had: frozenset[int], under_way: dict[int, Told]) -> Iterable[State]:
    unknown_death = False
    for number, one in under_way.items():
        if number in had or not one.changes:
            continue
        if one.what is What.DEATH and one.record.returned == FOREVER:
            if unknown_death:  # one is like another, so the earliest stands for all
                continue
            unknown_death = True
        then = one.after(life)
        if then is not None:
            saw = [
                other
                for other, read in under_way.items()
                if not read.changes and other not in had and read.fits(then)
            ]
            yield then, had.union([number], saw)
