"""Substring recall that finds too much, too little, or scores it wrongly."""

import fnmatch
import re
import unicodedata

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import Opened, everything
from stores_core.memory import (
    ListMemoriesRequest,
    ListMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
    ScoredMemory,
    StoredMemory,
)

_FOUND = "test_recall.py::test_a_note_that_contains_the_query_is_found"
_NOT_FOUND = "test_recall.py::test_a_note_that_only_resembles_the_query_is_not_found"
_LITERAL = "test_recall.py::test_every_character_of_a_query_is_literal"
_ACROSS = "test_recall.py::test_a_query_never_matches_across_key_and_value"
_SCORES = "test_recall.py::test_every_match_scores_1_and_the_oldest_comes_first"
_WHOLE = "test_recall.py::test_the_whole_value_is_searched"


class _Matching(Opened, BrokenMemory):
    """Matches by a rule of its own, where there is no embedder."""

    def contains(self, text: str, query: str) -> bool:
        return query.casefold() in text.casefold()

    def matches(self, note: StoredMemory, query: str) -> bool:
        return self.contains(note.key, query) or self.contains(note.value, query)

    def ranked(self, found: list[StoredMemory], query: str) -> list[ScoredMemory]:
        return [ScoredMemory(item=note, score=1.0) for note in found]

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or self.embeds:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request, query=""))
        found = [one.item for one in answer.items if self.matches(one.item, request.query)]
        items = self.ranked(found, request.query)
        return ListMemoriesResponse(items=items[: request.limit or len(items)])


@defect("SUB-1", caught_by=_FOUND)
class RecallMindsCase(_Matching):
    """Recall tells upper from lower case."""

    def contains(self, text: str, query: str) -> bool:
        return query in text


@defect("SUB-1", caught_by=_FOUND)
class RecallFoldsAsciiAlone(_Matching):
    """Recall ignores the case of the letters A to Z alone."""

    def contains(self, text: str, query: str) -> bool:
        return query.encode().lower() in text.encode().lower()


@defect("SUB-1", caught_by=_FOUND)
class RecallLowers(_Matching):
    """Recall makes text lower case, which is not folding it."""

    def contains(self, text: str, query: str) -> bool:
        return query.lower() in text.lower()


@defect("SUB-1", caught_by=_NOT_FOUND)
class RecallNormalises(_Matching):
    """Recall takes composed and decomposed letters, wide and narrow ones, for the same."""

    def contains(self, text: str, query: str) -> bool:
        normal = unicodedata.normalize("NFKC", text).casefold()
        return unicodedata.normalize("NFKC", query).casefold() in normal


@defect("SUB-1", caught_by=_NOT_FOUND)
class RecallFindsWords(_Matching):
    """Recall finds the words of a query in any order, as a full text index does."""

    def contains(self, text: str, query: str) -> bool:
        words = query.casefold().split() or [query]
        return all(word in text.casefold() for word in words)


@defect("SUB-1", caught_by=_FOUND)
class RecallTrimsTheQuery(_Matching):
    """Recall drops the spaces around a query."""

    def contains(self, text: str, query: str) -> bool:
        return super().contains(text, query.strip()) and bool(query.strip())


@defect("SUB-1", caught_by=_LITERAL)
class RecallTakesLikePatterns(_Matching):
    """Recall takes %, _ and the backslash for the signs of a LIKE pattern."""

    def contains(self, text: str, query: str) -> bool:
        at, parts = 0, [""]
        for sign in re.findall(r"\\.|.", query, re.DOTALL):
            wild = {"%": "", "_": "."}.get(sign)
            parts[-1] += re.escape(sign.removeprefix("\\") or sign) if wild is None else wild
            parts += [""] if sign == "%" else []
        for part in parts:  # the first place of each is the best, so nothing is tried again
            found = re.compile(part, re.IGNORECASE | re.DOTALL).search(text, at)
            if not found:
                return False
            at = found.end()
        return True


@defect("SUB-1", caught_by=_LITERAL)
class RecallTakesGlobs(_Matching):
    """Recall takes *, ? and brackets for the signs of a glob."""

    def contains(self, text: str, query: str) -> bool:
        return fnmatch.fnmatchcase(text.casefold(), f"*{query.casefold()}*")


@defect("SUB-1", caught_by=_LITERAL)
class RecallTakesRegexes(_Matching):
    """Recall takes a query for a regular expression where it is one."""

    def contains(self, text: str, query: str) -> bool:
        # Not where Python's engine would take for ever, as it has no linear one.
        if len(query) > 100 or "+)+" in query:
            return super().contains(text, query)
        try:
            return bool(re.search(query.casefold(), text.casefold()))
        except re.error:
            return super().contains(text, query)


@defect("SUB-1", caught_by=_WHOLE)
class RecallSearches64Kib(_Matching):
    """Recall searches the first 65,536 characters of a value."""

    def contains(self, text: str, query: str) -> bool:
        return super().contains(text[:65_536], query)


@defect("SUB-1", caught_by=_WHOLE)
class RecallEndsAtNul(_Matching):
    """Recall searches a text up to its first NUL."""

    def contains(self, text: str, query: str) -> bool:
        return super().contains(text.partition("\0")[0], query)


@defect("SUB-2", caught_by=_ACROSS)
class RecallJoinsKeyAndValue(_Matching):
    """Recall searches key, space, value as one text, as it is embedded."""

    def matches(self, note: StoredMemory, query: str) -> bool:
        return self.contains(f"{note.key} {note.value}", query)


@defect("SUB-1", caught_by="test_recall.py::test_a_key_that_contains_the_query_is_found")
class RecallPassesKeysOver(_Matching):
    """Recall searches values alone."""

    def matches(self, note: StoredMemory, query: str) -> bool:
        return self.contains(note.value, query)


@defect("SUB-1", caught_by="test_recall.py::test_neither_metadata_nor_namespace_is_searched")
class RecallSearchesMetadata(_Matching):
    """Recall searches the metadata, too."""

    def matches(self, note: StoredMemory, query: str) -> bool:
        return super().matches(note, query) or self.contains(str(note.metadata), query)


@defect("SUB-2", "MEM-7", caught_by=_SCORES)
class MatchesAreCounted(_Matching):
    """A note scores as often as it contains the query, and the highest score comes first."""

    def ranked(self, found: list[StoredMemory], query: str) -> list[ScoredMemory]:
        folded = query.casefold()
        counts = [1.0 * max(1, note.value.casefold().count(folded)) for note in found]
        scored = [ScoredMemory(item=n, score=s) for n, s in zip(found, counts, strict=True)]
        return sorted(scored, key=lambda one: -one.score)


@defect("SUB-2", caught_by=_SCORES)
class MatchesScore0(_Matching):
    """What a query finds scores as in a listing."""

    def ranked(self, found: list[StoredMemory], query: str) -> list[ScoredMemory]:
        return [ScoredMemory(item=note, score=0.0) for note in found]


@defect("SUB-2", "MEM-4", caught_by="test_recall.py::test_a_limit_keeps_the_oldest_matches")
class LimitComesBeforeTheMatch(_Matching):
    """The limit is taken before the notes are searched."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query or not request.limit or self.embeds:
            return await super().list_memories(request)
        first = await self.good.list_memories(changed(request, query=""))
        found = [one.item for one in first.items if self.matches(one.item, request.query)]
        return ListMemoriesResponse(items=self.ranked(found, request.query))


@defect("SUB-1", "MEM-1", caught_by="test_recall.py::test_recall_follows_a_put_at_once")
class RecallFindsOldValues(_Matching):
    """What recall searches keeps the values that a note had before."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        self.kept.setdefault(request.item.key, []).append(request.item.value)
        return await self.good.put_memory(request)

    def matches(self, note: StoredMemory, query: str) -> bool:
        had = self.kept.get(note.key, ())
        old = any(self.contains(value, query) for value in had if note.value in had)
        return old or super().matches(note, query)
