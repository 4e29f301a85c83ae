"""Export and import of tool results."""

from stores_core.limits import page_length
from stores_core.moving import (
    ExportToolResultsRequest,
    ExportToolResultsResponse,
    ImportToolResultsRequest,
    ImportToolResultsResponse,
    ToolResultRecord,
)
from stores_redis.results import NewResult, Results, merged, result_of
from stores_redis.storage import Tenant


class ResultMoving:
    """Exports and imports the tool results of one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._results = Results(tenant)

    async def export_tool_results(
        self, request: ExportToolResultsRequest
    ) -> ExportToolResultsResponse:
        """A page of results, newest first. What is removed while it is read is not on it."""
        limit = request.limit
        pages = [
            await self._results.page(bucket, request.cursor, limit, limit)
            for bucket in self._results.tenant.buckets
        ]
        headers, position = merged(pages, limit)
        fitting = page_length(header.size for header in headers)
        if fitting < len(headers):
            position = headers[fitting - 1].place
        records: list[ToolResultRecord] = []
        for header in headers[:fitting]:
            found = await self._results.whole(header.ref)
            if found is not None and found[0].age == header.age:
                records.append(
                    ToolResultRecord(
                        ref=header.ref,
                        created_at=header.created,
                        labels=found[0].labels,
                        result=result_of(*found),
                    )
                )
        return ExportToolResultsResponse(results=tuple(records), next_cursor=position)

    async def import_tool_results(
        self, request: ImportToolResultsRequest
    ) -> ImportToolResultsResponse:
        """Keep results with their times and labels, each in one step."""
        for record in request.results:
            await self._results.put(
                NewResult.of(record.ref, record.created_at, record.labels, record.result)
            )
        return ImportToolResultsResponse(imported=len(request.results))
