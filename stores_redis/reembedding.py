"""Vectors for notes that lack one: put by a client without an embedder, or with another."""

from collections.abc import Sequence
from contextlib import aclosing

from stores_core.embedding import NoteEmbedder, Vector
from stores_redis.embedder_records import change_record
from stores_redis.generations import info_text
from stores_redis.keys import Bucket
from stores_redis.namespaces import namespaces_of
from stores_redis.note_batches import run_settled, settle
from stores_redis.note_reading import PIECE_BYTES, NoteReader
from stores_redis.notes import Note, vector_text
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.vector_indexes import VectorIndexes

_LACKING = Script("notes_lacking")
_EMBED = Script("notes_embed")
_TAKE_OVER = Script("embedder_take_over")

_LOOKED_AT = 1_000


async def lacking(notes: NoteReader, namespace: str, generation: str, limit: int) -> list[Note]:
    """Up to ``limit`` notes of one namespace that have no vector of a generation."""
    bucket = notes.tenant.home(namespace)
    keys = (
        bucket.note_changes(namespace),
        bucket.notes(namespace),
        bucket.vectors(namespace, generation),
    )
    found: list[Note] = []
    position = b"0"
    while position and len(found) < limit:
        most = min(limit - len(found), UNPACKED)
        args = (position, most, _LOOKED_AT, PIECE_BYTES)
        reply = await run_settled(
            notes.tenant, notes.generations, namespace, _LACKING, keys, args, writes=False
        )
        position = reply[0]
        records = [
            Note.read(key, record) for key, record in zip(reply[1::2], reply[2::2], strict=True)
        ]
        found += await notes.fill(namespace, records)
    return found


async def embed_into(
    notes: NoteReader, embedder: NoteEmbedder, namespace: str, lacking: Sequence[Note]
) -> int:
    """Embed notes and keep each vector whose note is still of that version; how many."""
    vectors = await embedder.notes([note.stored() for note in lacking])
    kept, pairs = 0, list(zip(lacking, vectors, strict=True))
    while pairs:
        most = max(1, min(UNPACKED, PIECE_BYTES // (4 * embedder.info.dimensions)))
        kept += await _keep(notes, embedder, namespace, pairs[:most])
        pairs = pairs[most:]
    return kept


async def _keep(
    notes: NoteReader, embedder: NoteEmbedder, namespace: str, pairs: Sequence[tuple[Note, Vector]]
) -> int:
    bucket = notes.tenant.home(namespace)
    given: list[Arg] = []
    for note, vector in pairs:
        given += note.key, note.id, vector_text(vector, note.metadata())
    while True:
        generation = notes.generations.of(bucket, embedder.info)
        keys = (
            bucket.memory(),
            bucket.notes(namespace),
            bucket.note_changes(namespace),
            bucket.note_state(namespace),
            bucket.vectors(namespace, generation),
        )
        known = notes.generations.known(bucket)
        args = (generation, info_text(embedder.info), known, *given)
        reply = await run_settled(
            notes.tenant, notes.generations, namespace, _EMBED, keys, args, writes=True
        )
        if reply[0] == b"ok":
            if generation not in known.split():
                notes.generations.learn(bucket, f"{known} {generation}".strip().encode())
            return int(reply[1])
        notes.generations.learn(bucket, reply[1])


async def reembed(notes: NoteReader, embedder: NoteEmbedder, limit: int) -> tuple[int, bool]:
    """Embed up to ``limit`` notes and take over once none lacks a vector: how many, and whether.

    Each bucket takes over in one step of its own. After that up to ``limit`` vectors are added to
    the sets of large namespaces, and it is done when these are complete.
    """
    kept, done = 0, True
    for bucket in notes.tenant.buckets:
        some, over = await _reembed_bucket(notes, bucket, embedder, limit - kept)
        kept, done = kept + some, done and over
    if done and notes.tenant.is_spread:
        await change_record(notes.tenant, embedder.info)
    return kept, done


async def _reembed_bucket(
    notes: NoteReader, bucket: Bucket, embedder: NoteEmbedder, limit: int
) -> tuple[int, bool]:
    generations = notes.generations
    await notes.active_in(bucket)
    kept = 0
    looked_at = 0
    async with aclosing(namespaces_of(notes.tenant, bucket)) as all_namespaces:
        async for namespace in all_namespaces:
            if looked_at >= limit:
                break
            generation = generations.of(bucket, embedder.info)
            some = await lacking(notes, namespace, generation, limit - looked_at)
            looked_at += len(some)
            kept += await embed_into(notes, embedder, namespace, some)
    while True:
        generation, known = generations.of(bucket, embedder.info), generations.known(bucket)
        args = (generation, info_text(embedder.info), known)
        keys = bucket.memory(), bucket.pending_notes()
        reply = await notes.tenant.run(_TAKE_OVER, keys, args, writes=True)
        if reply[0] == b"pending":
            for waiting in reply[1:]:
                await settle(notes.tenant, generations, waiting.decode())
            continue
        if reply[0] == b"lacking":
            return kept, False
        if reply[0] == b"done":
            generations.learn(bucket, generation.encode())
            await free_retired(notes, bucket, reply[1].decode().split())
            return kept, await _index(notes, bucket, embedder, limit)
        generations.learn(bucket, reply[1])


async def _index(notes: NoteReader, bucket: Bucket, embedder: NoteEmbedder, limit: int) -> bool:
    """Bring the vector sets of large namespaces up to date; whether all of them are."""
    indexes = VectorIndexes(notes.tenant, notes.generations)
    if not indexes.are_there:
        return True
    async with aclosing(indexes.large(bucket, embedder.info)) as all_large:
        async for namespace in all_large:
            added, more = await indexes.catch_up(namespace, embedder.info, limit, begin=True)
            limit -= added
            if more:
                return False
    return True


async def free_retired(notes: NoteReader, bucket: Bucket, retired: Sequence[str]) -> int:
    """Free the vectors of generations that were given up; of how many namespaces and generations.

    Repeated after a cut, it goes on.
    """
    freed = 0
    async for namespace in namespaces_of(notes.tenant, bucket):
        keys = [key for generation in retired for key in bucket.vector_keys(namespace, generation)]
        if keys:
            [count] = await notes.tenant.write_many([("UNLINK", *keys)])
            freed += count
    if retired:
        await notes.tenant.write_many([("HDEL", bucket.memory(), "retired")])
    return freed
