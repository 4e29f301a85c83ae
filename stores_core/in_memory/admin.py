"""The operator's seam in memory."""

from functools import partial

from stores_core.admin import (
    CheckRequest,
    CheckResponse,
    EraseTenantRequest,
    EraseTenantResponse,
    ListTenantsRequest,
    ListTenantsResponse,
    MeasureRequest,
    MeasureResponse,
    MigrateRequest,
    MigrateResponse,
    PlanMigrationRequest,
    PlanMigrationResponse,
    ReembedRequest,
    ReembedResponse,
    SweepRequest,
    SweepResponse,
    VerifyRequest,
    VerifyResponse,
)
from stores_core.capabilities import Durability
from stores_core.codec import decode_event, decode_message
from stores_core.embedding import NoteEmbedder, to_reembed_with
from stores_core.findings import Findings
from stores_core.in_memory.reembedding import reembed
from stores_core.in_memory.runs import InMemoryRunStore, header
from stores_core.in_memory.storage import Storage, Tenant
from stores_core.in_memory.sweeping import sweep
from stores_core.pages import last_name, names_page
from stores_core.retention import Retention
from stores_core.tool_text import join


class InMemoryAdmin:
    """Answers for one storage, as the client of one tenant."""

    def __init__(
        self,
        storage: Storage,
        tenant: Tenant,
        runs: InMemoryRunStore,
        embedder: NoteEmbedder | None,
        retention: Retention,
    ) -> None:
        self._storage = storage
        self._tenant = tenant
        self._runs = runs
        self._embedder = embedder
        self._retention = retention

    async def check(self, request: CheckRequest) -> CheckResponse:
        return CheckResponse(
            schema_state="current",
            durability=Durability.NONE,
            warnings=("what is kept in memory ends with the process",),
        )

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        with self._tenant.lock:
            size = count_bytes(self._tenant)
        return MeasureResponse(bytes=size, entries_read=self._runs.entries_read)

    async def plan_migration(self, request: PlanMigrationRequest) -> PlanMigrationResponse:
        return PlanMigrationResponse()

    async def migrate(self, request: MigrateRequest) -> MigrateResponse:
        return MigrateResponse()

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        with self._tenant.lock:
            freed, more = sweep(self._tenant, self._retention, request.at, request.budget)
        return SweepResponse(freed=freed, more=more)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        findings = Findings()
        checked = findings.checked
        with self._tenant.lock:
            runs = list(self._tenant.runs.values())
            results = list(self._tenant.results.items())
            checked["notes"] = sum(len(held.notes) for held in self._tenant.namespaces.values())
        for run in runs:
            checked["runs"] += 1
            for view, decode in ((run.messages, decode_message), (run.events, decode_event)):
                with self._tenant.lock:
                    texts = view.read(0, view.count)
                checked["entries"] += len(texts)
                for position, text in enumerate(texts):
                    findings.check("runs", run.id, partial(decode, text), position)
        for ref, stored in results:
            checked["tool_results"] += 1
            findings.check("tool_results", ref, partial(join, stored.text, stored.rest, ref=ref))
        return VerifyResponse(checked=checked, problems=findings.problems)

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        embedder = to_reembed_with(self._embedder)
        embedded, done = await reembed(self._tenant, embedder, request.limit)
        return ReembedResponse(embedded=embedded, done=done)

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        last = last_name(request.cursor)
        with self._storage.lock:
            names = sorted(
                name
                for name, tenant in self._storage.tenants.items()
                if not tenant.is_empty() and (last is None or name > last)
            )
        page, position = names_page(names, request.limit)
        return ListTenantsResponse(tenants=page, next_cursor=position)

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        with self._storage.lock:
            tenant = self._storage.tenants.get(request.tenant)
        if tenant is None:
            return EraseTenantResponse(erased=False)
        with tenant.lock:
            erased = not tenant.is_empty()
            tenant.clear()
        return EraseTenantResponse(erased=erased)


def count_bytes(tenant: Tenant) -> int:
    """Bytes of entries, headers, ranges, keys, notes, vectors and results. The lock is held."""
    size = sum(len(text) for log in tenant.logs.by_id.values() for text in log.entries)
    for run in tenant.runs.values():
        size += len(header(run).model_dump_json())
        size += 24 * (len(run.messages.ranges) + len(run.events.ranges))
        size += sum(len(key.model_dump_json()) for key in run.keys.values())
    for held in tenant.namespaces.values():
        size += sum(note.size for note in held.notes.values())
    size += tenant.vectors.count_bytes()
    return size + sum(
        len(stored.text.encode()) + len(stored.rest) for stored in tenant.results.values()
    )
