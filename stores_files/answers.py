"""What is asked of every namespace of a tenant, without reading again those that did not change."""

import contextlib
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from stores_files.held import HeldFolders
from stores_files.layout import NOTES, NOTES_JOURNAL
from stores_files.names import name_of
from stores_files.note_folders import NoteFolder
from stores_files.places import Place

T = TypeVar("T")


class Answers:
    """What was asked of namespaces, for as long as nothing is written to them."""

    def __init__(self, folders: HeldFolders[NoteFolder]) -> None:
        self._folders = folders
        self._known: dict[tuple[str, Hashable], tuple[bytes, int, object]] = {}

    def ask(
        self,
        place: Place,
        namespace: str,
        question: Hashable,
        answer: Callable[[NoteFolder], T],
    ) -> T | None:
        """The answer, found anew only if the journal changed; None for no such namespace."""
        stamp = _stamp(place, namespace)
        known = self._known.get((namespace, question))
        if known is not None and stamp == known[:2]:
            return cast(T, known[2])
        with self._folders.entered(place, namespace) as notes:
            if notes is None:
                self._known.pop((namespace, question), None)
                return None
            found, end = answer(notes), notes.end
        # A stamp of anything else, such as a write that failed then, may be that of a later batch.
        if stamp[1] == end:
            self._known[namespace, question] = (*stamp, found)
        return found


def _stamp(place: Place, namespace: str) -> tuple[bytes, int]:
    """Another one after each batch: they only grow, and each journal has a name of its own."""
    disk = place.disk
    with (
        contextlib.suppress(FileNotFoundError),
        disk.opened(disk.open_folder(place[NOTES], name_of(namespace))) as folder,
        disk.opened(disk.open_file(folder, NOTES_JOURNAL)) as file,
    ):
        return disk.read(file, 0, 64), disk.size(file)
    return b"", 0
