"""The vectors of one namespace: flat files of float32 rows, and tables of them in memory.

A file has the rows of one embedder one after the other, little-endian, so that numpy maps it as it
is. A row counts once a line of the journal names it, and is on the disk by then. Vectors can always
be made again: where a row does not fit its sum, or is gone, its note lacks a vector and gets a new
one as any other that lacks one.
"""

import contextlib
import secrets
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stores_core.embedding import Vector
from stores_core.moving import EmbedderInfo
from stores_core.ranking import VectorTable
from stores_files.disk import Disk
from stores_files.layout import VECTORS, VECTORS_ENDING

Line = dict[str, Any]

_FLOAT = np.dtype("<f4")


class Row(NamedTuple):
    """Where a vector lies: a file, the number of its row there, and the CRC-32 of its bytes."""

    file: str
    number: int
    sum: int


class Mapped(NamedTuple):
    """The first so many rows of a file."""

    file: str
    rows: int


class Vectors:
    """What the lines of a journal say of vectors, and the vectors themselves once asked for."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk, self._folder = disk, folder
        self._files: dict[str, EmbedderInfo] = {}
        self._open_for: dict[EmbedderInfo, str] = {}
        self._rows: dict[EmbedderInfo, dict[str, Row]] = {}
        self._unread: dict[EmbedderInfo, set[str]] = {}
        self._tables: dict[EmbedderInfo, VectorTable[str]] = {}
        self._mapped: dict[EmbedderInfo, Mapped] = {}
        """The tables that are a file, as long as they are nothing else."""

    @property
    def files(self) -> Collection[str]:
        """The names of the files that the journal speaks of."""
        return self._files.keys()

    @property
    def embedders(self) -> set[EmbedderInfo]:
        """Those that have a file here."""
        return set(self._files.values())

    @property
    def count(self) -> int:
        """Lines that count: one for each file and each row in use."""
        return len(self._files) + sum(map(len, self._rows.values()))

    # What the journal says

    def take_file(self, line: Line) -> None:
        """A file was begun. Raises KeyError, ValueError, TypeError."""
        info = EmbedderInfo(name=str(line["embedder"]), dimensions=int(line["dimensions"]))
        self._files[line["vectors"]] = info
        self._open_for[info] = line["vectors"]

    def take_row(self, line: Line) -> None:
        """A note's present version has a vector. Raises KeyError, ValueError, TypeError."""
        info, key = self._files[line["file"]], line["vector"]
        row = Row(line["file"], int(line["row"]), int(line["sum"]))
        self._rows.setdefault(info, {})[key] = row
        self._unread.setdefault(info, set()).add(key)

    def discard(self, key: str) -> None:
        """A note was changed or removed: no vector of it is right any more."""
        for info, rows in self._rows.items():
            if rows.pop(key, None) is not None:
                self._unread[info].discard(key)
                if info in self._tables:
                    self._tables[info].discard(key)
                    self._mapped.pop(info, None)

    # Writing

    def write(
        self, info: EmbedderInfo, notes: Sequence[tuple[str, int]], vectors: Sequence[Vector]
    ) -> list[Line]:
        """Write vectors of notes (key and version); the lines that make them count.

        Raises OSError, after which the file is not written to again.
        """
        if not notes:
            return []
        name, file, is_new = self._file_for(info)
        data = [vector.astype(_FLOAT).tobytes() for vector in vectors]
        with self._disk.opened(file):
            width = _FLOAT.itemsize * info.dimensions
            first = -(-self._disk.size(file) // width)  # behind what a failed write left
            self._disk.write(file, first * width, b"".join(data))
            self._disk.sync(file)
            if is_new:
                self._disk.sync_folder(self._folder)
        lines = list[Line]()
        if is_new:
            lines.append({"vectors": name, "embedder": info.name, "dimensions": info.dimensions})
        else:
            self._open_for[info] = name
        for number, ((key, version), row) in enumerate(zip(notes, data, strict=True), first):
            about = {"file": name, "row": number, "sum": zlib.crc32(row)}
            lines.append({"vector": key, "version": version, **about})
        return lines

    def _file_for(self, info: EmbedderInfo) -> tuple[str, int, bool]:
        """The file that rows go to, and whether it is a new one, which no line speaks of yet."""
        name = self._open_for.pop(info, None)
        if name is not None:
            with contextlib.suppress(FileNotFoundError):
                return name, self._disk.open_file(self._folder, name), False
        name = f"{VECTORS}{secrets.token_hex(8)}{VECTORS_ENDING}"
        return name, self._disk.make_file(self._folder, name), True

    # Reading

    def table(self, info: EmbedderInfo) -> VectorTable[str]:
        """The vectors of an embedder by the keys of their notes."""
        mapped = self._mapped.get(info)
        if mapped is not None and self._is_cut(info, mapped):
            self._forget(info)
        table, unread = self._tables.get(info), self._unread.setdefault(info, set())
        if table is None:
            table = self._tables[info] = VectorTable[str](info.dimensions)
            self._mapped[info] = Mapped("", 0)
            unread = self._unread[info] = set(self._rows.get(info, ()))
        if unread and not self._map(info, table, unread):
            self._mapped.pop(info, None)
            for found, matrix in self._read(info, unread):
                if not len(table):
                    table.fill(found, matrix)
                    continue
                for key, vector in zip(found, matrix, strict=True):
                    table.put(key, vector)
        unread.clear()
        return table

    def _map(self, info: EmbedderInfo, table: VectorTable[str], unread: Collection[str]) -> bool:
        """Let a table be a file that numpy maps, if its rows are those of the table in order."""
        mapped = self._mapped.get(info)
        if mapped is None:
            return False
        keys = sorted(unread, key=lambda key: self._rows[info][key].number)
        rows = [self._rows[info][key] for key in keys]
        name, end = mapped.file or rows[0].file, mapped.rows + len(rows)
        if any(row[:2] != (name, number) for number, row in enumerate(rows, mapped.rows)):
            return False
        width = _FLOAT.itemsize * info.dimensions
        try:
            with self._disk.opened(self._disk.open_file(self._folder, name)) as file:
                if self._disk.size(file) < end * width:
                    return False
                data = self._disk.mapped(file, end * width)
        except FileNotFoundError:
            return False
        matrix = np.frombuffer(data, _FLOAT).reshape(end, info.dimensions)
        if any(zlib.crc32(matrix[row.number]) != row.sum for row in rows):
            return False
        table.fill(keys, matrix)
        self._mapped[info] = Mapped(name, end)
        return True

    def _is_cut(self, info: EmbedderInfo, mapped: Mapped) -> bool:
        """Whether somebody cut a file that is mapped: its end must not be looked at any more."""
        with contextlib.suppress(FileNotFoundError):  # then nobody can cut it
            size = self._disk.size_of(self._folder, mapped.file) if mapped.file else 0
            return size < mapped.rows * _FLOAT.itemsize * info.dimensions
        return False

    def _forget(self, info: EmbedderInfo) -> None:
        for known in (self._tables, self._mapped):
            known.pop(info, None)

    def _read(
        self, info: EmbedderInfo, wanted: Collection[str]
    ) -> Iterator[tuple[list[str], npt.NDArray[np.float32]]]:
        """Keys and their vectors, file by file; what does not fit its sum is left out."""
        by_file: dict[str, list[tuple[int, str]]] = {}
        for key in wanted:
            row = self._rows[info][key]
            by_file.setdefault(row.file, []).append((row.number, key))
        for name, places in by_file.items():
            places.sort()
            first = places[0][0]
            matrix = self._rows_of(info, name, first, places[-1][0] + 1)
            keys, kept = list[str](), list[int]()
            for number, key in places:
                at = number - first
                if at < len(matrix) and zlib.crc32(matrix[at]) == self._rows[info][key].sum:
                    keys.append(key)
                    kept.append(at)
            yield keys, matrix[kept]

    def _rows_of(
        self, info: EmbedderInfo, name: str, first: int, end: int
    ) -> npt.NDArray[np.float32]:
        width, data = _FLOAT.itemsize * info.dimensions, b""
        with (
            contextlib.suppress(FileNotFoundError),
            self._disk.opened(self._disk.open_file(self._folder, name)) as file,
        ):
            data = self._disk.read(file, first * width, (end - first) * width)
        whole = len(data) // width
        return np.frombuffer(data, _FLOAT, whole * info.dimensions).reshape(-1, info.dimensions)

    def damaged(self, info: EmbedderInfo) -> int:
        """How many vectors that the journal speaks of cannot be read."""
        return len(self._rows.get(info, {})) - len(self.table(info))
