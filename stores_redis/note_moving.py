"""Export and import of notes."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby

import numpy as np

from stores_core.embedding import Vector
from stores_core.errors import InvalidRequestError
from stores_core.limits import PAGE_BYTES
from stores_core.moving import (
    EmbedderInfo,
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ImportMemoriesRequest,
    ImportMemoriesResponse,
    MemoryRecord,
)
from stores_core.values import micros
from stores_redis.generations import Generations, info_of
from stores_redis.namespaces import all_namespaces
from stores_redis.note_reading import PIECE_BYTES, NoteReader
from stores_redis.notes import Note
from stores_redis.outgoing import NewNote
from stores_redis.putting import NoteWriter
from stores_redis.scripts import Script
from stores_redis.storage import Tenant

MOST_VERSION = 2**53
"""Scripts count in doubles, which hold no higher number exactly."""

_FLOOR = Script("memory_floor")


class NoteMoving:
    """Exports and imports the notes of one tenant."""

    def __init__(self, tenant: Tenant, generations: Generations) -> None:
        self._reader = NoteReader(tenant, generations)
        self._writer = NoteWriter(tenant, generations)

    async def export_memories(self, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
        """A page of notes by namespace, then in listing order."""
        embedder, floor = await _embedder(self._reader), 0
        start, after = _start_of(request.cursor)
        records: list[MemoryRecord] = []
        size, position, last = 0, "", ""
        notes = _from(self._reader, embedder, start, after, request.limit)
        async with aclosing(notes) as all_notes:
            async for name, note, vector in all_notes:
                size += note.whole_size
                if len(records) == request.limit or (records and size > PAGE_BYTES):
                    position = last
                    break
                item = note.stored()
                records.append(MemoryRecord(namespace=name, item=item, vector=vector or None))
                last = f"{note.place.decode()}:{name}"
        for bucket in self._reader.tenant.buckets:
            floor = max(
                floor, int(await self._reader.tenant.read("HGET", bucket.memory(), "floor") or 0)
            )
        return ExportMemoriesResponse(
            memories=tuple(records), embedder=embedder, version_floor=floor, next_cursor=position
        )

    async def import_memories(self, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
        """Keep notes with their times and versions; each namespace's in one step."""
        for index, record in enumerate(request.memories):
            if record.item.version > MOST_VERSION:
                raise _too_high(f"memories[{index}].item.version")
        if request.version_floor > MOST_VERSION:
            raise _too_high("version_floor")
        if request.version_floor:
            for bucket in self._writer.tenant.buckets:
                args = (request.version_floor,)
                await self._writer.tenant.run(_FLOOR, [bucket.memory()], args, writes=True)
        imported = 0
        for name, group in groupby(request.memories, key=lambda record: record.namespace):
            new = [_new(record) for record in group]
            has_vectors = any(note.vector is not None for note in new)
            embedder = request.embedder if has_vectors else None
            put = await self._writer.put(name, new, embedder=embedder, strict=False)
            imported += sum(one.written for one in put)
        return ImportMemoriesResponse(imported=imported, kept=len(request.memories) - imported)


async def _embedder(notes: NoteReader) -> EmbedderInfo | None:
    """The embedder in use. Learns the generations of all buckets."""
    found: EmbedderInfo | None = None
    for bucket in notes.tenant.buckets:
        active = await notes.active_in(bucket)
        found = found or (info_of(active) if active else None)
    return found


async def _from(
    notes: NoteReader, embedder: EmbedderInfo | None, start: str, after: bytes, most: int
) -> AsyncGenerator[tuple[str, Note, bytes]]:
    """Namespace, note and vector of each note from a place on."""
    for_each = 4 * embedder.dimensions if embedder else 1
    step = max(1, min(most + 1, PIECE_BYTES // for_each))
    async for name in all_namespaces(notes.tenant, start):
        place, more = after if name == start else b"", True
        while more:
            bucket = notes.tenant.home(name)
            generation = notes.generations.of(bucket, embedder) if embedder else ""
            page, more = await notes.page_with_vectors(name, place, step, PAGE_BYTES, generation)
            for note, data in page:
                place = note.place
                yield name, note, data[:for_each]


def _start_of(position: str) -> tuple[str, bytes]:
    place, _, name = position.partition(":")
    return name, place.encode()


def _new(record: MemoryRecord) -> NewNote:
    item, vector = record.item, None
    if record.vector is not None:
        found: Vector = np.frombuffer(record.vector, dtype="<f4").astype(np.float32)
        vector = found
    return NewNote(
        item.key, item.value, item.metadata, micros(item.created_at), micros(item.updated_at),
        item.version, vector,
    )  # fmt: skip


def _too_high(field: str) -> InvalidRequestError:
    return InvalidRequestError(
        field=field, found="a higher version", allowed=f"up to {MOST_VERSION}"
    )
