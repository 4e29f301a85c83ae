"""Export and import in Redis."""

from stores_core.moving import (
    ExportEntriesRequest,
    ExportEntriesResponse,
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ExportRunsRequest,
    ExportRunsResponse,
    ExportToolResultsRequest,
    ExportToolResultsResponse,
    ImportEntriesRequest,
    ImportEntriesResponse,
    ImportMemoriesRequest,
    ImportMemoriesResponse,
    ImportRunRequest,
    ImportRunResponse,
    ImportToolResultsRequest,
    ImportToolResultsResponse,
)
from stores_redis.generations import Generations
from stores_redis.note_moving import NoteMoving
from stores_redis.places import Places
from stores_redis.result_moving import ResultMoving
from stores_redis.run_moving import RunMoving


class RedisMoving:
    """Exports and imports one tenant."""

    def __init__(self, places: Places, generations: Generations) -> None:
        self._runs = RunMoving(places)
        self._notes = NoteMoving(places.tenant, generations)
        self._results = ResultMoving(places.tenant)

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        return await self._runs.export_runs(request)

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        return await self._runs.export_entries(request)

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        return await self._runs.import_entries(request)

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        return await self._runs.import_run(request)

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        return await self._notes.export_memories(request)

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        return await self._notes.import_memories(request)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        return await self._results.export_tool_results(request)

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        return await self._results.import_tool_results(request)
