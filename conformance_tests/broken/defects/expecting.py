"""Expected lengths that are ignored, misread or compared too early."""

import asyncio

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    GetRunRequest,
)

CONFLICT = "test_expecting.py::test_another_length_than_expected_is_a_conflict"
BOTH = "test_expecting.py::test_a_batch_is_written_where_every_length_given_is_the_one_found"
DELETE = "test_expecting.py::test_a_delete_leaves_a_run_of_other_lengths_alone"


@defect("RUN-A6", caught_by=CONFLICT)
class ExpectedCountIsIgnored(BrokenRuns):
    """append_messages writes whatever length is expected."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.good.append_messages(changed(request, expected_count=None))


@defect("RUN-A6", caught_by="test_expecting.py::test_an_expected_count_of_zero_means_an_empty_log")
class ExpectedZeroIsNothing(BrokenRuns):
    """An expected length of 0 is taken for none."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.good.append_messages(
            changed(request, expected_count=request.expected_count or None)
        )


@defect("RUN-A6", caught_by=CONFLICT)
class ExpectedCountIsALowerBound(BrokenRuns):
    """A log that is longer than expected is a conflict, a shorter one is not."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and (request.expected_count or 0) > info.message_count:
            request = changed(request, expected_count=None)
        return await self.good.append_messages(request)


@defect(
    "RUN-A6",
    caught_by="test_expecting.py::test_expected_count_speaks_of_the_log_that_the_operation_is_for",
)
class EventsExpectTheOtherLog(BrokenRuns):
    """append_events compares expected_count with the message log."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        swapped = {
            "expected_count": request.expected_messages,
            "expected_messages": request.expected_count,
        }
        return await self.good.append_events(changed(request, **swapped))


@defect("RUN-A6", caught_by=CONFLICT)
class ConflictTellsTheExpectedLength(BrokenRuns):
    """A conflict answers with the length that was expected, not with the one found."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if answer.conflict and request.expected_count is not None:
            answer = changed(answer, message_count=request.expected_count)
        return answer


@defect(
    "RUN-A6", caught_by="test_racing.py::test_of_racing_appends_that_expect_one_length_one_wins"
)
class LengthIsComparedFirst(BrokenRuns):
    """The length is compared in one step and the batch written in a later one."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and not request.idempotency_key and request.expected_count == info.message_count:
            await asyncio.sleep(0)
            request = changed(request, expected_count=None)
        return await self.good.append_messages(request)


@defect(
    "RUN-A6",
    "RUN-F6",
    caught_by="test_expecting.py::test_a_fork_expects_the_length_that_it_has_now",
)
class ForkExpectsItsOwnEntriesOnly(BrokenRuns):
    """On a fork expected_count is compared with the messages appended since the fork."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.expected_count is not None:
            expected = request.expected_count + info.fork_point
            request = changed(request, expected_count=expected)
        return await self.good.append_messages(request)


@defect("RUN-A11", caught_by=BOTH)
class OtherLengthIsIgnored(BrokenRuns):
    """append_messages never looks at expected_events."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.good.append_messages(changed(request, expected_events=None))


@defect("RUN-A11", caught_by=BOTH)
class OtherLengthCountsAlone(BrokenRuns):
    """Where both lengths are expected, one that fits is enough."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.expected_events == info.event_count:
            request = changed(request, expected_count=None)
        return await self.good.append_messages(request)


@defect(
    "RUN-A11", caught_by="test_expecting.py::test_of_writers_that_saw_one_state_one_gets_through"
)
class OtherLengthIsComparedFirst(BrokenRuns):
    """The length of the other log is compared in a step before the one that writes."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.expected_events == info.event_count:
            await asyncio.sleep(0)
            request = changed(request, expected_events=None)
        return await self.good.append_messages(request)


@defect(
    "RUN-A11",
    caught_by="test_expecting.py::test_of_writers_that_saw_one_state_one_gets_through",
)
class EventsCompareTheOtherLengthFirst(BrokenRuns):
    """append_events compares expected_messages in a step before the one that writes."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.expected_messages == info.message_count:
            await asyncio.sleep(0)
            request = changed(request, expected_messages=None)
        return await self.good.append_events(request)


@defect("RUN-D5", caught_by=DELETE)
class ConditionalDeleteIsUnconditional(BrokenRuns):
    """A delete takes the run away whatever lengths are expected."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        return await self.good.delete_run(
            changed(request, expected_messages=None, expected_events=None)
        )


@defect("RUN-D5", caught_by=DELETE)
class ConditionalDeleteMindsMessagesOnly(BrokenRuns):
    """A delete never looks at expected_events."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        return await self.good.delete_run(changed(request, expected_events=None))


@defect("RUN-D5", "RUN-D1", caught_by="test_expecting.py::test_an_unknown_run_is_no_conflict")
class ConditionalDeleteOfNothingConflicts(BrokenRuns):
    """A delete that expects a length calls an unknown run a conflict."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        answer = await self.good.delete_run(request)
        expects = (request.expected_messages, request.expected_events) != (None, None)
        return changed(answer, conflict=expects and not answer.deleted)


@defect(
    "RUN-D5",
    "RUN-D4",
    caught_by="test_expecting.py::test_a_conditional_delete_takes_nothing_unseen_along",
)
class ConditionalDeleteComparesFirst(BrokenRuns):
    """A delete compares the lengths in one step and removes the run in a later one."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info and request.expected_messages == info.message_count:
            await asyncio.sleep(0)
            request = changed(request, expected_messages=None)
        return await self.good.delete_run(request)
