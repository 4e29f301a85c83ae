"""The operator's seam in files."""

import sys

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
from stores_files import links
from stores_files.failures import nothing_applied, perhaps_applied
from stores_files.note_verifying import verify_notes
from stores_files.reembedding import reembed
from stores_files.result_verifying import verify_results
from stores_files.runs import FileRunStore
from stores_files.storage import Tenant
from stores_files.sweeping import sweep
from stores_files.tenants import count_bytes, erase, list_tenants
from stores_files.verifying import Findings, verify_runs
from stores_files.versions import ADVICE, CODE, plan

_MEMORY = {"tmpfs", "ramfs"}


class FileAdmin:
    """Answers for one folder, as the client of one tenant."""

    def __init__(
        self,
        tenant: Tenant,
        runs: FileRunStore,
        embedder: NoteEmbedder | None,
        durability: Durability,
        retention: Retention,
    ) -> None:
        self._tenant = tenant
        self._storage = tenant.storage
        self._runs = runs
        self._embedder = embedder
        self._durability = durability
        self._retention = retention

    async def check(self, request: CheckRequest) -> CheckResponse:
        found, kind = self._storage.marker, self._storage.file_system
        warnings: list[str] = []
        if self._durability is not Durability.DISK:
            warnings.append(
                "a crash of the machine can lose what was acknowledged; "
                'open with durability="disk" to have it survive'
            )
        if kind in _MEMORY:
            warnings.append(f"the folder is on {kind}, which is memory: it ends with the machine")
        mode, gives_links = await self._storage.run(self._looked_at)
        settings = {"file_system": kind} if kind else {}
        if gives_links is not None:
            settings["hard_links"] = "yes" if gives_links else "no"
        if gives_links is False:
            warnings.append(
                "the disk gives no file a second name (hard links), so each fork copies what it "
                "reads and equal results are stored more than once"
            )
        if mode & 0o077:
            warnings.append(f"the folder is open to other users (mode {mode:04o}); chmod 700 it")
        return CheckResponse(
            versions={"format": f"{found.revision} (code: {CODE})", "system": sys.platform},
            schema_state=found.state,
            durability=self._durability,
            settings=settings,
            warnings=warnings,
        )

    def _looked_at(self) -> tuple[int, bool | None]:
        """The folder's mode, and whether files have second names; None where none can be made."""
        disk, root = self._storage.disk, self._storage.root
        with nothing_applied():
            mode = disk.mode(root)
        try:
            return mode, links.are_given(disk, root)
        except OSError:
            return mode, None

    async def measure(self, request: MeasureRequest) -> MeasureResponse:
        size = await self._tenant.read(count_bytes, 0)
        return MeasureResponse(bytes=size, entries_read=self._runs.entries_read)

    async def plan_migration(self, request: PlanMigrationRequest) -> PlanMigrationResponse:
        steps = plan(self._storage.marker, request.target)
        return PlanMigrationResponse(
            steps=[step.sentence for step in steps], advice=ADVICE if steps else ()
        )

    async def migrate(self, request: MigrateRequest) -> MigrateResponse:
        def work() -> list[str]:
            with nothing_applied():
                applied = self._storage.migrate(request.target)
            self._tenant.renew()
            return applied

        return MigrateResponse(applied=await self._storage.run(work))

    async def sweep(self, request: SweepRequest) -> SweepResponse:
        def work() -> tuple[dict[str, int], bool]:
            with nothing_applied():
                return sweep(self._tenant, self._retention, request.at, request.budget)

        freed, more = await self._storage.run(work)
        return SweepResponse(freed=freed, more=more)

    async def verify(self, request: VerifyRequest) -> VerifyResponse:
        def work() -> Findings:
            findings = Findings()
            with nothing_applied():
                verify_runs(self._tenant, findings)
                verify_notes(self._tenant, findings)
                verify_results(self._tenant, findings)
            return findings

        found = await self._storage.run(work)
        return VerifyResponse(checked=found.checked, problems=found.problems)

    async def reembed(self, request: ReembedRequest) -> ReembedResponse:
        embedder = to_reembed_with(self._embedder)
        embedded, done = await reembed(self._tenant, embedder, request.limit)
        return ReembedResponse(embedded=embedded, done=done)

    async def list_tenants(self, request: ListTenantsRequest) -> ListTenantsResponse:
        last = last_name(request.cursor)

        def work() -> list[str]:
            with nothing_applied():
                return list_tenants(self._storage, last, request.limit + 1)

        names = await self._storage.run(work)
        page, position = names_page(names, request.limit)
        return ListTenantsResponse(tenants=page, next_cursor=position)

    async def erase_tenant(self, request: EraseTenantRequest) -> EraseTenantResponse:
        def work() -> bool:
            with perhaps_applied():
                return erase(self._storage, request.tenant)

        return EraseTenantResponse(erased=await self._storage.run(work))
