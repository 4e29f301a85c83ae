"""Freeing what the notes of a tenant no longer need."""

import contextlib

from stores_core.errors import CorruptRecordError
from stores_core.moving import EmbedderInfo
from stores_files import namespaces
from stores_files.layout import NOTES, VECTORS
from stores_files.names import name_of
from stores_files.note_folders import NoteFolder
from stores_files.notes_state import read_state
from stores_files.places import NEW, Place
from stores_files.storage import Tenant


def sweep_notes(place: Place, tenant: Tenant) -> int:
    """Write journals anew in which little counts, drop vectors that are not in use; files gone."""
    kept, gone = read_state(place).embedders, 0
    question = "sweep", tuple((info.name, info.dimensions) for info in kept)
    for name in namespaces.names(place):
        # What cannot be read is for `verify` to name.
        with contextlib.suppress(FileNotFoundError, CorruptRecordError):
            found = tenant.answers.ask(
                place, name, question, lambda notes: (_is_worth(notes, kept), notes.files)
            )
            if found is None:
                continue
            is_worth, files = found
            with place.disk.opened(place.disk.open_folder(place[NOTES], name_of(name))) as folder:
                strays = _strays(place, folder, files)
            if is_worth or strays:
                gone += _tidy(place, tenant, name, kept)
    return gone


def _is_worth(notes: NoteFolder, kept: tuple[EmbedderInfo, ...]) -> bool:
    return notes.is_worth_rewriting(kept)


def _strays(place: Place, folder: int, files: frozenset[str]) -> list[str]:
    """Files of ours that nothing speaks of. Those of strangers stay."""
    names = place.disk.names(folder)
    return [name for name in names if name.startswith((NEW, VECTORS)) and name not in files]


def _tidy(place: Place, tenant: Tenant, name: str, kept: tuple[EmbedderInfo, ...]) -> int:
    with tenant.namespaces.entered(place, name, alone=True) as notes:
        if notes is None:
            return 0
        before = len(place.disk.names(notes.folder))
        if notes.is_worth_rewriting(kept):
            notes.rewrite([info for info in kept if info in notes.vectors.embedders])
        for stray in _strays(place, notes.folder, notes.files):
            place.disk.unlink(notes.folder, stray)
        return before - len(place.disk.names(notes.folder))
