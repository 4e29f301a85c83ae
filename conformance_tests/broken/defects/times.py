"""Times that lose their zone, their precision or their owner."""

from datetime import datetime, timedelta

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, changed, defect
from stores_core.memory import (
    GetMemoryRequest,
    GetMemoryResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.runs import AppendMessagesRequest, AppendMessagesResponse
from stores_core.shape import EPOCH
from stores_core.values import micros


def _put_together(moment: datetime) -> datetime:
    sign = -1 if moment < EPOCH else 1
    seconds = sign * (abs(micros(moment)) // 1_000_000)
    return EPOCH + timedelta(seconds=seconds, microseconds=moment.microsecond)


def _in_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@defect("ALL-4", "ALL-1", caught_by="test_fidelity.py::test_a_message_comes_back_equal")
class TimesBefore1970AreOff(BrokenRuns):
    """Seconds and fraction of a time are kept apart, and before 1970 the seconds round upwards."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = tuple(
            changed(one, timestamp=_put_together(one.timestamp)) if one.timestamp else one
            for one in request.messages
        )
        return await self.good.append_messages(changed(request, messages=messages))


@defect(
    "ALL-4",
    "MEM-2",
    caught_by="test_memory.py::test_a_note_without_created_at_is_stamped_and_a_given_one_is_kept",
)
class NoteTimesHaveMilliseconds(BrokenMemory):
    """The time of a note is kept in milliseconds."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        created_at = _in_milliseconds(request.item.created_at or request.at)
        item = changed(request.item, created_at=created_at)
        return await self.good.put_memory(changed(request, item=item))


@defect(
    "ALL-4",
    "MEM-2",
    caught_by="test_memory.py::test_a_note_without_created_at_is_stamped_and_a_given_one_is_kept",
)
class GivenTimesAreIgnored(BrokenMemory):
    """A note is stamped whatever time it brings."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        item = changed(request.item, created_at=request.at)
        return await self.good.put_memory(changed(request, item=item))


@defect(
    "ALL-4",
    caught_by="test_ownership.py::test_every_time_that_a_store_gives_is_aware_and_in_utc",
)
class NoteTimesLoseTheirZone(BrokenMemory):
    """The times of a note come back without a zone."""

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        if answer.item is None:
            return answer
        naive = answer.item.updated_at.replace(tzinfo=None)
        return changed(answer, item=changed(answer.item, updated_at=naive))
