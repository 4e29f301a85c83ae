"""The fronts, operation by operation. Their promises stand in the protocols of the same names."""

from stores_core import admin, memory, moving, runs, tool_results
from stores_core.front.operation import Front, operation


class RunsFront(Front):
    """What ``backend.runs`` is; see :class:`stores_core.runs.RunStore`."""

    kind = "runs"
    create_run = operation(runs.CreateRunRequest, runs.CreateRunResponse)
    get_run = operation(runs.GetRunRequest, runs.GetRunResponse)
    append_messages = operation(runs.AppendMessagesRequest, runs.AppendMessagesResponse)
    append_events = operation(runs.AppendEventsRequest, runs.AppendEventsResponse)
    load_run = operation(runs.LoadRunRequest, runs.LoadRunResponse)
    read_messages = operation(runs.ReadMessagesRequest, runs.ReadMessagesResponse)
    read_events = operation(runs.ReadEventsRequest, runs.ReadEventsResponse)
    fork_run = operation(runs.ForkRunRequest, runs.ForkRunResponse)
    list_runs = operation(runs.ListRunsRequest, runs.ListRunsResponse)
    update_run = operation(runs.UpdateRunRequest, runs.UpdateRunResponse)
    delete_run = operation(runs.DeleteRunRequest, runs.DeleteRunResponse)


class MemoryFront(Front):
    """What ``backend.memory`` is; see :class:`stores_core.memory.MemoryStore`."""

    kind = "memory"
    put_memory = operation(memory.PutMemoryRequest, memory.PutMemoryResponse)
    put_memories = operation(memory.PutMemoriesRequest, memory.PutMemoriesResponse)
    get_memory = operation(memory.GetMemoryRequest, memory.GetMemoryResponse)
    list_memories = operation(memory.ListMemoriesRequest, memory.ListMemoriesResponse)
    delete_memory = operation(memory.DeleteMemoryRequest, memory.DeleteMemoryResponse)
    clear_namespace = operation(memory.ClearNamespaceRequest, memory.ClearNamespaceResponse)
    list_namespaces = operation(memory.ListNamespacesRequest, memory.ListNamespacesResponse)


class ToolResultsFront(Front):
    """What ``backend.tool_results`` is; see :class:`stores_core.tool_results.ToolResultStore`."""

    kind = "tool_results"
    put_tool_result = operation(
        tool_results.PutToolResultRequest, tool_results.PutToolResultResponse
    )
    get_tool_result = operation(
        tool_results.GetToolResultRequest, tool_results.GetToolResultResponse
    )
    read_tool_result = operation(
        tool_results.ReadToolResultRequest, tool_results.ReadToolResultResponse
    )
    search_tool_result = operation(
        tool_results.SearchToolResultRequest, tool_results.SearchToolResultResponse
    )
    list_tool_results = operation(
        tool_results.ListToolResultsRequest, tool_results.ListToolResultsResponse
    )
    delete_tool_result = operation(
        tool_results.DeleteToolResultRequest, tool_results.DeleteToolResultResponse
    )


class AdminFront(Front):
    """What ``backend.admin`` is; see :class:`stores_core.admin.Admin`."""

    kind = "admin"
    check = operation(admin.CheckRequest, admin.CheckResponse)
    measure = operation(admin.MeasureRequest, admin.MeasureResponse)
    plan_migration = operation(admin.PlanMigrationRequest, admin.PlanMigrationResponse)
    migrate = operation(admin.MigrateRequest, admin.MigrateResponse)
    sweep = operation(admin.SweepRequest, admin.SweepResponse)
    verify = operation(admin.VerifyRequest, admin.VerifyResponse)
    reembed = operation(admin.ReembedRequest, admin.ReembedResponse)
    list_tenants = operation(admin.ListTenantsRequest, admin.ListTenantsResponse)
    erase_tenant = operation(admin.EraseTenantRequest, admin.EraseTenantResponse)


class MovingFront(Front):
    """What ``backend.moving`` is; see :class:`stores_core.moving.Moving`."""

    kind = "moving"
    export_runs = operation(moving.ExportRunsRequest, moving.ExportRunsResponse)
    export_entries = operation(moving.ExportEntriesRequest, moving.ExportEntriesResponse)
    import_entries = operation(moving.ImportEntriesRequest, moving.ImportEntriesResponse)
    import_run = operation(moving.ImportRunRequest, moving.ImportRunResponse)
    export_memories = operation(moving.ExportMemoriesRequest, moving.ExportMemoriesResponse)
    import_memories = operation(moving.ImportMemoriesRequest, moving.ImportMemoriesResponse)
    export_tool_results = operation(
        moving.ExportToolResultsRequest, moving.ExportToolResultsResponse
    )
    import_tool_results = operation(
        moving.ImportToolResultsRequest, moving.ImportToolResultsResponse
    )
