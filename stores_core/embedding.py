"""Embeddings: the protocol of an embedder, the checks on what it answers, cosine similarity."""

from collections.abc import Iterable, Sequence, Sized
from typing import Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from stores_core.errors import (
    EmbeddingMismatchError,
    InvalidRequestError,
    StoreError,
    StoreUnavailableError,
)
from stores_core.memory import MemoryItem, StoredMemory
from stores_core.moving import EmbedderInfo
from stores_core.sending import nothing_sent

Vector = npt.NDArray[np.float32]
Purpose = Literal["note", "query"]

EMBED_ON_QUERY = 1_000
"""Up to so many notes without a vector are embedded by a query of their namespace (EMB-5)."""


class Embedder(Protocol):
    """Turns texts into vectors. Opened with one, a memory store recalls by embedding.

    ``name`` must change whenever the vectors would, ``dimensions`` is the length of each.

    EMB-1 A note is embedded as key, space, value when it is put, and can be recalled as soon as
        put returns. The embedder is called once per batch, outside any lock or transaction; if it
        fails nothing is written, and its error is the cause of a StoreUnavailableError.
    EMB-2 A score is the cosine of note and query over float32 vectors, within [-1, 1] (tolerance
        1e-6); with a zero vector it is 0, and it is never NaN.
    EMB-3 With limit=k exactly min(k, notes that match namespace and where) come back, whatever the
        size of the table and of other namespaces: how many is exact, and which ones is too unless
        EMB-4 allows otherwise. An index only proposes: when it gives fewer, the
        store ranks exactly, and score and order come from the stored vectors.
    EMB-4 Where an index is approximate, recall@10 is at least 0.98 of the exact ranking, also in a
        namespace that holds 1 % of the table. Small namespaces are ranked exactly.
    EMB-5 The storage records which embedder, by name and dimensions, wrote its vectors. Another
        one is refused on embedding recall and on puts, while all else works. A vector belongs to
        one version of a note. Notes without a vector, put by a client without an embedder, are
        embedded by the next query of their namespace, up to 1,000; beyond, EmbeddingMismatchError
        names the command. Re-embedding fills new vectors beside the old ones and takes over in
        one step, only when none is missing.
    EMB-6 A wrong number of vectors, a wrong width or a value that is not finite is refused by an
        error that names the index.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """One vector for each text, in order. ``purpose`` is "note" or "query"."""
        ...


def cosine(a: Sequence[float] | Vector, b: Sequence[float] | Vector) -> float:
    """The cosine of the angle between two vectors, in [-1, 1].

    It is 0 where either is a zero vector and where their lengths differ. Computed in double
    precision from float32 values.
    """
    left, right = (np.asarray(vector, dtype=np.float32) for vector in (a, b))
    if left.shape != right.shape or not left.size:
        return 0.0
    return float(cosines(left.reshape(1, -1), right)[0])


def cosines(rows: npt.NDArray[np.float32], query: Vector) -> npt.NDArray[np.float64]:
    """The cosine of each row (n x d) with ``query`` (d), exact enough for a stable order.

    Equal rows give equal scores wherever they stand, which a matrix product does not promise.
    """
    matrix, vector = _unit(rows), _unit(query.reshape(1, -1))[0]
    return np.clip(np.einsum("ij,j->i", matrix, vector), -1.0, 1.0)


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    # Doubles hold every square of a float32. One memory order, or equal rows may differ in a bit.
    wide = rows.astype(np.float64, order="C")
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, np.newaxis]
    return wide / np.where(length == 0, 1.0, length)


def text_of(note: MemoryItem | StoredMemory) -> str:
    """What of a note is embedded."""
    return f"{note.key} {note.value}"


def check_embedder(standing: EmbedderInfo | None, ours: EmbedderInfo) -> None:
    """Raise EmbeddingMismatchError where the vectors in use are another embedder's (EMB-5)."""
    if standing in (None, ours):
        return
    raise EmbeddingMismatchError(
        f"the vectors here are of {standing.name!r} ({standing.dimensions} dimensions), this "
        f"client embeds with {ours.name!r} ({ours.dimensions}); open with that embedder, or "
        "run backend.admin.reembed until it is done"
    )


def check_lacking(lacking: Sized, ours: EmbedderInfo) -> None:
    """Raise EmbeddingMismatchError where more notes lack a vector than a query embeds (EMB-5)."""
    if len(lacking) > EMBED_ON_QUERY:
        raise EmbeddingMismatchError(
            f"over {EMBED_ON_QUERY} notes of this namespace have no vector of {ours.name!r} "
            f"({ours.dimensions} dimensions); run backend.admin.reembed until it is done"
        )


class NoteEmbedder:
    """An embedder whose every answer is checked: what a memory store embeds with."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.info = EmbedderInfo(name=embedder.name, dimensions=embedder.dimensions)

    async def notes(self, notes: Iterable[MemoryItem | StoredMemory]) -> list[Vector]:
        """One float32 vector for each note. See EMB-1 and EMB-6 for what it raises."""
        return await self._embed([text_of(note) for note in notes], "note")

    async def query(self, text: str) -> Vector:
        """The float32 vector of a query."""
        return (await self._embed([text], "query"))[0]

    async def _embed(self, texts: list[str], purpose: Purpose) -> list[Vector]:
        if not texts:
            return []
        try:
            with nothing_sent():
                answer = await self._embedder.embed(texts, purpose)
        except StoreError:
            raise
        except Exception as error:
            raise StoreUnavailableError(
                f"the embedder {self.info.name!r} failed on {len(texts)} texts; nothing was written"
            ) from error
        return self._checked(answer, len(texts))

    def _checked(self, answer: object, count: int) -> list[Vector]:
        try:
            rows = list(cast("Iterable[object]", answer))
        except TypeError:
            raise self._refused("embedder", "no list of vectors", "a list") from None
        if len(rows) != count:
            raise self._refused("embedder", f"{len(rows)} vectors", f"{count}, one for each text")
        return [self._vector(f"embedder[{index}]", row) for index, row in enumerate(rows)]

    def _vector(self, field: str, row: object) -> Vector:
        try:
            numbers = np.array(row)
            if numbers.dtype.kind not in "fiuO":  # no texts, no booleans
                raise TypeError
            with np.errstate(over="ignore"):
                vector = numbers.astype(np.float32)
        except (TypeError, ValueError, OverflowError):
            raise self._refused(field, "no list of float32 numbers", "numbers") from None
        if vector.shape != (self.info.dimensions,):
            found = f"a shape of {vector.shape}"
            raise self._refused(field, found, f"{self.info.dimensions} numbers")
        if not np.isfinite(vector).all():
            raise self._refused(field, "NaN or an infinity", "finite float32 numbers")
        return vector

    def _refused(self, field: str, found: str, allowed: str) -> InvalidRequestError:
        return InvalidRequestError(field=field, found=found, allowed=allowed)


def to_reembed_with(embedder: NoteEmbedder | None) -> NoteEmbedder:
    """The embedder that a backend was opened with. Raises InvalidRequestError for none."""
    if embedder is None:
        raise InvalidRequestError(
            field="embedder", found="a backend opened without one", allowed="the one to embed with"
        )
    return embedder
