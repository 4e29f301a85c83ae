"""Loads and pages that skip, repeat, miscount or mix."""

import asyncio

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.errors import InvalidRequestError
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    GetRunRequest,
    GetRunResponse,
    LoadRunRequest,
    LoadRunResponse,
    ReadEventsRequest,
    ReadEventsResponse,
    ReadMessagesRequest,
    ReadMessagesResponse,
    UpdateRunRequest,
    UpdateRunResponse,
)

START = "test_reading.py::test_start_is_the_number_of_entries_already_seen"
NEWEST = "test_reading.py::test_the_newest_entries_come_in_order"
PAGES = "test_reading.py::test_pages_of_any_size_give_every_entry_once"


# Pages


@defect("RUN-L3", caught_by=START)
class StartIsTheLastOneSeen(BrokenRuns):
    """start names the last entry that was seen, which is given again."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        answer = await self.good.read_messages(changed(request, start=max(0, request.start - 1)))
        return changed(answer, next=request.start + len(answer.entries)) if answer.found else answer


@defect("RUN-L3", caught_by=PAGES)
class LimitIsOneTooFew(BrokenRuns):
    """A page of more than one event gives one less than asked for, and next passes over it."""

    async def read_events(self, request: ReadEventsRequest) -> ReadEventsResponse:
        answer = await self.good.read_events(request)
        if len(answer.entries) == request.limit > 1:
            answer = changed(answer, entries=answer.entries[:-1])
        return answer


@defect("RUN-L3", caught_by=PAGES)
class NextIsTheEnd(BrokenRuns):
    """next is the length of the log also when the page ended before."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        answer = await self.good.read_messages(request)
        return changed(answer, next=answer.count)


@defect("RUN-L3", caught_by=START)
class CountIsWhereThePageEnds(BrokenRuns):
    """count tells where the page ends, so that every page seems to be the last."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        answer = await self.good.read_messages(request)
        return changed(answer, count=answer.next)


@defect("RUN-L3", caught_by="test_reading.py::test_a_start_beyond_the_end_is_refused")
class StartBeyondTheEndIsAnEmptyPage(BrokenRuns):
    """A start beyond the end gives an empty page, as if there were nothing more yet."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.start > info.message_count:
            count = info.message_count
            return ReadMessagesResponse(found=True, next=request.start, count=count)
        return await self.good.read_messages(request)


@defect("RUN-L3", caught_by="test_reading.py::test_a_start_beyond_the_end_is_refused")
class EndOfAPageOverflows(BrokenRuns):
    """The end of a page that begins at the largest number is beyond what the database takes."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        if request.start + request.limit >= 2**63:
            raise InvalidRequestError(field="request", found="a number", allowed="a smaller one")
        return await self.good.read_messages(request)


@defect("RUN-L3", caught_by="test_reading.py::test_at_the_end_there_is_nothing_more_yet")
class StartAtTheEndIsUnknown(BrokenRuns):
    """A tail that has seen all is told that there is no run."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        answer = await self.good.read_messages(request)
        if answer.found and request.start == answer.count > 0:
            return ReadMessagesResponse(found=False)
        return answer


@defect(
    "RUN-L3",
    "ALL-11",
    caught_by="test_limits.py::test_a_page_of_entries_has_100_by_default_and_1000_at_most",
)
class PageHasNoLimit(BrokenRuns):
    """read_messages gives all there is from start on."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        return await self.good.read_messages(changed(request, limit=1_000_000))


@defect("RUN-L3", "RUN-F11", caught_by="test_forest.py::test_every_generation_reads_as_a_plain_run")
class PageOfAForkStartsWithItsOwn(BrokenRuns):
    """read_messages of a fork begins with the entries appended since the fork."""

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and info.fork_point and request.start == 0:
            return await self.good.read_messages(changed(request, start=info.fork_point))
        return await self.good.read_messages(request)


# Loads


@defect("RUN-L2", caught_by=NEWEST)
class NewestAreTheOldest(BrokenRuns):
    """last_messages=n gives the first n messages."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run is None or not request.last_messages:
            return answer
        whole = await self.good.load_run(LoadRunRequest(run_id=request.run_id))
        messages = whole.run.messages[: request.last_messages] if whole.run else ()
        return changed(answer, run=changed(answer.run, messages=messages))


@defect("RUN-L2", caught_by=NEWEST)
class NewestComeFirst(BrokenRuns):
    """last_messages=n gives the newest n, newest first."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run is None or request.last_messages is None:
            return answer
        return changed(answer, run=changed(answer.run, messages=answer.run.messages[::-1]))


@defect("RUN-L2", caught_by=NEWEST)
class LoadCountsWhatItGives(BrokenRuns):
    """A load of the newest counts those that it gives, not those that there are."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run is None:
            return answer
        count = len(answer.run.messages)
        return changed(answer, run=changed(answer.run, message_count=count))


@defect("RUN-L2", caught_by=NEWEST)
class LastZeroIsAll(BrokenRuns):
    """last_messages=0 is taken for not given."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        return await self.good.load_run(
            changed(request, last_messages=request.last_messages or None)
        )


@defect("RUN-L2", caught_by=NEWEST)
class NewestMessagesComeWithAllEvents(BrokenRuns):
    """A load of the newest messages brings all events though nobody asked for them."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        if request.last_messages is not None and request.last_events is None:
            request = changed(request, last_events=1_000_000)
        return await self.good.load_run(request)


@defect("RUN-L1", caught_by="test_concurrency.py::test_a_load_among_writers_shows_whole_batches")
class LoadReadsTheLogsOneAfterTheOther(BrokenRuns):
    """A load takes the messages at one instant and the events at a later one."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        first = await self.good.load_run(request)
        if first.run is None or request.last_messages is not None:
            return first
        await asyncio.sleep(0)
        later = await self.good.load_run(request)
        if later.run is None or later.run.created_at != first.run.created_at:
            return first
        fields = {"events": later.run.events, "event_count": later.run.event_count}
        return changed(first, run=changed(first.run, **fields))


@defect(
    "RUN-L1",
    "RUN-D3",
    caught_by="test_concurrency.py::test_a_load_never_mixes_two_runs_that_bore_one_id",
)
class LoadGluesTwoGenerations(BrokenRuns):
    """A load takes the labels from a cache that is not cleared when the id is used again."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        self.kept.pop(request.run_id, None)
        return await self.good.update_run(request)

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run is None:
            return answer
        labels = self.kept.setdefault(request.run_id, answer.run.labels)
        return changed(answer, run=changed(answer.run, labels=labels))


@defect("ALL-6", caught_by="test_append.py::test_every_read_follows_every_append")
class HeaderLagsBehind(BrokenRuns):
    """get_run answers from a cache that appends of events do not clear."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        self.kept.pop(request.run_id, None)
        return await self.good.append_messages(request)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        answer = await self.good.get_run(request)
        cached = self.kept.get(request.run_id)
        if cached and answer.info and cached.info.created_at == answer.info.created_at:
            count = cached.info.event_count
            return changed(answer, info=changed(answer.info, event_count=count))
        self.kept[request.run_id] = answer if answer.found else None
        return answer


@defect("ALL-5", caught_by="test_ownership.py::test_what_a_run_store_returned_may_be_changed")
class LoadedRunsAreShared(BrokenRuns):
    """A load of a run that has not changed gives the very objects that it gave before."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run is None:
            return answer
        run = answer.run
        state = (run.created_at, run.updated_at, run.message_count, run.event_count)
        place = (request.run_id, request.last_messages, request.last_events, state)
        return self.kept.setdefault(place, answer)
