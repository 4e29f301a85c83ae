"""Reading every note of a tenant anew, and listing what is damaged."""

from functools import partial

from stores_core.errors import StoreError
from stores_files import namespaces
from stores_files.layout import NOTES
from stores_files.names import name_of
from stores_files.note_folders import NoteFolder
from stores_files.notes_state import read_state
from stores_files.places import Place
from stores_files.storage import Tenant
from stores_files.verifying import Findings


def verify_notes(tenant: Tenant, findings: Findings) -> None:
    """Every line, every vector, and what is in the folders that is not ours."""
    with tenant.entered() as place:
        if place is None:
            return
        findings.check("memory", "", partial(read_state, place))
        names = namespaces.names(place)
        known = {name_of(name) for name in names}
        for name in sorted(set(place.disk.names(place[NOTES])) - known):
            findings.add("files", name, "a strange thing among the notes; it was left alone")
    for name in names:
        with tenant.entered() as place:
            if place is not None:
                _verify_namespace(place, tenant, name, findings)


def _verify_namespace(place: Place, tenant: Tenant, name: str, findings: Findings) -> None:
    disk = place.disk
    try:
        with disk.opened(disk.open_folder(place[NOTES], name_of(name))) as folder:
            # Nothing that this process remembers is believed.
            notes = NoteFolder(disk, folder)
            try:
                with disk.locked(folder, tenant.storage.lock_timeout, shared=True):
                    notes.refresh()
                    _verify_notes(notes, name, findings)
            finally:
                notes.close()
    except FileNotFoundError:
        return  # its last note was removed meanwhile
    except StoreError as error:
        findings.add("memory", name, str(error))
    except OSError as error:
        findings.add("memory", name, f"its folder cannot be read ({type(error).__name__})")


def _verify_notes(notes: NoteFolder, name: str, findings: Findings) -> None:
    findings.checked["notes"] += len(notes.notes.notes)
    if notes.id != name:
        findings.add("memory", name, "its first line names another namespace")
    if notes.torn:
        what = f"{notes.torn} bytes at the end of its journal are no whole batch and do not count"
        findings.add("memory", name, what)
    for info in sorted(notes.vectors.embedders, key=lambda info: (info.name, info.dimensions)):
        damaged = notes.vectors.damaged(info)
        if damaged:
            what = f"{damaged} vectors cannot be read; recall or `reembed` makes them anew"
            findings.add("memory", name, what)
    for stray in notes.strangers():
        findings.add("files", stray, "a strange file among the notes; it was left alone")
