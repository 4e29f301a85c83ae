"""Export and import of notes in files."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from stores_core.limits import page_length
from stores_core.moving import (
    EmbedderInfo,
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ImportMemoriesRequest,
    MemoryRecord,
)
from stores_core.notes import Note
from stores_files import namespaces
from stores_files.embedding import Line
from stores_files.note_folders import NoteFolder, put_line
from stores_files.notes_state import change_state, raise_floor, read_state
from stores_files.places import Place
from stores_files.storage import Tenant


def export_memories(
    place: Place, tenant: Tenant, request: ExportMemoriesRequest
) -> ExportMemoriesResponse:
    """A page of notes, by namespace and then in listing order."""
    state, names = read_state(place), namespaces.names(place)
    records, sizes = list[MemoryRecord](), list[int]()
    last: Note | None = None
    position = ""
    for name, notes, note in _from(place, tenant, names, request.cursor):
        sizes.append(note.size)
        if len(records) == request.limit or page_length(sizes) < len(sizes):
            if last is not None:
                position = f"{last.place[0]}:{last.place[1]}:{records[-1].namespace}"
            break
        data = None
        if state.embedder is not None:
            vector = notes.vectors.table(state.embedder).get(note.item.key)
            data = None if vector is None else vector.astype("<f4").tobytes()
        records.append(MemoryRecord(namespace=name, item=note.stored(), vector=data))
        last = note
    floors = [tenant.answers.ask(place, name, "floor", lambda notes: notes.floor) for name in names]
    return ExportMemoriesResponse(
        memories=records,
        embedder=state.embedder,
        version_floor=max(state.floor, *(floor or 0 for floor in floors), 0),
        next_cursor=position,
    )


def _from(
    place: Place, tenant: Tenant, names: Sequence[str], position: str
) -> Iterator[tuple[str, NoteFolder, Note]]:
    """Notes behind a position, each namespace as it stands at one moment."""
    created, _, rest = position.partition(":")
    arrival, _, begun = rest.partition(":")
    for name in names:
        if position and name < begun:
            continue
        after = (int(created), int(arrival)) if position and name == begun else None
        with tenant.namespaces.entered(place, name) as notes:
            if notes is not None:
                for note in notes.notes.after(after):
                    yield name, notes, note


def import_memories(place: Place, tenant: Tenant, request: ImportMemoriesRequest) -> int:
    """Keep notes with times, versions and vectors; how many were kept."""
    raise_floor(place, tenant, request.version_floor)
    embedder = request.embedder
    if embedder is not None and any(record.vector for record in request.memories):
        change_state(
            place, tenant, lambda state: state if state.embedder else state.admitting(embedder)
        )
    in_use = embedder if embedder == read_state(place).embedder else None
    imported = 0
    for namespace, group in groupby(request.memories, key=lambda record: record.namespace):
        records = {record.item.key: record for record in group}

        def lines_for(
            notes: NoteFolder, records: dict[str, MemoryRecord] = records
        ) -> Sequence[Line]:
            nonlocal fresh
            fresh = [record for record in records.values() if _is_news(notes, record)]
            return _lines(notes, fresh, in_use)

        fresh = list[MemoryRecord]()
        at = max(record.item.updated_at for record in records.values())
        namespaces.write(place, tenant, namespace, at, lines_for)
        imported += len(fresh)
    return imported


def _is_news(notes: NoteFolder, record: MemoryRecord) -> bool:
    standing = notes.notes.notes.get(record.item.key)
    return standing is None or standing.item.version < record.item.version


def _lines(
    notes: NoteFolder, records: Sequence[MemoryRecord], embedder: EmbedderInfo | None
) -> list[Line]:
    arrival, lines = notes.notes.arrivals, list[Line]()
    for record in records:
        standing = notes.notes.notes.get(record.item.key)
        place = arrival if standing is None else standing.place[1]
        lines.append(put_line(record.item, record.item.metadata, place))
        arrival += standing is None
    if embedder is not None:
        with_vector = [record for record in records if record.vector is not None]
        named = [(record.item.key, record.item.version) for record in with_vector]
        vectors = [np.frombuffer(record.vector or b"", "<f4") for record in with_vector]
        lines += notes.vectors.write(embedder, named, vectors)
    return lines
