"""Opening a folder."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import unquote

from stores_core.backend import Backend
from stores_core.capabilities import Capability, Durability
from stores_core.embedding import Embedder, NoteEmbedder
from stores_core.retention import Retention
from stores_core.values import Clock
from stores_files.admin import FileAdmin
from stores_files.disk import Disk, UnsyncedDisk
from stores_files.memory import FileMemoryStore
from stores_files.moving import FileMoving
from stores_files.runs import FileRunStore
from stores_files.storage import LOCK_TIMEOUT, Storage, Tenant
from stores_files.tool_results import FileToolResultStore


@asynccontextmanager
async def open_files(
    url: str,
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    create: bool = True,
    durability: Literal["disk", "client"] = "disk",
    lock_timeout: float = LOCK_TIMEOUT,
    notes_per_namespace: int = 0,
    result_max_age: float = 0,
    result_max_count: int = 0,
    result_max_bytes: int = 0,
) -> AsyncGenerator[Backend]:
    """Open ``file:PATH``, a folder that ``create`` makes if there is none; the one above must be
    there.

    ``durability`` is "disk", where each write is on the disk before it is acknowledged, or
    "client", which is faster and survives our process but not the machine. ``lock_timeout`` is how
    many seconds an operation waits for others on the same run. The other options are those of
    ``memory:``.
    """
    disk = Disk() if durability == "disk" else UnsyncedDisk()
    storage = await Storage.open(
        unquote(url.partition(":")[2]), disk, lock_timeout=lock_timeout, create=create
    )
    held = Tenant(storage, tenant)
    try:
        level = Durability.DISK if durability == "disk" else Durability.CLIENT
        embeds = None if embedder is None else NoteEmbedder(embedder)
        retention = Retention(result_max_age, result_max_count, result_max_bytes)
        runs = FileRunStore(held)
        yield Backend(
            name="files",
            runs=runs,
            memory=FileMemoryStore(held, embeds, notes_per_namespace),
            tool_results=FileToolResultStore(held, retention),
            admin=FileAdmin(held, runs, embeds, level, retention),
            moving=FileMoving(held),
            capabilities=frozenset({Capability.SHARED, Capability.EMBEDDINGS, Capability.MOVABLE}),
            durability=level,
            identity=f"{storage.identity}\0{tenant}",
        )
    finally:
        await storage.close()
        held.close()
