"""The folder of one namespace: a journal of what was done to its notes, and their vectors.

Each line of the journal is one change, so a batch of puts is there whole or not at all. What the
notes are now follows from all lines in order, and is kept in memory; a journal in which most lines
no longer count is written anew. Vectors lie in files of float32 rows, one for each embedder, and a
line says which row belongs to a note's version.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from stores_core.codec import decode_json, encode_json
from stores_core.embedding import Vector
from stores_core.errors import CorruptRecordError
from stores_core.memory import StoredMemory
from stores_core.moving import EmbedderInfo
from stores_core.notes import Namespace, Note
from stores_core.ranking import VectorTable
from stores_core.shape import EPOCH, replaced
from stores_core.values import from_micros, micros
from stores_files.commits import MESSAGES, Batch
from stores_files.disk import Disk
from stores_files.journal import Journal
from stores_files.layout import NOTES_JOURNAL

SPARE = 1_000
"""So many lines more than twice the notes, and the journal is written anew."""

_FLOAT = 4
_NO_NOTE = StoredMemory(key="-", value="", created_at=EPOCH, updated_at=EPOCH, version=0)

Line = dict[str, Any]
Embedder = tuple[str, int]


def put_line(item: StoredMemory) -> Line:
    """The line of a note that is put."""
    return {
        "put": item.key,
        "value": item.value,
        "metadata": dict(item.metadata),
        "created": micros(item.created_at),
        "updated": micros(item.updated_at),
        "version": item.version,
    }


def gone_line(key: str, version: int) -> Line:
    """The line of a note that is removed; no note starts at a version that it had."""
    return {"gone": key, "version": version}


class NoteFolder:
    """One namespace as this process knows it."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk, self.folder = disk, folder
        self.id = ""
        self._seen: tuple[int, int, int] | None = None
        self._journal: Journal | None = None
        self._forget()

    def _forget(self) -> None:
        self.notes = Namespace()
        self.floor = 0
        self._lines = 0
        self._rows: dict[Embedder, dict[str, int]] = {}
        self._tables: dict[Embedder, VectorTable[str]] = {}

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def refresh(self) -> None:
        """Take in the lines that others have written. Raises CorruptRecordError, OSError."""
        seen = self._disk.identity_of(self.folder, NOTES_JOURNAL)
        if self._journal is None or seen is None or seen[:2] != (self._seen or seen)[:2]:
            self.close()
            self._journal = None
            self._forget()
            self._journal = Journal.open(self._disk, self.folder, NOTES_JOURNAL)
        else:
            self._journal.refresh()
        self._seen = seen
        count = self._journal.length(MESSAGES)
        for text in self._journal.read(MESSAGES, self._lines, count):
            try:
                self._take(decode_json(text))
            except (ValueError, TypeError, KeyError) as error:
                raise CorruptRecordError(
                    "a line of notes.jsonl does not say what it should; `verify` names it"
                ) from error

    def _take(self, line: Line) -> None:
        self._lines += 1
        if "put" in line:
            self._drop_vectors(line["put"])
            item = replaced(
                _NO_NOTE,
                {
                    "key": line["put"],
                    "value": line["value"],
                    "created_at": from_micros(line["created"]),
                    "updated_at": from_micros(line["updated"]),
                    "version": line["version"],
                },
            )
            self.notes.put(item, line["metadata"])
        elif "gone" in line:
            self.notes.remove(line["gone"])
            self._drop_vectors(line["gone"])
            self.floor = max(self.floor, line["version"])
        elif "vector" in line:
            note = self.notes.notes.get(line["vector"])
            if note is not None and note.item.version == line["version"]:
                embedder = (str(line["embedder"]), int(line["dimensions"]))
                self._rows.setdefault(embedder, {})[note.item.key] = line["row"]
                self._tables.pop(embedder, None)
        elif "namespace" in line:
            self.id = line["namespace"]
            self.floor = max(self.floor, line["floor"])

    def _drop_vectors(self, key: str) -> None:
        for embedder, rows in self._rows.items():
            if rows.pop(key, None) is not None and embedder in self._tables:
                self._tables[embedder].discard(key)

    # Writing

    def write(self, lines: Sequence[Line], at: int) -> None:
        """Write lines that are on the disk when this returns, and take them in."""
        if self._journal is None:
            raise ValueError("not refreshed")
        self._journal.append([Batch([encode_json(line) for line in lines], (), at)])
        for line in lines:
            self._take(line)

    def vector_lines(
        self, embedder: EmbedderInfo, notes: Sequence[tuple[str, int, Vector]]
    ) -> list[Line]:
        """Write vectors of notes (key, version, vector); the lines that make them count."""
        name = vectors_name(embedder)
        try:
            file = self._disk.open_file(self.folder, name)
        except FileNotFoundError:
            file = self._disk.make_file(self.folder, name)
            self._disk.sync_folder(self.folder)
        with self._disk.opened(file):
            width = _FLOAT * embedder.dimensions
            row = -(-self._disk.size(file) // width)
            data = np.stack([vector for _, _, vector in notes]).astype("<f4").tobytes()
            self._disk.write(file, row * width, data)
            self._disk.sync(file)
        about = {"embedder": embedder.name, "dimensions": embedder.dimensions}
        return [
            {"vector": key, "version": version, "row": row + index, **about}
            for index, (key, version, _) in enumerate(notes)
        ]

    # Reading

    def has_vector(self, embedder: EmbedderInfo, key: str) -> bool:
        return key in self._rows.get((embedder.name, embedder.dimensions), ())

    def without_vector(self, embedder: EmbedderInfo) -> list[Note]:
        """The notes that have no vector of this embedder."""
        rows = self._rows.get((embedder.name, embedder.dimensions), {})
        if len(rows) == len(self.notes.notes):
            return []
        return [note for key, note in self.notes.notes.items() if key not in rows]

    def table(self, embedder: EmbedderInfo) -> VectorTable[str]:
        """The vectors of an embedder, read from the disk where they are not known yet."""
        named = (embedder.name, embedder.dimensions)
        table = self._tables.get(named)
        if table is None:
            table = self._tables[named] = VectorTable(embedder.dimensions)
            rows = self._rows.get(named, {})
            if rows:
                matrix = self._matrix(embedder)
                for key, row in rows.items():
                    if row >= len(matrix):
                        raise CorruptRecordError(store="memory", id=key)
                    table.put(key, matrix[row])
        return table

    def _matrix(self, embedder: EmbedderInfo) -> Any:
        with self._disk.opened(self._disk.open_file(self.folder, vectors_name(embedder))) as file:
            data = self._disk.read(file, 0, self._disk.size(file))
        width = _FLOAT * embedder.dimensions
        whole = data[: len(data) // width * width]
        return np.frombuffer(whole, dtype="<f4").reshape(-1, embedder.dimensions)


def vectors_name(embedder: EmbedderInfo) -> str:
    """The file of an embedder's vectors."""
    named = encode_json([embedder.name, embedder.dimensions])
    return f"vectors-{hashlib.sha256(named).hexdigest()[:32]}.f32"
