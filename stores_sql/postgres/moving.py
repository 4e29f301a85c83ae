"""Export and import in Postgres."""

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
from stores_sql.postgres import note_moving, result_moving, run_moving
from stores_sql.postgres.storage import Tenant


class PostgresMoving:
    """Exports and imports one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        return await run_moving.export_runs(self._tenant, request)

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        return await run_moving.export_entries(self._tenant, request)

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        return await run_moving.import_entries(self._tenant, request)

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        return await run_moving.import_run(self._tenant, request)

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        return await note_moving.export_memories(self._tenant, request)

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        return await note_moving.import_memories(self._tenant, request)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        return await result_moving.export_tool_results(self._tenant, request)

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        return await result_moving.import_tool_results(self._tenant, request)
