"""Revisions of a stored format, and what one is to this code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from stores_core.errors import InvalidRequestError

_NAME = re.compile(r"([0-9]{4})(?:_from_([0-9]{4}))?")
_PACKED = 1_000

W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)


class State(StrEnum):
    """What a storage is to this code. It works on a CURRENT one."""

    CURRENT = "current"
    BEHIND = "behind"
    AHEAD = "ahead"
    ABSENT = "absent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision. Code of revision ``oldest`` and later works on it.

    Its name is ``0002``, or ``0003_from_0002`` where older code works too, so that what is stored
    tells code of any age whether it may go on.
    """

    number: int
    oldest: int

    def __str__(self) -> str:
        name = f"{self.number:04d}"
        return name if self.oldest == self.number else f"{name}_from_{self.oldest:04d}"

    @classmethod
    def named(cls, name: str) -> "Revision | None":
        """The revision of this name, or None where it is none of ours."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        number = int(match[1])
        return cls(number, int(match[2] or number))

    @property
    def packed(self) -> int:
        """The same as one number: ``2``, or ``3002`` for ``0003_from_0002``."""
        return self.number if self.oldest == self.number else self.number * _PACKED + self.oldest

    @classmethod
    def unpacked(cls, packed: int) -> "Revision":
        number, oldest = divmod(packed, _PACKED)
        return cls(number, oldest) if number > 0 else cls(packed, packed)


def state_at(found: Revision, code: Revision) -> State:
    """What a storage at revision ``found`` is to code of revision ``code``.

    CURRENT is also a newer one that this code still works on.
    """
    if found.number < code.number:
        return State.BEHIND if found.number > 0 else State.AHEAD
    return State.CURRENT if found.oldest <= code.number else State.AHEAD


def destination(target: str, found: Revision, code: Revision) -> int:
    """The number of the revision that ``target`` names: "2", "0002" or its whole name.

    Empty, it is the code's, or the one found where that is newer. Raises InvalidRequestError.
    """
    if not target:
        return max(found.number, code.number)
    number = int(target[:4]) if re.fullmatch(r"[0-9]{1,4}|[0-9]{4}_from_[0-9]{4}", target) else 0
    if not 1 <= number <= code.number:
        raise InvalidRequestError(
            field="target", found=repr(target[:40]), allowed=f"a revision from 1 to {code.number}"
        )
    return number


class Change(Protocol[W_co]):
    """A module that leads to a revision, and back. The first line of its docstring says what is new
    there."""

    __doc__: str | None

    @property
    def upgrade(self) -> W_co: ...
    @property
    def downgrade(self) -> W_co: ...


@dataclass(frozen=True, slots=True)
class Step(Generic[W]):
    """From one revision to the next, or back. ``work`` may be repeated after a cut."""

    sentence: str
    start: Revision
    end: Revision
    work: W


def steps(
    revisions: Mapping[int, Revision], changes: Mapping[int, Change[W]], start: int, end: int
) -> Sequence[Step[W]]:
    """The steps between two revisions. ``changes`` leads to each but the first."""
    up = [
        Step(_sentence(n, changes[n]), revisions[n - 1], revisions[n], changes[n].upgrade)
        for n in range(start + 1, end + 1)
    ]
    return up + [
        Step(
            f"back from {_sentence(n, changes[n])}",
            revisions[n],
            revisions[n - 1],
            changes[n].downgrade,
        )
        for n in range(start, end, -1)
    ]


def _sentence(number: int, change: Change[object]) -> str:
    about = (change.__doc__ or "").partition("\n")[0].rstrip(".")
    return f"{number:04d}: {about}"
