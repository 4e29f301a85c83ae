"""Listings of notes in a wrong order, with wrong scores, or with pages that do not fit together."""

from collections.abc import Sequence

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import everything, page_of
from stores_core.memory import ListMemoriesRequest, ListMemoriesResponse, ScoredMemory
from stores_core.values import micros

_ARRIVAL = "test_note_listing.py::test_notes_of_one_moment_are_listed_in_order_of_arrival"
_CREATED = (
    "test_note_listing.py::test_a_listing_is_oldest_first_by_created_at_whenever_notes_arrived"
)
_PAGES = "test_note_listing.py::test_pages_give_every_note_once_and_in_order"
_WALKING = "test_note_listing.py::test_pages_miss_and_repeat_nothing_while_notes_come_and_go"


class _Ordered(BrokenMemory):
    """Lists all notes in an order of its own; recall is left alone."""

    def order(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        raise NotImplementedError

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        return page_of(self.order(answer.items), request)


@defect(
    "MEM-1",
    "MEM-3",
    caught_by="test_memory.py::test_a_second_put_keeps_place_and_created_at_whatever_the_item_says",
)
class ListedByLastPut(_Ordered):
    """Notes are listed by when they were last put."""

    def order(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return sorted(items, key=lambda scored: scored.item.updated_at)


@defect("MEM-3", caught_by=_CREATED)
class NewestNotesFirst(_Ordered):
    """Notes are listed newest first."""

    def order(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return items[::-1]


@defect("MEM-3", caught_by=_ARRIVAL)
class NotesOfOneMomentByKey(_Ordered):
    """Notes of one moment are listed by key."""

    def order(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return sorted(items, key=lambda scored: (scored.item.created_at, scored.item.key))


@defect("MEM-3", caught_by=_CREATED)
class NotesListedByTheMillisecond(_Ordered):
    """Notes are listed by milliseconds, those of one millisecond by key."""

    def order(self, items: Sequence[ScoredMemory]) -> Sequence[ScoredMemory]:
        return sorted(items, key=lambda one: (micros(one.item.created_at) // 1000, one.item.key))


@defect("MEM-3", caught_by="test_note_listing.py::test_a_listing_scores_everything_0")
class ListingScores1(BrokenMemory):
    """A listing without a query scores its notes as matches."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if request.query:
            return answer
        return changed(answer, items=tuple(changed(item, score=1.0) for item in answer.items))


@defect("MEM-3", caught_by=_WALKING)
class NoteCursorIsAnOffset(BrokenMemory):
    """The cursor of a listing counts the notes already given."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query or not request.limit:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        return page_of(answer.items, request)


@defect("MEM-3", caught_by=_PAGES)
class NoteCursorIsATime(BrokenMemory):
    """The cursor of a listing is a time, so that others of its moment are passed over."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query or not request.limit:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        behind = int(request.cursor or -(2**62))
        left = [one for one in answer.items if micros(one.item.created_at) > behind]
        page = left[: request.limit]
        following = str(micros(page[-1].item.created_at)) if len(left) > len(page) else ""
        return ListMemoriesResponse(items=page, next_cursor=following)


@defect("MEM-3", "MEM-4", caught_by=_PAGES)
class LastNoteIsLost(BrokenMemory):
    """A listing ends one page early when a single note is left."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if answer.next_cursor:
            rest = await self.good.list_memories(changed(request, cursor=answer.next_cursor))
            if len(rest.items) == 1:
                return changed(answer, next_cursor="")
        return answer


@defect("MEM-4", caught_by="test_note_listing.py::test_a_limit_caps_the_listing_and_0_does_not")
class Limit0IsAPage(BrokenMemory):
    """A limit of 0 gives the first thousand notes, and no cursor."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        return changed(answer, items=answer.items[:1_000])


@defect("MEM-4", caught_by="test_recall.py::test_a_limit_keeps_the_oldest_matches")
class LimitCapsNoMatches(BrokenMemory):
    """A limit caps a listing and not what a query finds."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        limit = 0 if request.query else request.limit
        return await self.good.list_memories(changed(request, limit=limit))


@defect(
    "ALL-11",
    "MEM-3",
    caught_by="test_limits.py::test_a_page_of_notes_ends_at_16_mib_and_the_rest_follows",
)
class PageOfNotesHasAnySize(BrokenMemory):
    """A page of notes is as large as its notes make it."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        while answer.next_cursor and len(answer.items) < request.limit:
            left = request.limit - len(answer.items)
            rest = changed(request, cursor=answer.next_cursor, limit=left)
            more = await self.good.list_memories(rest)
            answer = changed(more, items=(*answer.items, *more.items))
        return answer


@defect(
    "MEM-7",
    "SUB-2",
    caught_by="test_recall.py::test_every_match_scores_1_and_the_oldest_comes_first",
)
class NewestMatchesFirst(BrokenMemory):
    """What a query finds comes newest first."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if not request.query:
            return await self.good.list_memories(request)
        answer = await self.good.list_memories(everything(request))
        return page_of(answer.items[::-1], request)
