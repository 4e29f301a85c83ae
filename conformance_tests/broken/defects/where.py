"""Filters on metadata that find too much or too little."""

import json
from collections.abc import Mapping
from typing import Any, cast

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import everything, page_of
from stores_core.memory import (
    ListMemoriesRequest,
    ListMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.values import filter_digest, filter_digests

_EQUAL = "test_where.py::test_where_keeps_the_notes_whose_metadata_equals_the_value"
_UNEQUAL = "test_where.py::test_where_leaves_out_notes_whose_metadata_merely_resembles_the_value"
_KEYS = "test_where.py::test_keys_of_where_are_data"
_COUNTED = "test_where.py::test_limits_and_pages_count_only_the_notes_that_match"

Metadata = Mapping[str, Any]


def _equal(held: Any, asked: Any) -> bool:
    """As the contract has it."""
    return filter_digest("", asked) in filter_digests({"": held})


class _Compared(BrokenMemory):
    """Compares by a rule of its own; what no filter asks for is left alone."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        raise NotImplementedError

    def fits_all(self, metadata: Metadata, where: Metadata) -> bool:
        return all(self.fits(metadata, key, asked) for key, asked in where.items())

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.where:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request, where={}))
        left = [one for one in answer.items if self.fits_all(one.item.metadata, request.where)]
        return page_of(left, request)


@defect("MEM-10", caught_by=_UNEQUAL)
class WhereTakesTrueFor1(_Compared):
    """A filter compares as Python does, so that True equals 1."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        return key in metadata and metadata[key] == asked


@defect("MEM-10", caught_by=_EQUAL)
class WhereComparesJsonTexts(_Compared):
    """A filter compares JSON texts, so that 2 is not 2.0."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        return key in metadata and json.dumps(metadata[key]) == json.dumps(asked)


@defect("MEM-10", caught_by=_UNEQUAL)
class WhereComparesTexts(_Compared):
    """A filter compares what values look like, so that "2" equals 2."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        held = metadata.get(key, ...)
        return _equal(held, asked) or str(held) == str(asked)


@defect("MEM-10", caught_by=_UNEQUAL)
class WhereComparesDoubles(_Compared):
    """A filter compares large integers as floats."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        held = metadata.get(key, ...)
        numbers = type(held) in (int, float) and type(asked) in (int, float)
        if numbers and max(abs(held), abs(asked)) < 2**64:
            return float(held) == float(asked)
        return _equal(held, asked)


@defect("MEM-10", caught_by=_UNEQUAL)
class WhereLooksIntoLists(_Compared):
    """A filter matches a list that holds the value, as a containment operator does."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        held = metadata.get(key, ...)
        parts = cast("list[Any]", held) if isinstance(held, list) else [held]
        return any(_equal(part, asked) for part in parts)


@defect("MEM-10", caught_by=_UNEQUAL)
class WhereIgnoresCase(_Compared):
    """A filter compares texts in any case."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        held = metadata.get(key, ...)
        if isinstance(held, str) and isinstance(asked, str):
            return held.casefold() == asked.casefold()
        return _equal(held, asked)


@defect(
    "MEM-10",
    caught_by="test_where.py::test_null_matches_a_null_that_is_there_and_not_a_missing_key",
)
class WhereTakesMissingForNull(_Compared):
    """A filter for null matches notes that lack the key."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        return _equal(metadata.get(key), asked)


@defect("MEM-10", caught_by=_KEYS)
class WherePassesUnknownKeys(_Compared):
    """A filter on a key that a note lacks lets it pass."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        return key not in metadata or _equal(metadata[key], asked)


@defect("MEM-10", caught_by="test_where.py::test_every_given_value_has_to_match")
class WhereTakesAnyMatch(_Compared):
    """A filter of several values is content with one."""

    def fits_all(self, metadata: Metadata, where: Metadata) -> bool:
        return any(_equal(metadata.get(key, ...), asked) for key, asked in where.items())


@defect("MEM-10", caught_by=_KEYS)
class WhereKeysArePaths(_Compared):
    """A key with dots is a path into the metadata."""

    def fits(self, metadata: Metadata, key: str, asked: Any) -> bool:
        held: Any = metadata
        for step in key.split("."):
            held = cast("dict[str, Any]", held).get(step, ...) if isinstance(held, dict) else ...
        return _equal(held, asked) or _equal(metadata.get(key, ...), asked)


@defect("MEM-10", caught_by=_EQUAL)
class RecallForgetsWhere(BrokenMemory):
    """A query is answered without looking at the filter."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query:
            request = changed(request, where={})
        return await self.good.list_memories(request)


@defect("MEM-10", "MEM-4", caught_by=_COUNTED)
class WhereComesAfterTheLimit(BrokenMemory):
    """The limit is taken before the filter."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.where or not request.limit:
            return await self.good.list_memories(request)
        fitting = await self.good.list_memories(everything(request, query=""))
        keys = {one.item.key for one in fitting.items}
        answer = await self.good.list_memories(changed(request, where={}))
        return changed(answer, items=tuple(o for o in answer.items if o.item.key in keys))


@defect(
    "MEM-10",
    "MEM-1",
    caught_by="test_where.py::test_where_follows_the_metadata_that_a_note_has_now",
)
class WhereFindsOldMetadata(BrokenMemory):
    """What a filter searches keeps the metadata that a note had before."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        of_note = self.kept.setdefault((request.namespace, request.item.key), set())
        of_note.update(filter_digests(request.item.metadata))
        return await self.good.put_memory(request)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(everything(request, where={}))
        wanted = {filter_digest(key, value) for key, value in request.where.items()}
        if not wanted or request.limit:
            return await self.good.list_memories(request)
        notes = [(self.kept.get((request.namespace, o.item.key)), o) for o in answer.items]
        fits = [one for had, one in notes if wanted <= (had or filter_digests(one.item.metadata))]
        return changed(answer, items=tuple(fits))
