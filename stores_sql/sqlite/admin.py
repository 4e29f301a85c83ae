"""The operator's seam in SQLite."""

import sqlite3
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
from stores_core.embedding import NoteEmbedder, to_reembed_with
from stores_core.pages import last_name, names_page
from stores_core.retention import Retention
from stores_sql.sqlite.reembedding import reembed
from stores_sql.sqlite.runs import SqliteRunStore
from stores_sql.sqlite.statements import Connection
from stores_sql.sqlite.storage import Tenant
from stores_sql.sqlite.sweeping import sweep
from stores_sql.sqlite.tenants import count_bytes, erase, list_tenants
from stores_sql.sqlite.verifying import verify
from stores_sql.sqlite.versions import (
    ADVICE,
    CODE,
    migrate,
    plan,
    revision_of,
    sql,
    state_of,
)

SWEPT_AT_ONCE = 1_000
"""A sweep writes in pieces of this size, so that others write between them."""

_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class SqliteAdmin:
    """Answers for one file, as the client of one tenant."""

    def __init__(
        self,
        tenant: Tenant,
        runs: SqliteRunStore,
        embedder: NoteEmbedder | None,
        retention: Retention,
    ) -> None:
        self._tenant = tenant
        self._storage = tenant.storage
        self._runs = runs
        self._embedder = embedder
        self._retention = retention

    async def check(self, request: CheckRequest) -> CheckResponse:
        # Asked of the writer: these settings belong to a connection.
        settings, found, state = await self._storage.maintain(
            lambda connection: (
                _settings(connection),
                revision_of(connection),
                state_of(connection),
            )
        )
        warnings: list[str] = []
        safe = settings["synchronous"] in ("FULL", "EXTRA") and settings["journal_mode"] == "wal"
        if not safe:
            warnings.append(
                "a crash of the machine can lose what was acknowledged; "
                'open with durability="disk" to have it survive'
            )
        mode = self._storage.path.stat().st_mode & 0o777
        if mode & 0o077:
            warnings.append(
                f"the database file is open to other users (mode {mode:04o}); chmod 600 it and "
                "the files beside it"
            )
        return CheckResponse(
            versions={"sqlite": sqlite3.sqlite_version, "format": f"{found} (code: {CODE})"},
            schema_state=state,
            durability=Durability.DISK if safe else Durability.CLIENT,
            settings=settings,
            warnings=warnings,
        )

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        size = await self._tenant.read(count_bytes)
        return MeasureResponse(bytes=size, entries_read=self._runs.entries_read)

    async def plan_migration(self, request: PlanMigrationRequest) -> PlanMigrationResponse:
        steps = plan(await self._storage.examine(revision_of), request.target)
        return PlanMigrationResponse(
            steps=[step.sentence for step in steps],
            advice=ADVICE if steps else (),
            sql=sql(steps) if request.sql else "",
        )

    async def migrate(self, request: MigrateRequest) -> MigrateResponse:
        applied = await self._storage.maintain(partial(migrate, target=request.target))
        return MigrateResponse(applied=applied)

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        freed: dict[str, int] = {}
        budget, more = request.budget, True
        while budget > 0 and more:
            piece = min(budget, SWEPT_AT_ONCE)
            work = partial(_sweep, retention=self._retention, request=request, budget=piece)
            some, more = await self._tenant.write(work)
            for kind, count in some.items():
                freed[kind] = freed.get(kind, 0) + count
            budget -= piece
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
        names = await self._storage.read(
            lambda connection: list_tenants(connection, last, request.limit + 1)
        )
        page, position = names_page(names, request.limit)
        return ListTenantsResponse(tenants=page, next_cursor=position)

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        erased = await self._storage.write(lambda connection: erase(connection, request.tenant))
        return EraseTenantResponse(erased=erased)


def _sweep(
    connection: Connection,
    tenant: int,
    *,
    retention: Retention,
    request: SweepRequest,
    budget: int,
) -> tuple[dict[str, int], bool]:
    return sweep(connection, tenant, retention, request.at, budget)


def _settings(connection: Connection) -> dict[str, str]:
    found = {
        name: str(connection.execute(text).fetchone()[0])
        for name, text in (
            ("journal_mode", "PRAGMA journal_mode"),
            ("synchronous", "PRAGMA synchronous"),
            ("page_size", "PRAGMA page_size"),
            ("wal_autocheckpoint", "PRAGMA wal_autocheckpoint"),
        )
    }
    found["synchronous"] = _SYNCHRONOUS.get(int(found["synchronous"]), found["synchronous"])
    return found
