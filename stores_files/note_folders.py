"""The folder of one namespace: a journal of what was done to its notes, and their vectors.

Each entry of the journal is one change, so a batch of puts is there whole or not at all. What the
notes are now follows from all entries in order, and is kept in memory. The first entry names the
namespace. A journal in which most entries no longer count is written anew.
"""

import contextlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from stores_core.codec import decode_json, encode_json
from stores_core.errors import CorruptRecordError, StoreError
from stores_core.memory import StoredMemory
from stores_core.moving import EmbedderInfo
from stores_core.notes import Namespace, Note
from stores_core.shape import EPOCH, replaced
from stores_core.values import micros
from stores_files.commits import MESSAGES, Batch
from stores_files.disk import Disk
from stores_files.embedding import Line, Vectors
from stores_files.journal import Journal
from stores_files.layout import NOTES_JOURNAL, VECTORS
from stores_files.places import NEW

FORMAT = 1

SPARE = 1_000
"""So many lines more than those that count, and sweep writes the journal anew."""

_MOST_SPARE = 8 * SPARE
"""So many, and a write does it first: each of them was a write, so that it costs each little."""

_AT_ONCE = 1_000
"""Lines of one batch of a journal that is written anew."""

_NO_NOTE = StoredMemory(key="-", value="", created_at=EPOCH, updated_at=EPOCH, version=0)


def put_line(item: StoredMemory, metadata: Mapping[str, Any], arrival: int) -> Line:
    """The line of a note that is put; ``arrival`` is its order among the notes of its time."""
    return {
        "put": item.key,
        "value": item.value,
        "metadata": dict(metadata),
        "createdAt": item.created_at.isoformat(timespec="microseconds"),
        "updatedAt": item.updated_at.isoformat(timespec="microseconds"),
        "version": item.version,
        "arrival": arrival,
    }


def gone_line(note: Note) -> Line:
    """The line of a note that is removed."""
    return {"gone": note.item.key, "version": note.item.version}


class NoteFolder:
    """One namespace as this process knows it.

    ``floor`` is the highest version that a removed note had, or more: no note starts below.
    """

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk, self.folder = disk, folder
        self.id = ""
        self._journal: Journal | None = None
        self._seen: tuple[int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        self.notes = Namespace()
        self.vectors = Vectors(self._disk, self.folder)
        self.floor = 0
        self._lines = 0

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @property
    def torn(self) -> int:
        """Bytes at the end of the journal that are no whole batch."""
        return self._journal.torn if self._journal else 0

    @property
    def end(self) -> int:
        """Bytes of the journal that count."""
        return self._journal.end if self._journal else 0

    # What others have written

    def refresh(self) -> None:
        """Take in the lines that others have written. Raises CorruptRecordError, OSError."""
        found = self._disk.identity_of(self.folder, NOTES_JOURNAL)
        if found is None:
            raise CorruptRecordError("the folder of a namespace has no notes.jsonl")
        if self._journal is None or found[:2] != self._seen:  # it was written anew
            self.close()
            self._forget()
            self._journal = Journal.open(self._disk, self.folder, NOTES_JOURNAL)
            self._seen = found[:2]
        else:
            self._journal.refresh()
        count = self._journal.length(MESSAGES)
        for text in self._journal.read(MESSAGES, self._lines, count):
            try:
                self._take(decode_json(text))
            except (ValueError, TypeError, KeyError) as error:
                raise CorruptRecordError(
                    f"line {self._lines} of the notes of a namespace does not say what it should; "
                    "`verify` names it"
                ) from error

    def _take(self, line: Line) -> None:
        if "put" in line:
            self.vectors.discard(line["put"])
            fields = {
                "key": str(line["put"]),
                "value": str(line["value"]),
                "created_at": datetime.fromisoformat(line["createdAt"]),
                "updated_at": datetime.fromisoformat(line["updatedAt"]),
                "version": int(line["version"]),
            }
            self.notes.put(replaced(_NO_NOTE, fields), line["metadata"], int(line["arrival"]))
        elif "gone" in line:
            self.vectors.discard(line["gone"])
            self.notes.remove(line["gone"])
            self.floor = max(self.floor, int(line["version"]))
        elif "vector" in line:
            note = self.notes.notes.get(line["vector"])
            if note is not None and note.item.version == line["version"]:
                self.vectors.take_row(line)
        elif "vectors" in line:
            self.vectors.take_file(line)
        elif line.get("format") == FORMAT:
            self.id = str(line["namespace"])
            self.floor = int(line["floor"])
            self.notes.arrivals = int(line["arrivals"])
        else:
            raise ValueError("no line of ours")
        self._lines += 1

    # Writing

    def begin(self, id: str, floor: int) -> None:
        """Start the journal of a new namespace, not yet on the disk for certain."""
        self._journal = Journal.make(self._disk, self.folder, NOTES_JOURNAL, secrets.token_hex(16))
        head = _head_line(id, floor, 0)
        self._journal.append([Batch([encode_json(head)], (), 0)], sync=False)
        self._take(head)

    def write(self, lines: Sequence[Line], at: datetime = EPOCH) -> None:
        """Write lines that are on the disk when this returns, and take them in.

        Raises StoreUnavailableError where nothing was applied, OutcomeUnknownError where nobody
        knows.
        """
        if self._journal is None:
            raise ValueError("neither begun nor refreshed")
        batch = Batch([encode_json(line) for line in lines], (), micros(at))
        try:
            self._journal.append([batch])
        except StoreError:
            if self._journal.is_spent:
                # Should this fail too, `make_ready` tries again.
                with contextlib.suppress(OSError, StoreError):
                    self.rewrite(self.vectors.embedders)
            raise
        for line in lines:
            self._take(line)

    def make_ready(self) -> None:
        """To be called before lines are made: a journal that takes no more is written anew.

        So is one in which little counts. Raises OSError, StoreError where nothing can be written.
        """
        if self._journal is not None and self._journal.is_spent:
            self.rewrite(self.vectors.embedders)
        elif self.surplus > _MOST_SPARE + 4 * self._counting:
            with contextlib.suppress(OSError, StoreError):  # it goes on as it is
                self.rewrite(self.vectors.embedders)

    def settle(self) -> None:
        """Let all that counts survive a crash of the machine, whoever wrote it."""
        if self._journal is not None:
            if self._journal.is_spent:
                self.rewrite(self.vectors.embedders)
            self._journal.settle()

    @property
    def _counting(self) -> int:
        return 1 + len(self.notes.notes) + self.vectors.count

    @property
    def surplus(self) -> int:
        """How many lines no longer count."""
        return self._lines - self._counting

    def is_worth_rewriting(self, embedders: Collection[EmbedderInfo]) -> bool:
        """Whether much is freed when only the vectors of these embedders are kept."""
        return self.surplus > SPARE + self._counting or not self.vectors.embedders <= set(embedders)

    def rewrite(self, embedders: Collection[EmbedderInfo]) -> int:
        """Write a journal of what counts, with the vectors of these embedders, in place of this.

        How many lines went. Raises OSError, StoreError; the old one stands then.
        """
        disk, new, old_files = self._disk, NEW + secrets.token_hex(8), set(self.vectors.files)
        lines = [_head_line(self.id, self.floor, self.notes.arrivals)]
        for note in sorted(self.notes.notes.values(), key=lambda note: note.place[1]):
            lines.append(put_line(note.item, note.decoded(), note.place[1]))
        try:
            for info in embedders:
                lines += self._vectors_anew(info)
            journal = Journal.make(disk, self.folder, new, secrets.token_hex(16))
            try:
                for texts in _batches(encode_json(line) for line in lines):
                    journal.append([Batch(texts, (), 0)], sync=False)
                journal.sync()
            finally:
                journal.close()
            disk.sync_folder(self.folder)
            disk.rename(self.folder, new, self.folder, NOTES_JOURNAL)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.unlink(self.folder, new)
            raise
        disk.sync_folder(self.folder)
        for name in old_files:
            with contextlib.suppress(OSError):
                disk.unlink(self.folder, name)
        gone = self._lines - len(lines)
        self.refresh()
        return gone

    def _vectors_anew(self, info: EmbedderInfo) -> list[Line]:
        table = self.vectors.table(info)
        notes = [
            (note.item.key, note.item.version)
            for note in self.notes.notes.values()
            if note.item.key in table
        ]
        vectors = [vector for key, _ in notes if (vector := table.get(key)) is not None]
        return Vectors(self._disk, self.folder).write(info, notes, vectors)

    @property
    def files(self) -> frozenset[str]:
        """The files that the namespace consists of."""
        return frozenset({NOTES_JOURNAL, *self.vectors.files})

    def strangers(self) -> list[str]:
        """What is in the folder and bears no name that we give."""
        names = self._disk.names(self.folder)
        return [name for name in names if not name.startswith((NEW, VECTORS, NOTES_JOURNAL))]

    # Reading

    def lacking(self, info: EmbedderInfo, most: int) -> list[StoredMemory]:
        """Up to ``most`` notes that have no vector of this embedder, without their metadata."""
        table = self.vectors.table(info)
        if len(table) == len(self.notes.notes):
            return []
        lacking = (note.item for key, note in self.notes.notes.items() if key not in table)
        return list(islice(lacking, most))


def _head_line(id: str, floor: int, arrivals: int) -> Line:
    return {"namespace": id, "format": FORMAT, "floor": floor, "arrivals": arrivals}


def _batches(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(texts)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch
