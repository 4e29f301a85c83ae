"""Opening storages in memory."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import unquote

from stores_core.backend import Backend
from stores_core.capabilities import Capability, Durability
from stores_core.embedding import Embedder, NoteEmbedder
from stores_core.in_memory.admin import InMemoryAdmin
from stores_core.in_memory.memory import InMemoryMemoryStore
from stores_core.in_memory.moving import InMemoryMoving
from stores_core.in_memory.runs import InMemoryRunStore
from stores_core.in_memory.storage import Storage
from stores_core.in_memory.tool_results import InMemoryToolResultStore
from stores_core.retention import Retention
from stores_core.values import Clock

_named: dict[str, Storage] = {}


@asynccontextmanager
async def open_memory(
    url: str = "memory:",
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    notes_per_namespace: int = 0,
    result_max_age: float = 0,
    result_max_count: int = 0,
    result_max_bytes: int = 0,
) -> AsyncGenerator[Backend]:
    """Open ``memory:``, a storage of its own, or ``memory:NAME``, one that this process shares.

    ``notes_per_namespace`` caps the notes, ``result_max_age`` (seconds), ``result_max_count`` and
    ``result_max_bytes`` the tool results; 0 is no cap. A named storage lasts as long as the
    process. What is kept here works from any event loop and thread.
    """
    name = unquote(url.partition(":")[2])
    storage = _named.setdefault(name, Storage()) if name else Storage()
    held = storage.tenant(tenant)
    embeds = None if embedder is None else NoteEmbedder(embedder)
    retention = Retention(result_max_age, result_max_count, result_max_bytes)
    runs = InMemoryRunStore(held)
    yield Backend(
        name="memory",
        runs=runs,
        memory=InMemoryMemoryStore(held, embeds, notes_per_namespace),
        tool_results=InMemoryToolResultStore(held, retention),
        admin=InMemoryAdmin(storage, held, runs, embeds, retention),
        moving=InMemoryMoving(held),
        capabilities=frozenset({Capability.EMBEDDINGS, Capability.MOVABLE}),
        durability=Durability.NONE,
        identity=f"{storage.identity}\0{tenant}",
        loop_bound=False,
    )
