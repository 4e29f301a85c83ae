"""Exact ranking by cosine: vectors of one embedder and namespace, held as one matrix."""

from collections.abc import Collection, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from stores_core.embedding import Vector, cosines

K = TypeVar("K", bound=Hashable)

_MARGIN = 1e-4
"""How far a cosine from one float32 matrix product may be off; a wide bound, found by trial."""


class VectorTable(Generic[K]):
    """Vectors by key, as the rows of one matrix that grows by doubling."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.zeros((0, dimensions), dtype=np.float32)
        self._scale = np.zeros(0, dtype=np.float32)
        self._keys: list[K] = []
        self._row_of: dict[K, int] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._row_of

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, key: K, vector: Vector) -> None:
        row = self._row_of.get(key)
        if row is None:
            row = len(self._keys)
            if row == len(self._rows):
                self._grow()
            self._keys.append(key)
            self._row_of[key] = row
        self._rows[row] = vector
        length = float(np.linalg.norm(vector.astype(np.float64)))
        self._scale[row] = 1 / length if length else 0.0

    def _grow(self) -> None:
        size = max(16, 2 * len(self._rows))
        rows = np.zeros((size, self._rows.shape[1]), dtype=np.float32)
        rows[: len(self._rows)] = self._rows
        self._rows = rows
        self._scale = np.concatenate([self._scale, np.zeros(size - len(self._scale), np.float32)])

    def fill(self, keys: Sequence[K], rows: npt.NDArray[np.float32]) -> None:
        """Put vectors of further keys. ``rows`` are those here, in their order, and then those.

        They are taken over without a copy where they can be written to.
        """
        known = len(self._keys)
        if len(rows) != known + len(keys):
            raise ValueError("there are not as many rows as keys")
        self._row_of |= {key: row for row, key in enumerate(keys, known)}
        self._keys += keys
        self._rows = np.require(rows, np.float32, ["C", "W"])
        wide = self._rows[known:].astype(np.float64)
        length = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self._scale = np.concatenate([self._scale[:known], scale.astype(np.float32)])

    def get(self, key: K) -> Vector | None:
        row = self._row_of.get(key)
        return None if row is None else self._rows[row].copy()

    def discard(self, key: K) -> None:
        row = self._row_of.pop(key, None)
        if row is None:
            return
        last = self._keys.pop()
        if last != key:  # the last row moves into the gap
            end = len(self._keys)
            self._keys[row], self._row_of[last] = last, row
            self._rows[row], self._scale[row] = self._rows[end], self._scale[end]

    def ranked(
        self, query: Vector, limit: int, among: Collection[K] | None
    ) -> list[tuple[K, float]]:
        """Keys with their exact scores: all that may be among the best ``limit`` (0: all).

        One matrix product proposes; what it puts within its error of the best is scored again.
        """
        rows = np.arange(len(self._keys))
        if among is not None:
            # In the order of the table, which is what all of its rows are taken for.
            rows = np.array(sorted(self._row_of[key] for key in among), dtype=np.int64)
        if limit and limit < len(rows):
            rows = rows[self._near_best(rows, query, limit)]
        scores = cosines(self._rows[rows], query) if len(rows) else np.zeros(0)
        return [(self._keys[row], float(score)) for row, score in zip(rows, scores, strict=True)]

    def _near_best(
        self, rows: npt.NDArray[np.int64], query: Vector, limit: int
    ) -> npt.NDArray[np.bool_]:
        length = np.float32(np.linalg.norm(query.astype(np.float64)))
        unit = query / length if length else query
        with np.errstate(over="ignore", invalid="ignore"):
            # Scaled before the product, so that rows of any length keep the error of unit vectors.
            whole = len(rows) == len(self._keys)
            taken = self._rows[: len(self._keys)] if whole else self._rows[rows]
            scale = self._scale[: len(self._keys)] if whole else self._scale[rows]
            near = (taken @ unit) * scale
        if not np.isfinite(near).all():  # lengths beyond float32's squares
            return np.ones(len(rows), dtype=np.bool_)
        worst = np.partition(near, len(near) - limit)[len(near) - limit]
        return near >= worst - _MARGIN
