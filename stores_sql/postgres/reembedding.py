"""Vectors for notes that lack one: put by a client without an embedder, or with another."""

from collections.abc import Sequence

from stores_core.embedding import NoteEmbedder, Vector
from stores_sql.postgres.embedding import (
    Lacking,
    active,
    enter_embedder,
    find_embedder,
    forget_some,
    hold_tenant,
    keep_vectors,
    lacking,
    others,
    set_active,
    take_over,
)
from stores_sql.postgres.statements import Connection
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.vector_indexes import drop_indexes, make_index

_TRIES = 10
"""So often a re-embedding tries to catch a moment in which no note lacks a vector."""


async def embed_into(tenant: Tenant, embedder: NoteEmbedder, found: Sequence[Lacking]) -> int:
    """Embed notes outside of transactions and keep each vector whose note is still that version."""
    vectors = await embedder.notes([lack.note.stored() for lack in found])
    if not found:
        return 0
    return await tenant.write(
        lambda connection, number: _keep(connection, tenant, number, embedder, found, vectors)
    )


async def _keep(
    connection: Connection,
    tenant: Tenant,
    number: int,
    embedder: NoteEmbedder,
    found: Sequence[Lacking],
    vectors: Sequence[Vector],
) -> int:
    generation = await enter_embedder(connection, number, embedder.info)
    if await active(connection, tenant.name) is None:
        await set_active(connection, number, generation)
    return await keep_vectors(connection, number, generation, found, vectors)


async def reembed(tenant: Tenant, embedder: NoteEmbedder, limit: int) -> tuple[int, bool]:
    """Embed up to ``limit`` notes and take over once none lacks a vector: how many, and whether."""
    embedded = await embed_into(tenant, embedder, await _lacking_of(tenant, embedder, limit))
    if embedded == limit and await _lacking_of(tenant, embedder, 1):
        return embedded, False
    generation = await tenant.write(
        lambda connection, number: enter_embedder(connection, number, embedder.info)
    )
    await make_index(tenant.storage, tenant.name, embedder.info, generation)
    for _ in range(_TRIES):
        # What others have put meanwhile comes along, if that is little enough.
        few = await _lacking_of(tenant, embedder, limit - embedded + 1)
        if len(few) > limit - embedded:
            break
        kept, done = await _finish(tenant, embedder, few)
        embedded += kept
        if done:
            await _forget_others(tenant, embedder)
            await drop_indexes(tenant.storage)
            return embedded, True
    return embedded, False


async def _lacking_of(tenant: Tenant, embedder: NoteEmbedder, most: int) -> list[Lacking]:
    async def look(connection: Connection, _: int) -> list[Lacking]:
        generation = await find_embedder(connection, tenant.name, embedder.info)
        return await lacking(connection, tenant.name, generation, most)

    return await tenant.read(look)


async def _finish(
    tenant: Tenant, embedder: NoteEmbedder, few: Sequence[Lacking]
) -> tuple[int, bool]:
    """Keep the last vectors and take over, unless somebody put a note in this moment."""
    vectors = await embedder.notes([lack.note.stored() for lack in few])

    async def work(connection: Connection, number: int) -> tuple[int, bool]:
        await hold_tenant(connection, number)
        kept = 0
        if few:
            kept = await _keep(connection, tenant, number, embedder, few, vectors)
        generation = await enter_embedder(connection, number, embedder.info)
        if await lacking(connection, tenant.name, generation, 1):
            return kept, False
        if await active(connection, tenant.name) != embedder.info:
            await take_over(connection, number, generation)
        return kept, True

    return await tenant.write(work)


async def _forget_others(tenant: Tenant, embedder: NoteEmbedder) -> None:
    """Remove the vectors of earlier embedders, in pieces, so that nobody waits for long."""

    async def forget(connection: Connection, number: int) -> bool:
        generation = await enter_embedder(connection, number, embedder.info)
        for other in await others(connection, number, generation):
            await forget_some(connection, number, other)
            return True
        return False

    while await tenant.write(forget):
        pass
