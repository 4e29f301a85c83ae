"""Notes as they are stored: a record of numbers and texts, a vector with its note's place."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from stores_core.codec import decode_json
from stores_core.embedding import Vector
from stores_core.errors import CorruptRecordError
from stores_core.memory import StoredMemory
from stores_core.shape import EPOCH, replaced
from stores_core.values import filter_digests, from_micros

_SHIFT = 10**17  # makes every time of the years 1 to 9999 a positive number of 18 digits


def time_text(time: int) -> str:
    """Microseconds as 18 digits that sort as text."""
    return f"{time + _SHIFT:018d}"


class Note(NamedTuple):
    """A note as it is stored.

    ``place`` is where it stands in listings, ``serial`` which change of the namespace made it so.
    ``texts`` are metadata and value, None where they are apart and were not read. ``id`` is of this
    version alone: what is apart of it is found under it.
    """

    key: str
    version: int
    place: bytes
    updated: int
    serial: int
    metadata_size: int
    size: int
    id: bytes
    texts: bytes | None

    @classmethod
    def read(cls, key: bytes, record: bytes, texts: bytes = b"") -> "Note":
        """A record as a script gives it. Raises CorruptRecordError."""
        name = key.decode()
        try:
            head, _, inside = record.partition(b"\n")
            version, created, arrival, updated, serial, part, size, id = head.split(b" ")
            held = inside or texts or None
            note = cls(
                name, int(version), created + arrival, int(updated) - _SHIFT, int(serial),
                int(part), int(size), id, held,
            )  # fmt: skip
        except ValueError as error:
            raise CorruptRecordError(store="memory", id=name) from error
        if held is not None and len(held) != note.size:
            raise CorruptRecordError(store="memory", id=name)
        return note

    @property
    def whole_size(self) -> int:
        """Bytes of its texts and key, for the ends of pages."""
        return self.size + len(self.key.encode())

    @property
    def created(self) -> int:
        return int(self.place[:18]) - _SHIFT

    def metadata(self) -> dict[str, Any]:
        text = (self.texts or b"")[: self.metadata_size]
        if text == b"{}":
            return {}
        try:
            return decode_json(text)
        except ValueError as error:
            raise CorruptRecordError(store="memory", id=self.key) from error

    def value(self) -> str:
        try:
            return (self.texts or b"")[self.metadata_size :].decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(store="memory", id=self.key) from error

    def stored(self) -> StoredMemory:
        """The note as it is handed out."""
        # Not checked again: a long listing would spend most of its time on that.
        fields = {
            "key": self.key,
            "value": self.value(),
            "metadata": self.metadata(),
            "created_at": from_micros(self.created),
            "updated_at": from_micros(self.updated),
            "version": self.version,
        }
        return replaced(_NO_NOTE, fields)


_NO_NOTE = StoredMemory(key="-", value="", created_at=EPOCH, updated_at=EPOCH, version=0)


def digests_of(metadata: Mapping[str, object]) -> list[bytes]:
    """The digests of what ``where`` can ask for, 16 bytes each."""
    return sorted(bytes.fromhex(digest) for digest in filter_digests(metadata))


def vector_text(vector: Vector, metadata: Mapping[str, object]) -> bytes:
    """A vector as it is stored: with the digests of the note's metadata behind it."""
    return vector.astype("<f4").tobytes() + b"".join(digests_of(metadata))
