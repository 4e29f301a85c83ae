"""What only shows when the disk fails or is full, or a process dies between two system calls."""

import asyncio
from typing import Any

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, BrokenToolResults, defect
from stores_core.capabilities import Durability
from stores_core.errors import OutcomeUnknownError, StoreError, StoreUnavailableError
from stores_core.memory import (
    ClearNamespaceRequest,
    ClearNamespaceResponse,
    DeleteMemoryRequest,
    ListMemoriesRequest,
)
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    LoadRunRequest,
    LoadRunResponse,
)
from stores_core.tool_results import PutToolResultRequest, PutToolResultResponse

KILLED = "test_disk.py::test_killed_at_a_system_call_it_has_happened_or_has_not"
FAILED = "test_disk.py::test_when_a_system_call_fails_it_is_told_what_is_true"
UNSYNCED = "test_disk.py::test_what_cannot_be_synced_is_not_told_done"
FULL = "test_disk.py::test_without_space_nothing_is_applied_and_with_space_all_goes_on"
GROWN = "test_disk.py::test_where_a_file_may_not_grow_nothing_is_left_in_part"


@defect("ALL-6", caught_by=KILLED)
class NotesAreClearedOneByOne(BrokenMemory):
    """A namespace is cleared note by note, and a process may end between two of them."""

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        return await asyncio.shield(self._clear(request.namespace))

    async def _clear(self, namespace: str) -> ClearNamespaceResponse:
        notes = (await self.good.list_memories(ListMemoriesRequest(namespace=namespace))).items
        for note in notes:
            delete = DeleteMemoryRequest(namespace=namespace, key=note.item.key)
            await self.good.delete_memory(delete)
        return ClearNamespaceResponse(deleted=len(notes))


@defect("ALL-6", caught_by=FAILED)
class WhatCannotBeReadIsUnknown(BrokenRuns):
    """A run whose file cannot be read is answered as one that is not there."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        try:
            return await self.good.load_run(request)
        except StoreError:
            return LoadRunResponse(found=False)


@defect("ALL-6", "ALL-8", caught_by=UNSYNCED)
class DurabilityIsOnlyDeclared(BrokenRuns):
    """Nothing is synced before it is acknowledged, and what is declared says that it is."""

    declares = Durability.DISK

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"durability": "client"}


@defect("ALL-8", caught_by=FULL)
class OnceFullItStaysFull(BrokenRuns):
    """A client that was without space once refuses to append until it is opened again."""

    full = False

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if self.full:
            raise StoreUnavailableError("there is no space")
        try:
            return await self.good.append_messages(request)
        except StoreUnavailableError:
            self.full = True
            raise


@defect("ALL-8", "TOOL-3", caught_by=GROWN)
class NoSpaceIsTakenForDone(BrokenToolResults):
    """A result that could not be written is told to be there."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        try:
            return await self.good.put_tool_result(request)
        except (OutcomeUnknownError, StoreUnavailableError):
            return PutToolResultResponse(ref=request.ref)
