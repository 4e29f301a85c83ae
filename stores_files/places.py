"""A tenant's folder while it is worked in, and small files of JSON."""

import contextlib
import secrets
from collections.abc import Generator, Mapping
from typing import Any
from zlib import crc32

from stores_core.codec import decode_json, encode_json
from stores_files.disk import Disk
from stores_files.failures import perhaps_applied

NEW = ".new-"
"""What the names of things begin with that are not yet what they will be."""

_SUM = b',"sum":"'


class Place:
    """A tenant's folder that threads work in; what was opened is closed in the end."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self.disk, self.folder = disk, folder
        self.identity = disk.identity(folder)
        self._open: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        """One of the folders in it."""
        folder = self._open.get(name)
        if folder is None:
            opened = self.disk.open_folder(self.folder, name)
            folder = self._open.setdefault(name, opened)
            if folder != opened:  # another thread was quicker
                self.disk.close(opened)
        return folder

    @contextlib.contextmanager
    def locked(self, name: str, patience: float) -> Generator[None]:
        """Holds the lock of one of the folders in it. Raises StoreUnavailableError.

        Against other threads too, which share what was opened.
        """
        with self.disk.opened_anew(self[name]) as folder, self.disk.locked(folder, patience):
            yield

    def close(self) -> None:
        for folder in self._open.values():
            self.disk.close(folder)


def write_new(disk: Disk, folder: int, name: str, value: Mapping[str, Any]) -> None:
    """A new file of one object as JSON, on the disk for certain (its name is not).

    Its last field is the CRC-32 of the text before, so that damage is told.
    """
    with disk.opened(disk.make_file(folder, name)) as file:
        text = encode_json(value)[:-1]
        disk.write(file, 0, b'%b,"sum":"%08x"}\n' % (text, crc32(text)))
        disk.sync(file)


def replace(disk: Disk, folder: int, name: str, value: Mapping[str, Any]) -> None:
    """A file of JSON in place of another, in one step that survives a crash.

    Raises OSError where nothing was applied, OutcomeUnknownError where nobody knows.
    """
    new = NEW + secrets.token_hex(8)
    try:
        write_new(disk, folder, new, value)
        disk.rename(folder, new, folder, name)
    except OSError:
        with contextlib.suppress(OSError):
            disk.unlink(folder, new)
        raise
    with perhaps_applied():
        disk.sync_folder(folder)


def read_json(disk: Disk, folder: int, name: str) -> Any:
    """A file of JSON. Raises FileNotFoundError, ValueError where it is damaged."""
    with disk.opened(disk.open_file(folder, name)) as file:
        return read_json_of(disk, file)


def read_json_of(disk: Disk, file: int) -> Any:
    """The same of an open file. Raises ValueError."""
    text, mark, end = disk.read(file, 0, disk.size(file)).rpartition(_SUM)
    if not mark or end != b'%08x"}\n' % crc32(text):
        raise ValueError("it does not fit its sum")
    return decode_json(text + b"}")


def remove_folder(disk: Disk, folder: int, name: str) -> int:
    """Remove a folder with all that it holds, without following links; how many files went."""
    gone = 0
    with disk.opened(disk.open_folder(folder, name)) as inner:
        for each in disk.names(inner):
            try:
                disk.unlink(inner, each)
                gone += 1
            except (IsADirectoryError, PermissionError):  # what unlink says of a folder, by system
                gone += remove_folder(disk, inner, each)
    disk.remove_folder(folder, name)
    return gone
