"""Recall by embedding that ranks, scores or embeds wrongly."""

import asyncio
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import Opened, everything, namespaces, vectors_of
from stores_core.embedding import NoteEmbedder
from stores_core.memory import (
    ListMemoriesRequest,
    ListMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
    ScoredMemory,
)

_SCORE = "test_embedding.py::test_the_score_is_the_cosine_and_the_best_comes_first"
_ZERO = "test_embedding.py::test_a_zero_vector_scores_0_and_never_nan"
_TIES = "test_embedding.py::test_ties_come_in_listing_order_by_every_limit"


class _Answer(Opened, BrokenMemory):
    """Spoils what recall by embedding answers."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        raise NotImplementedError

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not self.embeds:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        items = self.spoilt(answer.items)
        return changed(answer, items=tuple(items[: request.limit or len(items)]))


@defect(
    "EMB-3",
    "MEM-10",
    caught_by=(
        "test_embedding.py::test_where_that_fits_all_notes_gives_the_best_whatever_their_age"
    ),
)
class WhereTakesRowsInAnotherOrder(Opened, BrokenMemory):
    """With where, the limit counts notes by age, and only those are ranked."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not (request.query and self.embeds and request.where and request.limit):
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        oldest = sorted(answer.items, key=lambda one: one.item.created_at)[: request.limit]
        return changed(answer, items=tuple(sorted(oldest, key=lambda one: -one.score)))


@defect("EMB-2", "MEM-7", caught_by=_SCORE)
class ScoreIsADistance(_Answer):
    """The score is the distance, 1 less the cosine."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return [changed(one, score=1 - one.score) for one in items]


@defect("MEM-7", caught_by=_SCORE)
class WorstComesFirst(_Answer):
    """The least relevant note comes first."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return sorted(items, key=lambda one: one.score)


@defect("EMB-2", caught_by=_SCORE)
class ScoreIsFrom0To1(_Answer):
    """The cosine is moved into the range from 0 to 1."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return [changed(one, score=(1 + one.score) / 2) for one in items]


@defect("EMB-2", caught_by=_SCORE)
class ScoreHasNoSign(_Answer):
    """A note that is the opposite of the query scores as the query itself."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        signless = [changed(one, score=abs(one.score)) for one in items]
        return sorted(signless, key=lambda one: -one.score)


@defect(
    "EMB-2",
    caught_by="test_embedding.py::test_scores_and_order_of_many_notes_are_those_of_the_definition",
)
class ScoreIsRounded(_Answer):
    """Scores are given to four places."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return [changed(one, score=round(one.score, 4)) for one in items]


@defect(
    "EMB-3",
    caught_by="test_embedding.py::test_scores_and_order_of_many_notes_are_those_of_the_definition",
)
class OnlyRelevantNotesCome(_Answer):
    """Notes that score 0 or less are left out, whatever the limit."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return [one for one in items if one.score > 0]


@defect("MEM-7", caught_by=_TIES)
class TiesComeByKey(_Answer):
    """Notes of one score come by key."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return sorted(items, key=lambda one: (-one.score, one.item.key))


@defect("MEM-7", caught_by=_TIES)
class TiesTakeTurns(_Answer):
    """Notes of one score change their order from call to call."""

    def spoilt(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        self.kept["calls"] = self.kept.get("calls", 0) + 1
        return sorted(items[:: (-1) ** self.kept["calls"]], key=lambda one: -one.score)


class _Ranking(Opened, BrokenMemory):
    """Ranks the stored vectors by a rule of its own."""

    def score(self, vector: Any, query: Any) -> float:
        raise NotImplementedError

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not self.embeds:
            return await self.good.list_memories(request)
        await self.good.list_memories(request)  # refuses, and embeds what has no vector
        query = (await NoteEmbedder(self.values["embedder"]).query(request.query)).astype(float)
        vectors = await vectors_of(self.stores.moving, request.namespace)
        notes = (await self.good.list_memories(everything(request, query=""))).items
        ranked = [
            changed(one, score=self.score(vectors[one.item.key], query))
            for one in notes
            if one.item.key in vectors
        ]
        ranked.sort(key=lambda one: -one.score)
        return ListMemoriesResponse(items=ranked[: request.limit or len(ranked)])


@defect("EMB-2", caught_by=_SCORE)
class ScoreIsTheBareProduct(_Ranking):
    """The score is the product of the vectors, whatever their lengths."""

    def score(self, vector: Any, query: Any) -> float:
        return float(vector @ query)


@defect("EMB-2", caught_by=_ZERO)
class ZeroVectorIsNotANumber(_Ranking):
    """The cosine divides by the length of a zero vector."""

    def score(self, vector: Any, query: Any) -> float:
        with np.errstate(all="ignore"):
            return float(vector @ query / (np.linalg.norm(vector) * np.linalg.norm(query)))


@defect(
    "EMB-2",
    caught_by="test_embedding.py::test_huge_and_tiny_vectors_have_true_cosines",
)
class CosineOverflows(_Ranking):
    """The cosine is computed in single precision, whose squares overflow and vanish."""

    def score(self, vector: Any, query: Any) -> float:
        a, b = vector.astype(np.float32), query.astype(np.float32)
        with np.errstate(all="ignore"):
            lengths = np.sqrt(np.sum(a * a)) * np.sqrt(np.sum(b * b))
            return float(np.nan_to_num(np.sum(a * b) / lengths))


@defect(
    "EMB-3",
    "MEM-10",
    caught_by="test_embedding.py::test_where_leaves_k_notes_however_many_are_nearer",
)
class BestAreTakenBeforeWhere(Opened, BrokenMemory):
    """The best k are taken first and filtered afterwards."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not self.embeds:
            return await self.good.list_memories(request)
        fitting = await self.good.list_memories(everything(request, query=""))
        keys = {one.item.key for one in fitting.items}
        answer = await self.good.list_memories(changed(request, where={}))
        return changed(answer, items=tuple(one for one in answer.items if one.item.key in keys))


@defect(
    "EMB-3",
    "MEM-5",
    caught_by="test_embedding.py::"
    "test_a_small_namespace_gives_k_notes_beside_a_large_and_nearer_one",
)
class BestAreTakenBeforeTheNamespace(Opened, BrokenMemory):
    """The best k of all namespaces are taken first, and those of others left out afterwards."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if not request.query or not self.embeds or not request.limit:
            return answer
        scores = [one.score for one in answer.items]
        for name in {*await namespaces(self.good)} - {request.namespace}:
            other = await self.good.list_memories(changed(request, namespace=name))
            scores += [one.score for one in other.items]
        least = min(sorted(scores, reverse=True)[: request.limit], default=0.0)
        return changed(answer, items=tuple(one for one in answer.items if one.score >= least))


@defect(
    "EMB-1",
    "ALL-7",
    caught_by="test_embedding.py::test_an_embedder_that_takes_its_time_holds_nobody_up",
)
class EmbedsUnderALock(BrokenMemory):
    """A put holds the lock that all puts take while its note is being embedded."""

    def prepare(self) -> None:
        self.lock = asyncio.Lock()

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        async with self.lock:
            return await self.good.put_memory(request)


@defect(
    "EMB-1",
    "ALL-6",
    caught_by="test_embedding.py::test_a_note_can_be_recalled_as_soon_as_put_returns",
)
class IndexIsRefreshedAfterwards(Opened, BrokenMemory):
    """A note can be recalled by the second query after its put."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if not request.query or not self.embeds:
            return answer
        known = self.kept.setdefault(request.namespace, set())
        items = tuple(one for one in answer.items if one.item.key in known)
        known.update(one.item.key for one in answer.items)
        return changed(answer, items=items)


@defect(
    "EMB-4",
    caught_by="test_embedding.py::"
    "test_the_ten_best_are_nearly_all_found_also_in_one_percent_of_the_notes",
)
class IndexPassesSomeOver(Opened, BrokenMemory):
    """In a large namespace an index passes every tenth note over, until it needs it to give k."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not self.embeds or not request.limit:
            return await self.good.list_memories(request)
        exact = (await self.good.list_memories(everything(request))).items
        passed = {n for n, o in enumerate(exact) if crc32(o.item.key.encode()) % 10 == 0}
        if len(exact) < 100:
            passed.clear()
        order = sorted(range(len(exact)), key=passed.__contains__)
        found = [exact[n] for n in order]
        return ListMemoriesResponse(items=found[: request.limit])
