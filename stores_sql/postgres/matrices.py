"""Vectors of namespaces that a client keeps in memory, to rank by cosine without asking for them.

A matrix follows the namespace's row, which counts the changes of its notes, whoever made them:
new notes are added, whatever else changed makes it void.
"""

from collections import OrderedDict
from collections.abc import Iterable

from stores_core.embedding import Vector
from stores_core.ranking import VectorTable
from stores_sql.postgres.embedding import check_width

MATRIX_BYTES = 256 * 1024 * 1024
"""So much of vectors one client keeps; the namespaces that were asked least lately go first."""

MATRICES = 1_000
"""Of so many namespaces at most, however small they are."""

NEVER = -1


class Matrix:
    """The vectors of one namespace and embedder, by note.

    ``seen`` is how often the namespace had been changed when it was brought up to date, ``last``
    the highest number of a note in it.
    """

    def __init__(self, dimensions: int) -> None:
        self.table = VectorTable[int](dimensions)
        self.seen = NEVER
        self.last = NEVER
        self.asked = NEVER
        """The latest removal when it was asked for in vain."""
        self.complete = NEVER
        """The changes at which no note of the namespace lacked a vector."""
        self.complete_to = NEVER
        """The highest number of a note then."""
        self._dimensions = dimensions

    def is_ahead(self, changes: int) -> bool:
        """Whether it knows more than somebody who saw so many changes."""
        return self.seen > changes

    def stands(self, removed_at: int) -> bool:
        """Whether nothing that it holds was removed or changed."""
        return self.seen != NEVER and self.seen >= removed_at

    def is_wanted(self, removed_at: int) -> bool:
        """Whether it was asked for before and would still stand: so it is worth reading."""
        was_asked = self.asked == removed_at
        self.asked = removed_at
        return was_asked

    def void(self) -> None:
        """Hold nothing any more."""
        self.table, self.seen, self.last = VectorTable[int](self._dimensions), NEVER, NEVER

    def take(self, new: Iterable[tuple[int, Vector]], changes: int) -> None:
        """Take in what is new at that many changes."""
        for note, vector in new:
            check_width(vector, self._dimensions)
            self.table.put(note, vector)
            self.last = max(self.last, note)
        self.seen = changes

    def count_bytes(self) -> int:
        return 4 * self._dimensions * len(self.table)


class Matrices:
    """The matrices of one client, those that were used last."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, int], Matrix] = OrderedDict()

    def of(self, namespace: int, embedder: int, dimensions: int) -> Matrix:
        """The matrix of a namespace; others are given up where there is too much."""
        key = namespace, embedder
        matrix = self._held.setdefault(key, Matrix(dimensions))
        self._held.move_to_end(key)
        total = sum(held.count_bytes() for held in self._held.values())
        while len(self._held) > 1 and (total > MATRIX_BYTES or len(self._held) > MATRICES):
            _, given_up = self._held.popitem(last=False)
            total -= given_up.count_bytes()
        return matrix
