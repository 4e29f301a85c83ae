"""Opening a SQLite file."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import unquote

from stores_core.backend import Backend
from stores_core.capabilities import Capability, Durability
from stores_core.embedding import Embedder, NoteEmbedder
from stores_core.retention import Retention
from stores_core.values import Clock
from stores_sql.sqlite.admin import SqliteAdmin
from stores_sql.sqlite.memory import SqliteMemoryStore
from stores_sql.sqlite.moving import SqliteMoving
from stores_sql.sqlite.runs import SqliteRunStore
from stores_sql.sqlite.storage import Storage, Tenant
from stores_sql.sqlite.tool_results import SqliteToolResultStore

BUSY_TIMEOUT = 5.0


@asynccontextmanager
async def open_sqlite(
    url: str,
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    create: bool = True,
    durability: Literal["disk", "client"] = "disk",
    busy_timeout: float = BUSY_TIMEOUT,
    notes_per_namespace: int = 0,
    result_max_age: float = 0,
    result_max_count: int = 0,
    result_max_bytes: int = 0,
) -> AsyncGenerator[Backend]:
    """Open ``sqlite:PATH``; ``create`` makes the file if there is none, its folder must be there.

    ``durability`` is "disk", where each commit is on the disk before it is acknowledged, or
    "client", which is faster and survives our process but not the machine. ``busy_timeout`` is how
    many seconds a write waits for other processes. The other options are those of ``memory:``.
    """
    storage = await Storage.open(
        unquote(url.partition(":")[2]),
        busy_timeout=busy_timeout,
        synchronous="full" if durability == "disk" else "normal",
        create=create,
    )
    try:
        held = Tenant(storage, tenant)
        embeds = None if embedder is None else NoteEmbedder(embedder)
        retention = Retention(result_max_age, result_max_count, result_max_bytes)
        runs = SqliteRunStore(held)
        yield Backend(
            name="sqlite",
            runs=runs,
            memory=SqliteMemoryStore(held, embeds, notes_per_namespace),
            tool_results=SqliteToolResultStore(held, retention),
            admin=SqliteAdmin(held, runs, embeds, retention),
            moving=SqliteMoving(held),
            capabilities=frozenset({Capability.SHARED, Capability.EMBEDDINGS, Capability.MOVABLE}),
            durability=Durability.DISK if durability == "disk" else Durability.CLIENT,
            identity=f"{storage.identity}\0{tenant}",
        )
    finally:
        await storage.close()
