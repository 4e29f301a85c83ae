"""What only shows when the clock steps (tier C)."""

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, changed, defect
from conformance_tests.broken.reading import note_at
from stores_core.memory import PutMemoryRequest, PutMemoryResponse
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    LoadRunRequest,
    LoadRunResponse,
)


@defect(
    "ALL-4",
    "RUN-A1",
    caught_by="test_clocks.py::"
    "test_entries_are_in_the_order_of_their_appends_wherever_the_clock_goes",
)
class MessagesAreOrderedByTime(BrokenRuns):
    """Messages are read in the order of the time at which they were written."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if answer.applied:
            times = self.kept.setdefault(request.run_id, [])
            times += [request.at] * len(request.messages)
        return answer

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        times = self.kept.get(request.run_id, [])
        if answer.run is None or len(times) != len(answer.run.messages):
            return answer
        pairs = sorted(zip(times, answer.run.messages, strict=True), key=lambda pair: pair[0])
        return changed(answer, run=changed(answer.run, messages=tuple(m for _, m in pairs)))


@defect(
    "ALL-4",
    "MEM-1",
    caught_by="test_clocks.py::test_the_last_put_stands_wherever_the_clock_goes",
)
class TheLaterTimeStands(BrokenMemory):
    """Of two versions of a note the one with the later time is kept."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        note = await note_at(self.good, request.namespace, request.item.key)
        if note is not None and note.updated_at > request.at:
            return PutMemoryResponse(version=note.version + 1)
        return await self.good.put_memory(request)
