"""Listings of runs that skip, repeat, mix up or never end."""

from datetime import timedelta
from typing import Any

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    CreateRunRequest,
    CreateRunResponse,
    ListRunsRequest,
    ListRunsResponse,
    RunInfo,
)

TIES = "test_listing.py::test_runs_of_one_moment_come_by_id"
LAST = "test_listing.py::test_pages_are_full_and_the_last_one_says_so"
GOES = "test_listing.py::test_what_comes_and_goes_meanwhile_hides_and_repeats_nothing"


# Order


@defect("RUN-Q1", caught_by=TIES)
class TiesComeTheOtherWay(BrokenRuns):
    """Runs of one moment come by id descending on a page."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        ordered = sorted(answer.runs, key=lambda run: (run.created_at, run.id), reverse=True)
        return changed(answer, runs=(*ordered,))


@defect("RUN-Q1", caught_by="test_listing.py::test_order_is_by_creation_and_by_nothing_else")
class PagesAreOrderedByUpdate(BrokenRuns):
    """The runs of a page come by updated_at."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        ordered = sorted(answer.runs, key=lambda run: run.updated_at, reverse=True)
        return changed(answer, runs=(*ordered,))


@defect("RUN-Q1", caught_by="test_listing.py::test_the_newest_run_comes_first")
class OldestComesFirst(BrokenRuns):
    """The runs of a page come oldest first."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        return changed(answer, runs=answer.runs[::-1])


@defect("RUN-Q1", caught_by="test_listing.py::test_every_listing_gives_full_headers_in_one_order")
class ListedHeadersHaveNoCounts(BrokenRuns):
    """A listing fills in everything but the counts."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        bare = [changed(run, message_count=0, event_count=0) for run in answer.runs]
        return changed(answer, runs=(*bare,))


# Cursors


@defect("RUN-Q2", caught_by=TIES)
class CursorSkipsTies(BrokenRuns):
    """A cursor is a time: runs of the moment at which a page ended are passed over by the next."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        if answer.next_cursor and answer.runs:
            self.kept[answer.next_cursor] = answer.runs[-1].created_at
        ended = self.kept.get(request.cursor)
        left = [run for run in answer.runs if run.created_at != ended]
        return changed(answer, runs=(*left,))


@defect("RUN-Q2", caught_by=GOES)
class CursorIsAnOffset(BrokenRuns):
    """A cursor is the number of runs already given."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        seen = int(request.cursor or 0)
        runs: list[RunInfo] = []
        position = ""
        while len(runs) < seen + request.limit:
            page = await self.good.list_runs(changed(request, cursor=position))
            runs += page.runs
            position = page.next_cursor
            if not position:
                break
        upto = seen + request.limit
        more = bool(position) or len(runs) > upto
        return ListRunsResponse(runs=runs[seen:upto], next_cursor=str(upto) if more else "")


@defect("RUN-Q2", caught_by=LAST)
class FullLastPageHasACursor(BrokenRuns):
    """A last page that is full has a cursor, which leads to an empty page."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        if request.cursor == "end":
            return ListRunsResponse()
        answer = await self.good.list_runs(request)
        full = len(answer.runs) == request.limit
        return changed(answer, next_cursor=answer.next_cursor or ("end" if full else ""))


@defect("RUN-Q2", caught_by=LAST)
class LastPageIsDropped(BrokenRuns):
    """A page that is not full ends the listing and is not given."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        short = not answer.next_cursor and len(answer.runs) < request.limit
        return changed(answer, runs=()) if request.cursor and short else answer


# Filters


@defect("RUN-Q5", caught_by="test_filters.py::test_labels_filter_by_equality_on_all_that_are_given")
class OneLabelIsEnough(BrokenRuns):
    """Of several labels that are asked for the first one counts."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        first = dict(list(request.labels.items())[:1])
        return await self.good.list_runs(changed(request, labels=first))


@defect("RUN-Q5", caught_by="test_filters.py::test_all_filters_hold_together")
class ParentHidesLabels(BrokenRuns):
    """With parent_id the labels are not looked at."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        labels: Any = {} if request.parent_id is not None else request.labels
        return await self.good.list_runs(changed(request, labels=labels))


@defect(
    "RUN-Q5", caught_by="test_filters.py::test_parent_id_lists_the_forks_made_of_that_run_alone"
)
class ParentListsItselfToo(BrokenRuns):
    """A listing by parent_id ends with the parent."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        if request.parent_id is None or answer.next_cursor or request.labels:
            return answer
        everything = await self.good.list_runs(ListRunsRequest(limit=1000))
        parent = [run for run in everything.runs if run.id == request.parent_id]
        return changed(answer, runs=(*answer.runs, *parent))


@defect(
    "RUN-Q5", caught_by="test_filters.py::test_updated_before_keeps_the_runs_that_were_idle_since"
)
class UpdatedBeforeIsInclusive(BrokenRuns):
    """updated_before keeps runs that were updated at that very moment."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = request.updated_before
        if before is not None:
            request = changed(request, updated_before=before + timedelta(microseconds=1))
        return await self.good.list_runs(request)


@defect(
    "RUN-Q5", caught_by="test_filters.py::test_updated_before_keeps_the_runs_that_were_idle_since"
)
class UpdatedBeforeMeansCreatedBefore(BrokenRuns):
    """updated_before is compared with created_at alone."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        before = request.updated_before
        if before is None:
            return await self.good.list_runs(request)
        answer = await self.good.list_runs(changed(request, updated_before=None))
        return changed(answer, runs=tuple(run for run in answer.runs if run.created_at < before))


@defect("RUN-U1", "RUN-Q5", caught_by="test_runs.py::test_a_listing_follows_a_change_of_labels")
class LabelIndexIsNeverUpdated(BrokenRuns):
    """A listing by labels goes by those that the run was created with."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        answer = await self.good.create_run(request)
        if answer.created:
            self.kept[request.run_id] = dict(request.labels)
        return answer

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        wanted = request.labels.items()
        left = [r for r in answer.runs if wanted <= self.kept.get(r.id, r.labels).items()]
        return changed(answer, runs=(*left,))
