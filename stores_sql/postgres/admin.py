"""The operator's seam in Postgres."""

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
from stores_sql.postgres.migration_sql import script
from stores_sql.postgres.reembedding import reembed
from stores_sql.postgres.runs import PostgresRunStore
from stores_sql.postgres.settings import durability_of, read_settings, warnings_of
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.sweeping import sweep
from stores_sql.postgres.tenants import count_bytes, erase, list_tenants
from stores_sql.postgres.trigrams import make_trigrams, without_trigrams
from stores_sql.postgres.vector_indexes import unindexed
from stores_sql.postgres.verifying import verify
from stores_sql.postgres.versions import ADVICE, CODE, look, migrate, plan


class PostgresAdmin:
    """Answers for one schema, as the client of one tenant."""

    def __init__(
        self,
        tenant: Tenant,
        runs: PostgresRunStore,
        embedder: NoteEmbedder | None,
        retention: Retention,
    ) -> None:
        self._tenant = tenant
        self._storage = tenant.storage
        self._runs = runs
        self._embedder = embedder
        self._retention = retention

    async def check(self, request: CheckRequest) -> CheckResponse:
        settings = await self._storage.examine(read_settings)
        found = await self._storage.examine(look)
        versions = {
            "postgres": settings.pop("server_version"),
            "format": f"{found.name or 'none'} (code: {CODE})",
        }
        for name in ("vector", "pg_trgm"):
            versions[name] = settings.pop(f"extension {name}", "not there")
        warnings = warnings_of(settings)
        del settings["compiles"], settings["path"]
        if found.state is State.CURRENT:
            lacks = await unindexed(self._storage, self._tenant.name)
            warnings += filter(None, (lacks, await without_trigrams(self._storage)))
        return CheckResponse(
            versions=versions,
            schema_state=found.state,
            durability=durability_of(settings),
            settings=settings,
            warnings=warnings,
        )

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        name = self._tenant.name
        size = await self._storage.read_once(lambda connection: count_bytes(connection, name))
        return MeasureResponse(bytes=size, entries_read=self._runs.entries_read)

    async def plan_migration(self, request: PlanMigrationRequest) -> PlanMigrationResponse:
        found = await self._storage.examine(look)
        steps = plan(found.revision, self._storage.schema, request.target)
        return PlanMigrationResponse(
            steps=[step.sentence for step in steps],
            advice=ADVICE if steps else (),
            sql=script(steps, self._storage.schema) if request.sql else "",
        )

    async def migrate(self, request: MigrateRequest) -> MigrateResponse:
        try:
            applied = await migrate(self._storage.examine, request.target)
        finally:
            self._storage.look_again()
        if (await self._storage.examine(look)).state is State.CURRENT:
            await make_trigrams(self._storage)
        return MigrateResponse(applied=applied)

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        freed, more = await sweep(self._tenant, self._retention, request.at, request.budget)
        return SweepResponse(freed=freed, more=more)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        checked, problems = await verify(self._tenant)
        return VerifyResponse(checked=checked, problems=problems)

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        embedder = to_reembed_with(self._embedder)
        embedded, done = await reembed(self._tenant, embedder, request.limit)
        return ReembedResponse(embedded=embedded, done=done)

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        last = last_name(request.cursor)
        names = await self._storage.read_once(
            lambda connection: list_tenants(connection, last, request.limit + 1)
        )
        page, position = names_page(names, request.limit)
        return ListTenantsResponse(tenants=page, next_cursor=position)

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        erased = await self._storage.write(lambda connection: erase(connection, request.tenant))
        return EraseTenantResponse(erased=erased)
