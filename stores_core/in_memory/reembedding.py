"""Vectors for notes that lack one: put by a client without an embedder, or with another."""

from collections.abc import Sequence
from itertools import islice

from stores_core.embedding import NoteEmbedder
from stores_core.in_memory.storage import Tenant
from stores_core.memory import StoredMemory
from stores_core.moving import EmbedderInfo

Placed = tuple[str, StoredMemory]
"""A note with its namespace."""


def without_vector(
    tenant: Tenant, embedder: EmbedderInfo, namespace: str | None = None, limit: int | None = None
) -> list[Placed]:
    """Notes that have no vector of this embedder, of one namespace or of all. The lock is held."""
    names = list(tenant.namespaces) if namespace is None else [namespace]
    missing = (
        (name, note.item)
        for name in names
        if _lacks_some(tenant, embedder, name)
        for key, note in tenant.namespaces[name].notes.items()
        if key not in tenant.vectors.table(embedder, name)
    )
    return list(islice(missing, limit))


def _lacks_some(tenant: Tenant, embedder: EmbedderInfo, namespace: str) -> bool:
    held = tenant.namespaces.get(namespace)
    return bool(held) and len(held.notes) > len(tenant.vectors.table(embedder, namespace))


async def embed_into(tenant: Tenant, embedder: NoteEmbedder, notes: Sequence[Placed]) -> int:
    """Embed notes outside the lock and keep each vector whose note is still that version."""
    vectors = await embedder.notes([item for _, item in notes])
    kept = 0
    with tenant.lock:
        if tenant.vectors.active is None:
            tenant.vectors.active = embedder.info
        for (namespace, item), vector in zip(notes, vectors, strict=True):
            standing = tenant.namespaces.get(namespace)
            note = standing.notes.get(item.key) if standing else None
            if note is not None and note.item.version == item.version:
                tenant.vectors.table(embedder.info, namespace).put(item.key, vector)
                kept += 1
    return kept


async def reembed(tenant: Tenant, embedder: NoteEmbedder, limit: int) -> tuple[int, bool]:
    """Embed up to ``limit`` notes and take over once none lacks a vector: how many, and whether."""
    with tenant.lock:
        missing = without_vector(tenant, embedder.info, limit=limit)
    embedded = await embed_into(tenant, embedder, missing)
    with tenant.lock:
        done = not without_vector(tenant, embedder.info, limit=1)
        if done:
            tenant.vectors.activate(embedder.info)
    return embedded, done
