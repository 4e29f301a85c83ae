"""Vectors for notes that lack one: put by a client without an embedder, or with another."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from stores_core.embedding import NoteEmbedder, Vector
from stores_core.memory import StoredMemory
from stores_core.moving import EmbedderInfo
from stores_files import namespaces
from stores_files.note_folders import NoteFolder
from stores_files.notes_state import change_state, read_state
from stores_files.places import Place
from stores_files.storage import Tenant

Placed = tuple[str, StoredMemory]
"""A note with its namespace."""


async def embed_into(tenant: Tenant, embedder: NoteEmbedder, notes: Sequence[Placed]) -> int:
    """Embed notes outside of locks and keep each vector whose note is still that version."""
    vectors = await embedder.notes([item for _, item in notes])
    if not notes:
        return 0
    keep = partial(_keep, tenant=tenant, info=embedder.info, notes=notes, vectors=vectors)
    kept = await tenant.write(keep)
    if kept is None:
        kept = await tenant.write(partial(keep, admit=True), alone=True)
    return kept or 0


def _keep(
    place: Place,
    *,
    tenant: Tenant,
    info: EmbedderInfo,
    notes: Sequence[Placed],
    vectors: Sequence[Vector],
    admit: bool = False,
) -> int | None:
    """How many vectors were kept. None where sweep would not keep vectors of this embedder."""
    if not admit and info not in read_state(place).embedders:
        return None
    kept, pairs = 0, zip(notes, vectors, strict=True)
    for namespace, group in groupby(pairs, key=lambda pair: pair[0][0]):
        with tenant.namespaces.entered(place, namespace, alone=True) as held:
            if held is None:
                continue
            held.make_ready()
            right = [(item, vector) for (_, item), vector in group if _is_there(held, item)]
            named = [(item.key, item.version) for item, _ in right]
            lines = held.vectors.write(info, named, [vector for _, vector in right])
            if lines:
                held.write(lines)
            kept += len(right)
    if admit:
        change_state(place, tenant, lambda state: state.admitting(info))
    return kept


def _is_there(notes: NoteFolder, item: StoredMemory) -> bool:
    note = notes.notes.notes.get(item.key)
    return note is not None and note.item.version == item.version


def _lacking(place: Place, tenant: Tenant, info: EmbedderInfo, most: int) -> list[Placed]:
    """Up to ``most`` notes that have no vector of this embedder."""
    found: list[Placed] = []
    for name in namespaces.names(place):
        question = info.name, info.dimensions
        if tenant.answers.ask(place, name, question, lambda notes: not notes.lacking(info, 1)):
            continue
        with tenant.namespaces.entered(place, name) as held:
            lacking = held.lacking(info, most - len(found)) if held else ()
        found += [(name, item) for item in lacking]
        if len(found) >= most:
            break
    return found


async def reembed(tenant: Tenant, embedder: NoteEmbedder, limit: int) -> tuple[int, bool]:
    """Embed up to ``limit`` notes and take over once none lacks a vector: how many, and whether."""
    info = embedder.info
    lacking = await tenant.read(lambda place: _lacking(place, tenant, info, limit), [])
    embedded = await embed_into(tenant, embedder, lacking)

    def lacks_some(place: Place) -> bool:
        return bool(_lacking(place, tenant, info, 1))

    def take_over(place: Place) -> bool:
        if lacks_some(place):
            return False
        # What the others have is space that sweep frees.
        change_state(place, tenant, lambda state: replace(state, embedder=info, filling=()))
        return True

    if await tenant.read(lacks_some, otherwise=False):
        return embedded, False
    return embedded, await tenant.write(take_over, alone=True)
