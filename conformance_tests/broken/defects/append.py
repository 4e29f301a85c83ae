"""Appends that lose, tear, reorder or miscount."""

import asyncio
from datetime import UTC, datetime

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.codec import canonical
from stores_core.entries import Message
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    GetRunRequest,
    UpdateRunRequest,
)

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


# Order


@defect("RUN-A1", caught_by="test_append.py::test_order_is_kept_inside_a_batch")
class LongBatchIsWrittenInPiecesOutOfOrder(BrokenRuns):
    """A batch of 20 or more messages is written in two pieces, the second one first."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = request.messages
        if len(messages) >= 20:
            middle = len(messages) // 2
            request = changed(request, messages=(*messages[middle:], *messages[:middle]))
        return await self.good.append_messages(request)


@defect("RUN-A1", caught_by="test_append.py::test_order_owes_nothing_to_the_timestamps")
class BatchIsSortedByTime(BrokenRuns):
    """The messages of a batch are ordered by their timestamps."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        def moment(message: Message) -> datetime:
            return message.timestamp or LONG_AGO

        ordered = tuple(sorted(request.messages, key=moment))
        return await self.good.append_messages(changed(request, messages=ordered))


@defect("RUN-A1", "RUN-A4", caught_by="test_append.py::test_equal_entries_are_all_kept")
class EqualEntriesBecomeOne(BrokenRuns):
    """Messages of a batch that say the same are written once."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        different = {canonical(message.__dict__): message for message in request.messages}
        return await self.good.append_messages(changed(request, messages=(*different.values(),)))


# Unknown runs


@defect("RUN-A2", caught_by="test_append.py::test_an_append_to_an_unknown_run_brings_none_to_life")
class AppendCreatesTheRun(BrokenRuns):
    """An append to an unknown run creates it."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        new = changed(CreateRunRequest(run_id=request.run_id), at=request.at)
        await self.good.create_run(new)
        return await self.good.append_messages(request)


@defect(
    "RUN-A2", "RUN-D4", caught_by="test_deleting.py::test_an_append_after_a_delete_revives_nothing"
)
class AppendTrustsWhatItKnew(BrokenRuns):
    """A client that has written to a run puts it back when it finds it gone."""

    def prepare(self) -> None:
        self.known: set[str] = set()

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if answer.found:
            self.known.add(request.run_id)
        elif request.run_id in self.known:
            new = changed(CreateRunRequest(run_id=request.run_id), at=request.at)
            await self.good.create_run(new)
            return await self.good.append_messages(request)
        return answer


# Stamps


@defect("RUN-A3", caught_by="test_append.py::test_a_given_timestamp_is_kept")
class TimestampsOfTheFutureAreReplaced(BrokenRuns):
    """A message whose timestamp is later than the store's clock gets the time of the append."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        def clamped(message: Message) -> Message:
            late = message.timestamp is not None and message.timestamp > request.at
            return changed(message, timestamp=request.at) if late else message

        messages = tuple(map(clamped, request.messages))
        return await self.good.append_messages(changed(request, messages=messages))


@defect("RUN-A3", caught_by="test_append.py::test_a_message_without_a_timestamp_gets_the_clocks")
class StampLosesItsMicroseconds(BrokenRuns):
    """The stamp that a message gets from the store is kept to the millisecond."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        def cut(message: Message) -> Message:
            if message.timestamp != request.at:
                return message
            coarse = request.at.replace(microsecond=request.at.microsecond // 1000 * 1000)
            return changed(message, timestamp=coarse)

        messages = tuple(map(cut, request.messages))
        return await self.good.append_messages(changed(request, messages=messages))


# Batches


@defect(
    "RUN-A4",
    caught_by="test_concurrency.py::test_many_writers_on_one_run_lose_tear_and_reorder_nothing",
)
class BatchIsWrittenOneByOne(BrokenRuns):
    """A batch without a key is written entry by entry, so that others come between."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        expects = (request.expected_count, request.expected_events) != (None, None)
        if request.idempotency_key or expects or len(request.messages) < 2:
            return await self.good.append_messages(request)
        for message in request.messages[:-1]:
            await self.good.append_messages(changed(request, messages=(message,), events=()))
            await asyncio.sleep(0)
        return await self.good.append_messages(changed(request, messages=request.messages[-1:]))


@defect(
    "RUN-A10",
    "RUN-L1",
    caught_by="test_concurrency.py::test_a_load_among_writers_shows_whole_batches",
)
class EventsComeInASecondStep(BrokenRuns):
    """Events given with messages are written after them, in a step of their own."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.idempotency_key or not request.messages or not request.events:
            return await self.good.append_messages(request)
        answer = await self.good.append_messages(changed(request, events=()))
        if not answer.applied:
            return answer
        await asyncio.sleep(0)
        rest = AppendEventsRequest(run_id=request.run_id, events=request.events)
        second = await self.good.append_events(changed(rest, at=request.at))
        return changed(answer, event_count=second.event_count)


@defect("RUN-A10", "RUN-A7", caught_by="test_keys.py::test_a_batch_sent_again_is_written_once")
class EventsOfAKeyedTurnAreDropped(BrokenRuns):
    """Events that come with messages under a key are accepted and never written."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.messages and request.idempotency_key:
            request = changed(request, events=())
        return await self.good.append_messages(request)


@defect(
    "RUN-A4",
    caught_by="test_concurrency.py::test_many_writers_on_one_run_lose_tear_and_reorder_nothing",
)
class SlowerWriterIsLost(BrokenRuns):
    """An append reads the log and writes it back, so that the slower of two writers is lost."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        before = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        await asyncio.sleep(0)
        now = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        grown = before and now and now.message_count > before.message_count
        if not before or not grown or request.idempotency_key or request.expected_count is not None:
            return await self.good.append_messages(request)
        return AppendMessagesResponse(
            found=True,
            applied=True,
            message_count=before.message_count + len(request.messages),
            event_count=before.event_count + len(request.events),
        )


@defect(
    "RUN-A4",
    "ALL-11",
    caught_by="test_limits.py::test_a_batch_of_1000_entries_is_taken_and_one_more_is_refused",
)
class LongBatchLosesItsEnd(BrokenRuns):
    """A batch is written in one statement of 999 rows at most, and the rest is forgotten."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.good.append_messages(changed(request, messages=request.messages[:999]))


# Counts


@defect("RUN-A5", caught_by="test_append.py::test_the_answer_counts_both_logs_after_the_append")
class CountsAreThoseBefore(BrokenRuns):
    """The answer of an append tells the lengths before it."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if not answer.applied:
            return answer
        return changed(
            answer,
            message_count=answer.message_count - len(request.messages),
            event_count=answer.event_count - len(request.events),
        )


@defect(
    "RUN-A5",
    "RUN-A9",
    caught_by="test_append.py::test_the_answer_counts_both_logs_after_the_append",
)
class EventAppendCountsNoMessages(BrokenRuns):
    """append_events fills in the length of its own log alone."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        return changed(await self.good.append_events(request), message_count=0)


@defect("RUN-A8", caught_by="test_append.py::test_an_empty_batch_changes_nothing_and_still_counts")
class EmptyBatchIsRefused(BrokenRuns):
    """An append of nothing answers as if the run were not there."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if not request.messages and not request.events:
            return AppendMessagesResponse(found=False)
        return await self.good.append_messages(request)


@defect(
    "RUN-A8",
    "RUN-Q5",
    caught_by="test_append.py::test_an_empty_batch_changes_nothing_and_still_counts",
)
class EmptyBatchTouchesTheRun(BrokenRuns):
    """An append of nothing moves updated_at."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if answer.found and not request.messages and not request.events:
            for labels in ({"touched": "x"}, {"touched": None}):
                touch = UpdateRunRequest(run_id=request.run_id, labels=labels)
                await self.good.update_run(changed(touch, at=request.at))
        return answer


@defect(
    "RUN-A8",
    "RUN-A6",
    caught_by="test_append.py::test_an_empty_batch_changes_nothing_and_still_counts",
)
class EmptyBatchMayConflict(BrokenRuns):
    """An append of nothing that expects another length is a conflict."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        empty = answer.found and not request.messages and not request.events
        if empty and request.expected_count not in (None, answer.message_count):
            answer = changed(answer, conflict=True)
        return answer
