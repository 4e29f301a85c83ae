"""The namespaces of a tenant: folders that are there as long as they hold notes.

One that loses its last note is moved away whole, which is what removes the note. The versions that
its notes had are remembered in notes.json before that.
"""

import contextlib
import errno
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from stores_core.codec import decode_json
from stores_core.errors import CorruptRecordError, OutcomeUnknownError, StoreUnavailableError
from stores_files.commits import MESSAGES
from stores_files.embedding import Line
from stores_files.failures import perhaps_applied
from stores_files.journal import Journal
from stores_files.layout import NOTES, NOTES_JOURNAL, STAGING, TRASH
from stores_files.names import id_of, name_of
from stores_files.note_folders import NoteFolder
from stores_files.notes_state import raise_floor, read_state
from stores_files.places import Place, remove_folder
from stores_files.storage import Tenant

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


def write(
    place: Place,
    tenant: Tenant,
    namespace: str,
    at: datetime,
    lines_for: Callable[[NoteFolder], Sequence[Line]],
) -> None:
    """Write the lines that ``lines_for`` finds right for a namespace; a new one is made for them.

    It is called with the namespace held alone, again where somebody else just made it.
    """
    while True:
        with tenant.namespaces.entered(place, namespace, alone=True) as notes:
            if notes is not None:
                notes.make_ready()
                lines = lines_for(notes)
                if lines:
                    notes.write(lines, at)
                else:
                    settle(place, notes)
                return
        if _claimed(place, namespace, at, lines_for):
            return


def _claimed(
    place: Place, namespace: str, at: datetime, lines_for: Callable[[NoteFolder], Sequence[Line]]
) -> bool:
    """Make a namespace with its first notes; False where somebody else just did."""
    disk, staged, name = place.disk, secrets.token_hex(8), name_of(namespace)
    disk.make_folder(place[STAGING], staged)
    try:
        with disk.opened(disk.open_folder(place[STAGING], staged)) as folder:
            notes = NoteFolder(disk, folder)
            try:
                notes.begin(namespace, read_state(place).floor)
                lines = lines_for(notes)
                if lines:
                    notes.write(lines, at)
            finally:
                notes.close()
            disk.sync_folder(folder)
        if not lines:
            remove_folder(disk, place[STAGING], staged)
            return True
        disk.rename(place[STAGING], staged, place[NOTES], name)
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_folder(disk, place[STAGING], staged)
        if isinstance(error, OSError) and error.errno in _TAKEN:
            return False
        if isinstance(error, OutcomeUnknownError):  # of a file that nobody has seen
            raise StoreUnavailableError(
                "the disk failed while it was written to; nothing was applied"
            ) from error.__cause__
        raise
    with perhaps_applied():
        disk.sync_folder(place[NOTES])
    return True


def empty(place: Place, tenant: Tenant, notes: NoteFolder) -> int:
    """Remove all notes of a namespace, which is held alone; how many there were."""
    disk, gone, held = place.disk, secrets.token_hex(8), notes.notes.notes.values()
    count, floor = len(held), max(notes.floor, *(note.item.version for note in held), 0)
    raise_floor(place, tenant, floor)
    disk.rename(place[NOTES], name_of(notes.id), place[TRASH], gone)
    tenant.namespaces.forget(place, notes.id)
    with perhaps_applied():
        disk.sync_folder(place[NOTES])
    # What is left now is only space: sweep finishes what fails here.
    with contextlib.suppress(OSError):
        remove_folder(disk, place[TRASH], gone)
    return count


def settle(place: Place, notes: NoteFolder | None) -> None:
    """Let what a caller is told survive a crash of the machine, whoever wrote it."""
    if notes is None:
        place.disk.sync_folder(place[NOTES])
    else:
        notes.settle()


# All namespaces


def names(place: Place) -> list[str]:
    """The namespaces that hold notes, in code-point order."""
    found = (_namespace_of(place, name) for name in place.disk.names(place[NOTES]))
    return sorted(id for id in found if id is not None)


def _namespace_of(place: Place, name: str) -> str | None:
    """The namespace whose folder bears this name; None for what is none."""
    found = place.disk.identity_of(place[NOTES], name)
    if found is None or found[2]:  # gone since, or no folder
        return None
    id = id_of(name)
    if id is not None:
        return id
    head = _first_entry(place, name)
    return head if head is not None and name_of(head) == name else None


def _first_entry(place: Place, name: str) -> str | None:
    disk = place.disk
    with (
        contextlib.suppress(FileNotFoundError, CorruptRecordError, ValueError, KeyError),
        disk.opened(disk.open_folder(place[NOTES], name)) as folder,
        contextlib.closing(Journal.open(disk, folder, NOTES_JOURNAL)) as journal,
    ):
        (text,) = journal.read(MESSAGES, 0, 1)
        return str(decode_json(text)["namespace"])
    return None
