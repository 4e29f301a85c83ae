"""What only shows when a process is killed, or a client comes back (tier B)."""

import asyncio
from typing import Any

from conformance_tests.broken.defect import (
    BrokenMemory,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from stores_core.memory import (
    DeleteMemoryRequest,
    GetMemoryRequest,
    GetMemoryResponse,
    MemoryItem,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.runs import AppendMessagesRequest, AppendMessagesResponse
from stores_core.tool_results import PutToolResultRequest, PutToolResultResponse

KILLED = "test_killed.py::test_processes_that_are_killed_lose_nothing_and_leave_nothing_in_part"


@defect("ALL-6", "TOOL-3", caught_by=KILLED)
class ResultsAreAcknowledgedBeforeTheyAreWritten(BrokenToolResults):
    """A put answers at once and writes a moment later."""

    def prepare(self) -> None:
        self.writing: set[asyncio.Task[Any]] = set()

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        async def later() -> None:
            await asyncio.sleep(0.2)
            await self.good.put_tool_result(request)

        self.writing.add(asyncio.create_task(later()))
        return PutToolResultResponse(ref=request.ref)


@defect("RUN-A4", "ALL-6", caught_by=KILLED)
class BatchesAreWrittenInTwoPieces(BrokenRuns):
    """A batch is written in two pieces, and a process may end between."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        middle = len(request.messages) // 2
        if not middle or request.expected_count is not None:
            return await self.good.append_messages(request)
        first = changed(
            request, messages=request.messages[:middle], events=(), idempotency_key="", digest=""
        )
        await self.good.append_messages(first)
        await asyncio.sleep(0.005)
        return await self.good.append_messages(changed(request, messages=request.messages[middle:]))


@defect("ALL-6", "RUN-C4", caught_by=KILLED)
class LocksOutliveTheirProcess(BrokenRuns):
    """Writers of a run take a lock that lies in the storage, and nobody takes it from the dead."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        locks, key, at = self.stores.memory, request.run_id, request.at
        item = MemoryItem(key=key, value="", created_at=at)
        take = PutMemoryRequest(item=item, namespace="locks", expected_version=0)
        take = changed(take, at=at)
        while True:
            if not (await locks.put_memory(take)).conflict:
                break
            await asyncio.sleep(0.01)
        try:
            return await self.good.append_messages(request)
        finally:
            await locks.delete_memory(DeleteMemoryRequest(key=key, namespace="locks"))


@defect("RUN-A7", caught_by="test_killed.py::test_a_client_that_comes_back_finds_its_runs")
class KeysAreKnownToTheClientAlone(BrokenRuns):
    """Which keyed batches were applied is remembered by the client that sent them."""

    def prepare(self) -> None:
        self.answers: dict[tuple[str, str], AppendMessagesResponse] = {}

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        place = request.run_id, request.idempotency_key
        if place in self.answers:
            return changed(self.answers[place], applied=False)
        answer = await self.good.append_messages(changed(request, idempotency_key="", digest=""))
        if request.idempotency_key:
            self.answers[place] = answer
        return answer


@defect("ALL-6", caught_by="test_killed.py::test_a_client_that_comes_back_finds_its_notes")
class NewVersionsStayInTheClient(BrokenMemory):
    """Only the first version of a note is written; later ones wait for a closing that forgets."""

    def prepare(self) -> None:
        self.newer: dict[tuple[str, str], Any] = {}

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        place = request.namespace, request.item.key
        note = await self.get_memory(GetMemoryRequest(key=place[1], namespace=place[0]))
        if note.item is None or request.expected_version is not None:
            return await self.good.put_memory(request)
        fields = {"value": request.item.value, "metadata": request.item.metadata}
        version = note.item.version + 1
        self.newer[place] = changed(note.item, version=version, updated_at=request.at, **fields)
        return PutMemoryResponse(version=version)

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        newer = self.newer.get((request.namespace, request.key))
        return changed(answer, item=newer) if newer and answer.found else answer


@defect(
    "TOOL-3", "ALL-6", caught_by="test_killed.py::test_a_client_that_comes_back_finds_its_results"
)
class LongResultsStayInTheClient(BrokenToolResults):
    """A long result is written when the next one is put."""

    def prepare(self) -> None:
        self.waiting: list[PutToolResultRequest] = []

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        while self.waiting:
            await self.good.put_tool_result(self.waiting.pop())
        self.waiting.append(request)
        return PutToolResultResponse(ref=request.ref)
