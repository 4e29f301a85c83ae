"""Readers that are right one at a time, and share one place where they have come to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from conformance_tests.broken.defect import (
    Broken,
    BrokenMemory,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from stores_core.memory import (
    ListMemoriesRequest,
    ListMemoriesResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
)
from stores_core.runs import (
    ListRunsRequest,
    ListRunsResponse,
    ReadMessagesRequest,
    ReadMessagesResponse,
)
from stores_core.tool_results import (
    ListToolResultsRequest,
    ListToolResultsResponse,
    ReadToolResultRequest,
    ReadToolResultResponse,
)


class _OnePlace(Broken):
    """A listing goes on, in steps of a few, from where the last step of any listing ended."""

    place = ""

    async def listed(
        self, listing: Callable[[Any], Awaitable[Any]], request: Any, field: str
    ) -> Any:
        self.place, found = request.cursor, list[Any]()
        while True:
            few = min(5, request.limit - len(found)) if request.limit else 5
            page = await listing(changed(request, cursor=self.place, limit=few))
            found += getattr(page, field)
            self.place = page.next_cursor
            await asyncio.sleep(0)
            if not self.place or len(found) == request.limit:
                return changed(page, **{field: (*found,), "next_cursor": self.place})


@defect(
    "ALL-7",
    "RUN-Q2",
    caught_by="test_readers.py::test_many_who_list_runs_at_once_each_get_all",
)
class ListingsOfRunsShareAPlace(BrokenRuns, _OnePlace):
    """Listings of runs that go on at once continue where any of them has come to."""

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        return await self.listed(self.good.list_runs, request, "runs")


@defect(
    "ALL-7",
    "MEM-13",
    caught_by="test_readers.py::test_many_who_list_namespaces_at_once_each_get_all",
)
class ListingsOfNamespacesShareAPlace(BrokenMemory, _OnePlace):
    """Listings of namespaces that go on at once continue where any of them has come to."""

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        return await self.listed(self.good.list_namespaces, request, "namespaces")


@defect(
    "ALL-7",
    "MEM-3",
    caught_by="test_readers.py::test_many_who_list_notes_at_once_each_get_all",
)
class ListingsOfNotesShareAPlace(BrokenMemory, _OnePlace):
    """Listings of notes that go on at once continue where any of them has come to."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query:
            return await self.good.list_memories(request)
        return await self.listed(self.good.list_memories, request, "items")


@defect(
    "ALL-7",
    "TOOL-7",
    caught_by="test_readers.py::test_many_who_list_tool_results_at_once_each_get_all",
)
class ListingsOfResultsShareAPlace(BrokenToolResults, _OnePlace):
    """Listings of tool results that go on at once continue where any of them has come to."""

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        return await self.listed(self.good.list_tool_results, request, "infos")


@defect(
    "ALL-7",
    "RUN-L3",
    caught_by="test_readers.py::test_many_who_read_one_run_at_once_each_get_all",
)
class ReadersOfARunShareAPlace(BrokenRuns):
    """Reads of messages that go on at once begin where the latest of them was to begin."""

    start = 0

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        self.start = request.start
        await asyncio.sleep(0)
        return await self.good.read_messages(changed(request, start=self.start))


@defect(
    "ALL-7",
    "TOOL-4",
    caught_by="test_readers.py::test_many_who_read_one_tool_result_at_once_each_get_all",
)
class ReadersOfAResultShareAPlace(BrokenToolResults):
    """Reads of a tool result that go on at once begin where the latest of them was to begin."""

    offset = 0

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        self.offset = request.offset
        await asyncio.sleep(0)
        return await self.good.read_tool_result(changed(request, offset=self.offset))
