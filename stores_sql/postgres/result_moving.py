"""Export and import of tool results."""

from stores_core.limits import page_length
from stores_core.moving import (
    ExportToolResultsRequest,
    ExportToolResultsResponse,
    ImportToolResultsRequest,
    ImportToolResultsResponse,
    ToolResultRecord,
)
from stores_core.values import from_micros
from stores_sql.catalog import page, place_of, position_of
from stores_sql.postgres.result_rows import parameters, put_in_place, result_of
from stores_sql.postgres.statements import Connection
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.tool_results import ALL_RESULTS
from stores_sql.results import NewResult, StoredResult


async def export_tool_results(
    tenant: Tenant, request: ExportToolResultsRequest
) -> ExportToolResultsResponse:
    age, id = place_of(request.cursor)

    async def work(connection: Connection, _: int) -> ExportToolResultsResponse:
        most = request.limit
        rows = await ALL_RESULTS.all(connection, name=tenant.name, age=age, id=id, most=most + 1)
        found, position, _ = page(rows, StoredResult._make, most, most)
        fitting = page_length(stored.size for stored in found)
        if fitting < len(found):
            position = position_of(found[fitting - 1].place)
        records: list[ToolResultRecord] = []
        for stored in found[:fitting]:
            result = await result_of(connection, tenant.name, stored.ref)
            if result is not None:  # which it is not, as all is of one instant
                records.append(
                    ToolResultRecord(
                        ref=stored.ref,
                        created_at=from_micros(-stored.age),
                        labels=stored.named(),
                        result=result,
                    )
                )
        return ExportToolResultsResponse(results=tuple(records), next_cursor=position)

    return await tenant.read(work)


async def import_tool_results(
    tenant: Tenant, request: ImportToolResultsRequest
) -> ImportToolResultsResponse:
    news = [
        parameters(NewResult.of(record.ref, record.created_at, record.labels, record.result))
        for record in request.results
    ]

    async def work(connection: Connection, number: int) -> None:
        for new in news:
            await put_in_place(connection, number, tenant.name, new)

    await tenant.write(work)
    return ImportToolResultsResponse(imported=len(news))
