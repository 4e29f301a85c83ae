"""What only shows when a call is cancelled at the right await."""

import asyncio

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, changed, defect
from stores_core.memory import (
    DeleteMemoryRequest,
    PutMemoriesRequest,
    PutMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.runs import ForkRunRequest, ForkRunResponse, UpdateRunRequest, UpdateRunResponse

CANCELLED = "test_cancelled.py::test_cancelled_at_any_await_it_has_happened_or_has_not"


@defect("ALL-9", caught_by=CANCELLED)
class CancelledCallsKeepTheLock(BrokenRuns):
    """A lock of the client is given back by all but those that are cancelled."""

    def prepare(self) -> None:
        self.lock = asyncio.Lock()

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        await self.lock.acquire()
        await asyncio.sleep(0)
        answer = await self.good.update_run(request)
        self.lock.release()
        return answer


@defect("ALL-9", caught_by=CANCELLED)
class CancelledPutsLoseTheNote(BrokenMemory):
    """A note is replaced by being deleted and put anew."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        key, namespace = request.item.key, request.namespace
        await self.good.delete_memory(DeleteMemoryRequest(key=key, namespace=namespace))
        await asyncio.sleep(0)
        return await self.good.put_memory(request)


@defect("ALL-9", caught_by=CANCELLED)
class CancelledPutsAreHalves(BrokenMemory):
    """Several notes are put one after another."""

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        for item in request.items[:-1]:
            await self.good.put_memories(changed(request, items=(item,)))
            await asyncio.sleep(0)
        return await self.good.put_memories(request)


@defect("ALL-9", caught_by=CANCELLED)
class CancelledForksHaveNoLabels(BrokenRuns):
    """A fork is made bare, and its labels are set behind."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(changed(request, labels={}))
        await asyncio.sleep(0)
        if answer.created:
            found = await self.good.fork_run(request)
            labels = {"a": "1"} if request.labels is None else request.labels
            update = UpdateRunRequest(run_id=found.run_id, labels=labels)
            await self.good.update_run(changed(update, at=request.at))
        return answer
