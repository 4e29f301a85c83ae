"""Embedders that are asked, believed or replaced wrongly, and notes without a vector."""

from collections.abc import Callable, Sequence
from typing import Any

from conformance_tests.broken.defect import BrokenAdmin, BrokenMemory, changed, defect
from conformance_tests.broken.reading import ALL, Opened, vectors_of
from stores_core.admin import ReembedRequest, ReembedResponse
from stores_core.embedding import Embedder, Purpose
from stores_core.errors import EmbeddingMismatchError
from stores_core.memory import ListMemoriesRequest, ListMemoriesResponse

_REEMBED = "test_embedders.py::test_reembedding_hands_all_notes_over_to_the_new_embedder"
_TEXTS = "test_embedding.py::test_each_batch_is_embedded_by_one_call_as_key_space_value"
_UNFIT = "test_embedders.py::test_an_unfit_vector_is_refused_by_its_index"
_FAILING = "test_embedders.py::test_when_the_embedder_fails_nothing_is_written"

Vectors = Sequence[Any]


class _Asking:
    """An embedder that stands between the store and the one that it was opened with."""

    def __init__(self, given: Embedder, name: str, ask: Callable[..., Any]) -> None:
        self.name, self.dimensions = name, given.dimensions
        self._given, self._ask = given, ask

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return await self._ask(self._given, texts, purpose)


class _Asked(BrokenMemory):
    """Asks the embedder in a way of its own."""

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        given = values.get("embedder")
        return values | {"embedder": _Asking(given, cls.named(given), cls.ask)} if given else values

    @classmethod
    def named(cls, given: Embedder) -> str:
        return given.name

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return await given.embed(texts, purpose)


@defect("EMB-1", caught_by=_TEXTS)
class EachNoteIsEmbeddedByItself(_Asked):
    """A batch asks the embedder once for each note."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return [(await given.embed([text], purpose))[0] for text in texts]


@defect("EMB-1", caught_by=_TEXTS)
class OnlyTheValueIsEmbedded(_Asked):
    """A note is embedded without its key."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if purpose == "note":
            texts = [text.partition(" ")[2] for text in texts]
        return await given.embed(texts, purpose)


@defect("EMB-1", caught_by=_TEXTS)
class QueriesAreEmbeddedAsNotes(_Asked):
    """The embedder is not told that a text is a query."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return await given.embed(texts, "note")


@defect("EMB-1", caught_by=_FAILING)
class FailedEmbedderGivesZeroVectors(_Asked):
    """When the embedder fails a note is written with a zero vector, and nobody is told."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        try:
            return await given.embed(texts, purpose)
        except ConnectionError:
            return [[0.0] * given.dimensions for _ in texts]


@defect("EMB-6", caught_by=_UNFIT)
class VectorsOfAnyWidthFit(_Asked):
    """A vector that is too short is filled up, and one that is too long is cut."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        width, rows = given.dimensions, await given.embed(texts, purpose)
        return [[*row, *[0.0] * width][:width] if _is_list(row) else row for row in rows]


@defect("EMB-6", caught_by=_UNFIT)
class NotANumberIs0(_Asked):
    """A value that is not finite is stored as 0."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        rows = await given.embed(texts, purpose)
        return [
            [number if abs(number) < 1e38 else 0.0 for number in row] if _is_list(row) else row
            for row in rows
        ]


def _is_list(row: Any) -> bool:
    return isinstance(row, list) and all(isinstance(number, float) for number in row)  # pyright: ignore[reportUnknownVariableType] - whatever an embedder gave


@defect("EMB-6", caught_by="test_embedders.py::test_a_wrong_number_of_vectors_is_refused")
class MissingVectorsAreZero(_Asked):
    """Vectors that the embedder did not give are taken for zero, and more are passed over."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        rows = await given.embed(texts, purpose)
        return [*rows, *[[0.0] * given.dimensions] * len(texts)][: len(texts)]


@defect(
    "EMB-5",
    "MEM-1",
    caught_by="test_embedding.py::test_a_note_is_recalled_by_the_value_that_it_has_now",
)
class OldVectorStays(_Asked):
    """The vector of a key is made once and kept when the value changes."""

    @classmethod
    async def ask(cls, given: Embedder, texts: Sequence[str], purpose: Purpose) -> Vectors:
        rows = await given.embed(texts, purpose)
        if purpose == "query":
            return rows
        made: dict[str, Any] = vars(given).setdefault("made", {})
        keys = [text.partition(" ")[0] for text in texts]
        return [made.setdefault(key, row) for key, row in zip(keys, rows, strict=True)]


@defect(
    "EMB-5",
    caught_by="test_embedders.py::"
    "test_another_embedder_is_refused_on_recall_and_puts_while_all_else_works",
)
class AnyEmbedderOfThatWidthWillDo(_Asked):
    """The storage records how wide vectors are and not whose they are."""

    @classmethod
    def named(cls, given: Embedder) -> str:
        return "spelled"


@defect(
    "EMB-5",
    caught_by="test_embedders.py::test_notes_without_a_vector_are_embedded_by_the_next_query",
)
class NotesWithoutVectorsAreLeftOut(Opened, BrokenMemory):
    """A query does not find notes that were put without an embedder."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not self.embeds:
            return await self.good.list_memories(request)
        vectors = await vectors_of(self.stores.moving, request.namespace)
        answer = await self.good.list_memories(request)
        return changed(answer, items=tuple(one for one in answer.items if one.item.key in vectors))


@defect(
    "EMB-5",
    caught_by="test_embedders.py::"
    "test_a_query_embeds_up_to_1000_notes_and_beyond_names_the_command",
)
class QueryEmbedsHoweverMany(BrokenMemory):
    """A query embeds all notes that lack a vector, and takes as long as that takes."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        try:
            return await self.good.list_memories(request)
        except EmbeddingMismatchError:
            while not (await self.stores.admin.reembed(ReembedRequest())).done:
                pass
            return await self.good.list_memories(request)


@defect("EMB-5", caught_by=_REEMBED)
class ReembeddingIsDoneAtOnce(BrokenAdmin):
    """Re-embedding says that it is done while notes have no new vector."""

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        return changed(await self.good.reembed(request), done=True)


@defect("EMB-5", caught_by=_REEMBED)
class ReembeddingHasNoLimit(BrokenAdmin):
    """One call of re-embedding embeds all notes, whatever its limit."""

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        return await self.good.reembed(changed(request, limit=ALL))
