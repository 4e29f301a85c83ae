"""What is listed, and in which order: a file of lines beside the runs, or results, themselves.

A line says that one was made or relabelled (``{"id":…}``) or is gone (``{"gone":…}``). It is
written before the thing can be seen and that may never come, so whoever lists looks at the thing
itself, and passes over a line without one. Lines tell generations of an id apart.
"""

import contextlib
import secrets
import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

from stores_core.catalog import Catalog
from stores_core.codec import decode_json, encode_json
from stores_files.disk import Disk
from stores_files.places import NEW

_READ = 1 << 22
_SPARE = 1_000
"""So many lines more than twice those that count, and sweep writes the file anew."""

Entry = tuple[str, str]
"""An id and its generation."""


def line_of(
    id: str,
    generation: str,
    created: int,
    labels: Mapping[str, str],
    *,
    was: Mapping[str, str] | None = None,
    parent: str = "",
    size: int = 0,
) -> bytes:
    """The line of what is made or relabelled; ``created`` in microseconds since 1970.

    ``was`` are the labels before. Until the header is replaced those are the true ones, so what is
    listed by either is looked at.
    """
    fields: dict[str, Any] = {"id": id, "generation": generation, "created": created}
    if parent:
        fields["parent"] = parent
    if labels:
        fields["labels"] = dict(labels)
    if was and (changed := {key: text for key, text in was.items() if labels.get(key) != text}):
        fields["was"] = changed
    if size:
        fields["bytes"] = size
    return encode_json(fields) + b"\n"


def _gone(id: str, generation: str) -> bytes:
    return encode_json({"gone": id, "generation": generation}) + b"\n"


class Listing:
    """What one process knows of one tenant's file ``name``, in the order of listings."""

    def __init__(self, disk: Disk, name: str, lock_timeout: float) -> None:
        self._disk, self._name, self._lock_timeout = disk, name, lock_timeout
        self._lock = threading.Lock()
        self._is_settled = self._is_spent = False
        self._file: int | None = None
        self._forget()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._file is not None:
            self._disk.close(self._file)
        self._file = None
        self._read_to = self._lines = 0
        self._catalog = Catalog()
        self._sizes: dict[str, int] = {}
        self._size = 0

    def add(self, folder: int, lines: bytes) -> None:
        """Write lines that are on the disk when this returns."""
        self._add(folder, lines, sync=True)

    def strike(self, folder: int, id: str, generation: str) -> None:
        """Write that something was deleted, or did not get its id.

        A crash may take the line: whoever lists looks at the thing itself.
        """
        self._add(folder, _gone(id, generation), sync=False)

    def _add(self, folder: int, lines: bytes, *, sync: bool) -> None:
        disk = self._disk
        while True:
            with (
                disk.opened(self._opened(folder)) as file,
                disk.locked(file, self._lock_timeout),
            ):
                if not self._is_at(folder, file):
                    continue  # written anew while we waited
                size = disk.size(file)
                whole = self._whole(file, size)
                if whole < size:  # a line that a crash cut off
                    disk.truncate(file, whole)
                if self._is_spent:
                    self._write_anew(folder, [disk.read(file, 0, whole)])
                    continue
                disk.write(file, whole, lines)
                if not sync:
                    return
                try:
                    disk.sync(file)
                except OSError:
                    # The system may take lost pages for written: nothing may rely on that file.
                    self._is_spent = True
                    with contextlib.suppress(OSError):
                        self._write_anew(folder, [disk.read(file, 0, whole)])
                    raise
                return

    def _is_at(self, folder: int, file: int) -> bool:
        found = self._disk.identity_of(folder, self._name)
        return found is not None and found[:2] == self._disk.identity(file)[:2]

    def _opened(self, folder: int) -> int:
        try:
            file = self._disk.open_file(folder, self._name)
        except FileNotFoundError:
            try:
                file = self._disk.make_file(folder, self._name)
            except FileExistsError:
                file = self._disk.open_file(folder, self._name)
        if not self._is_settled:
            # Whoever made it may have been killed before its name was on the disk.
            try:
                self._disk.sync_folder(folder)
            except BaseException:
                self._disk.close(file)
                raise
            self._is_settled = True
        return file

    def _whole(self, file: int, size: int) -> int:
        """Where the last whole line ends."""
        end = size
        while end:
            start = max(0, end - 4096)
            at = self._disk.read(file, start, end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
        return 0

    def page(
        self,
        folder: int,
        filters: Collection[Hashable],
        position: str,
        limit: int,
        *,
        before: int | None = None,
        keep: Callable[[Entry], bool],
    ) -> tuple[list[Entry], str, int]:
        """As :meth:`Catalog.page`; ``keep`` says too whether the thing is there."""
        with self._lock:
            self._refresh(folder)
            found, after, looked = self._catalog.page(
                filters,
                position,
                limit,
                before=before,
                keep=lambda key: keep(_entry(key)),
            )
        return [_entry(key) for key in found], after, looked

    def position(self, entry: Entry) -> str:
        """The position behind what is listed."""
        with self._lock:
            return self._catalog.position(_key(entry))

    def lists(self, folder: int, entry: Entry) -> bool:
        """Whether a line says that this is there."""
        with self._lock:
            self._refresh(folder)
            return _key(entry) in self._catalog

    def oldest(self, folder: int) -> tuple[int, int, Entry | None]:
        """How many there are, their bytes, and what is listed last."""
        with self._lock:
            self._refresh(folder)
            key = self._catalog.oldest()
            count, size = self._catalog.count(), self._size
        return count, size, None if key is None else _entry(key)

    def _refresh(self, folder: int) -> None:
        disk, found = self._disk, self._disk.identity_of(folder, self._name)
        if found is None:
            self._forget()
            return
        if self._file is None or disk.identity(self._file)[:2] != found[:2]:
            self._forget()
            # Held open, so that no other file can get its number and be taken for it.
            self._file = disk.open_file(folder, self._name)
        while True:
            data = disk.read(self._file, self._read_to, _READ)
            end = data.rfind(b"\n") + 1
            if not end:
                return
            for line in data[:end].splitlines():
                self._take(line)
            self._read_to += end

    def _take(self, line: bytes) -> None:
        self._lines += 1
        # Of what a damaged line cost its place here, `verify` tells.
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            self._take_fields(decode_json(line))

    def _take_fields(self, fields: Any) -> None:
        if "gone" in fields:
            key = _key((fields["gone"], fields["generation"]))
            self._catalog.remove(key)
            self._size -= self._sizes.pop(key, 0)
            return
        filters: list[Hashable] = [
            ("label", str(key), str(text))
            for labels in ("labels", "was")
            for key, text in fields.get(labels, {}).items()
        ]
        if "parent" in fields:
            filters.append(("parent", str(fields["parent"])))
        size, key = int(fields.get("bytes", 0)), _key((fields["id"], fields["generation"]))
        self._catalog.put(key, int(fields["created"]), filters)
        self._size += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def shorten(self, folder: int) -> int:
        """Leave out the lines that no longer count, if they are many; how many went."""
        disk = self._disk
        with self._lock:
            self._refresh(folder)
            surplus = self._lines - self._catalog.count()
            if surplus < _SPARE + self._catalog.count():
                return 0
            with (
                disk.opened(self._opened(folder)) as file,
                disk.locked(file, self._lock_timeout),
            ):
                if not self._is_at(folder, file):
                    return 0  # somebody else has just done it, and lines may have come since
                self._refresh(folder)
                kept = self._latest(file)
                self._write_anew(folder, kept)
            return self._lines - len(kept)

    def _write_anew(self, folder: int, lines: Collection[bytes]) -> None:
        disk, new = self._disk, NEW + secrets.token_hex(8)
        try:
            with disk.opened(disk.make_file(folder, new)) as written:
                disk.write(written, 0, b"".join(lines))
                disk.sync(written)
            disk.rename(folder, new, folder, self._name)
        except OSError:
            with contextlib.suppress(OSError):
                disk.unlink(folder, new)
            raise
        disk.sync_folder(folder)
        self._is_spent = False

    def _latest(self, file: int) -> list[bytes]:
        """The last line of each that is not gone."""
        latest: dict[str, bytes] = {}
        for line in self._disk.read(file, 0, self._read_to).splitlines(keepends=True):
            with contextlib.suppress(ValueError):
                fields: Any = decode_json(line)
                if "id" in fields:
                    latest[_key((fields["id"], fields["generation"]))] = line
        return [line for key, line in latest.items() if key in self._catalog]


def _key(entry: Entry) -> str:
    # NUL is in no id and sorts before all, so the order of ids stays theirs.
    return f"{entry[0]}\0{entry[1]}"


def _entry(key: str) -> Entry:
    id, _, generation = key.partition("\0")
    return id, generation
