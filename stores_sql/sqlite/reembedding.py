"""Vectors for notes that lack one: put by a client without an embedder, or with another."""

from collections.abc import Sequence

from stores_core.embedding import NoteEmbedder, Vector
from stores_core.memory import StoredMemory
from stores_core.moving import EmbedderInfo
from stores_sql.sqlite.embedding import (
    LACKING,
    LACKING_IN,
    active,
    enter_embedder,
    find_embedder,
    put_vector,
    set_active,
    take_over,
)
from stores_sql.sqlite.notes import Namespace, find, find_namespace, note_at
from stores_sql.sqlite.statements import Connection
from stores_sql.sqlite.storage import Tenant

Placed = tuple[str, StoredMemory]
"""A note with its namespace."""


def lacking_in(
    connection: Connection, name: str, namespace: Namespace, embedder: int, limit: int
) -> list[Placed]:
    """Notes of one namespace that have no vector of this embedder, up to ``limit``."""
    rows = LACKING_IN.all(connection, namespace=namespace.number, embedder=embedder, most=limit)
    return [(name, note_at(connection, number).stored()) for (number,) in rows]


def _lacking(connection: Connection, tenant: int, info: EmbedderInfo, limit: int) -> list[Placed]:
    embedder = find_embedder(connection, tenant, info)
    rows = LACKING.all(connection, tenant=tenant, embedder=embedder, most=limit)
    return [(name, note_at(connection, number).stored()) for name, number in rows]


async def embed_into(tenant: Tenant, embedder: NoteEmbedder, notes: Sequence[Placed]) -> int:
    """Embed notes outside of transactions and keep each vector whose note is still that version."""
    vectors = await embedder.notes([item for _, item in notes])
    if not notes:
        return 0
    return await tenant.write(
        lambda connection, number: _keep(connection, number, embedder.info, notes, vectors)
    )


def _keep(
    connection: Connection,
    tenant: int,
    info: EmbedderInfo,
    notes: Sequence[Placed],
    vectors: Sequence[Vector],
) -> int:
    embedder, kept = enter_embedder(connection, tenant, info), 0
    if active(connection, tenant) is None:
        set_active(connection, tenant, embedder)
    for (name, item), vector in zip(notes, vectors, strict=True):
        namespace = find_namespace(connection, tenant, name)
        note = find(connection, namespace, item.key)
        if namespace is not None and note is not None and note.version == item.version:
            put_vector(connection, namespace, embedder, note.number, vector)
            namespace.save(connection)
            kept += 1
    return kept


async def reembed(tenant: Tenant, embedder: NoteEmbedder, limit: int) -> tuple[int, bool]:
    """Embed up to ``limit`` notes and take over once none lacks a vector: how many, and whether."""
    info = embedder.info
    lacking = await tenant.read(
        lambda connection, number: _lacking(connection, number, info, limit)
    )
    embedded = await embed_into(tenant, embedder, lacking)

    def finish(connection: Connection, number: int) -> bool:
        if _lacking(connection, number, info, 1):
            return False
        take_over(connection, number, enter_embedder(connection, number, info))
        return True

    return embedded, await tenant.write(finish)
