"""The operator's seam in Redis."""

from collections import Counter

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
from stores_core.embedding import NoteEmbedder, to_reembed_with
from stores_core.pages import last_name, names_page
from stores_core.retention import Retention
from stores_core.revisions import State
from stores_redis.generations import Generations
from stores_redis.note_reading import NoteReader
from stores_redis.note_sweeping import sweep_notes
from stores_redis.places import Places
from stores_redis.reembedding import reembed
from stores_redis.results import Results
from stores_redis.retaining import retain
from stores_redis.runs import RedisRunStore
from stores_redis.settings import least_durability, read_settings, warnings_of
from stores_redis.sweeping import sweep_runs
from stores_redis.tenants import count_bytes, erase, list_tenants
from stores_redis.vector_indexes import unindexed
from stores_redis.verifying import verify
from stores_redis.versions import ADVICE, CODE, look, migrate, plan


class RedisAdmin:
    """Answers for one prefix of a server, as the client of one tenant."""

    def __init__(
        self,
        places: Places,
        runs: RedisRunStore,
        embedder: NoteEmbedder | None,
        retention: Retention,
    ) -> None:
        self._tenant = tenant = places.tenant
        self._places = places
        self._storage = tenant.storage
        self._runs = runs
        self._notes = NoteReader(tenant, Generations())
        self._results = Results(tenant)
        self._embedder = embedder
        self._retention = retention

    async def check(self, request: CheckRequest) -> CheckResponse:
        everywhere = await read_settings(self._storage)
        settings = everywhere[0]
        found = dict(settings.found)
        tenant = await look(self._storage, self._tenant.name)
        waits = self._storage.wait_replicas
        lacks = await unindexed(self._notes) if tenant.state is State.CURRENT else ""
        server = "valkey" if "valkey" in found else found.pop("server", "redis")
        version = found.pop("version", "unknown")
        return CheckResponse(
            versions={
                server: found.pop("valkey", version),
                "format": f"{tenant.revision} (code: {CODE})",
                "vector sets": "there" if settings.has_vector_sets else "not there",
            },
            schema_state=tenant.state,
            durability=least_durability(everywhere, waits),
            settings={
                **found,
                "buckets": str(tenant.buckets),
                "nodes": str(len(everywhere)),
                "wait_replicas": str(waits),
            },
            warnings=list(
                dict.fromkeys(
                    [
                        *(
                            warning
                            for one in everywhere
                            for warning in warnings_of(one.found, waits)
                        ),
                        *([lacks] if lacks else []),
                    ]
                )
            ),
        )

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        size = await count_bytes(self._storage, self._tenant.name)
        return MeasureResponse(bytes=size, entries_read=self._runs.entries_read)

    async def plan_migration(self, request: PlanMigrationRequest) -> PlanMigrationResponse:
        found = await look(self._storage, self._tenant.name)
        steps = plan(found, request.target)
        return PlanMigrationResponse(
            steps=[step.sentence for step in steps], advice=ADVICE if steps else ()
        )

    async def migrate(self, request: MigrateRequest) -> MigrateResponse:
        return MigrateResponse(applied=await migrate(self._tenant, request.target))

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        budget = request.budget
        freed: Counter[str] = Counter()
        freed["tool_results"] = await retain(self._results, self._retention, request.at, budget)
        budget -= freed["tool_results"]
        freed += await sweep_notes(self._notes, request.at, budget)
        budget -= freed["note_parts"]
        some, budget = await sweep_runs(self._places, request.at, max(0, budget))
        freed.update(some)
        return SweepResponse(freed=dict(+freed), more=budget <= 0)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        checked, problems = await verify(self._tenant)
        return VerifyResponse(checked=checked, problems=problems)

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        embedder = to_reembed_with(self._embedder)
        embedded, done = await reembed(self._notes, embedder, request.limit)
        return ReembedResponse(embedded=embedded, done=done)

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        last = last_name(request.cursor)
        names = await list_tenants(self._storage, last, request.limit + 1)
        page, position = names_page(names, request.limit)
        return ListTenantsResponse(tenants=page, next_cursor=position)

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        return EraseTenantResponse(erased=await erase(self._storage, request.tenant))
