"""Notes on their way in, as scripts are given them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stores_core.codec import encode_json
from stores_core.embedding import Vector
from stores_redis.notes import time_text, vector_text
from stores_redis.scripts import Arg

APART_BYTES = 1024
"""Longer texts are not in a note's record, so that no script that reads many records moves much."""

SENT_BYTES = 512 * 1024
"""Where a batch is larger, most of it is sent before the script that puts it."""

PUT_AT_ONCE = 500
"""A batch of more notes than one script puts without holding the server up is laid out, see
note_batches.py."""

SENT_APART_BYTES = 256
"""Texts so long, and all vectors, are sent before then."""


class NewNote(NamedTuple):
    """A note on its way in; times are in microseconds, ``version`` is None for the next one."""

    key: str
    value: str
    metadata: Mapping[str, Any]
    created: int
    updated: int
    version: int | None = None
    vector: Vector | None = None


class Outgoing(NamedTuple):
    """A note as it is sent: its texts, how many bytes of them are metadata, its vector or b""."""

    texts: bytes
    metadata_size: int
    vector: bytes

    @classmethod
    def of(cls, note: NewNote) -> "Outgoing":
        metadata = encode_json(note.metadata)
        vector = b"" if note.vector is None else vector_text(note.vector, note.metadata)
        return cls(metadata + note.value.encode(), len(metadata), vector)

    def size(self) -> int:
        return len(self.texts) + len(self.vector)

    @property
    def is_sent_apart(self) -> bool:
        return len(self.texts) > SENT_APART_BYTES

    def given(self, note: NewNote, *, sends: bool, embedded: bool) -> Sequence[Arg]:
        """What the script is told of the note."""
        where, texts, vector = "in", self.texts, self.vector if embedded else b""
        if sends and self.is_sent_apart:
            where, texts = "sent", b""
        elif len(texts) > APART_BYTES:
            where = "apart"
        return (
            note.key, time_text(note.created), time_text(note.updated),
            "" if note.version is None else note.version,
            f"{self.metadata_size} {len(self.texts)}", where, texts,
            "sent" if sends and vector else vector,
        )  # fmt: skip


class Batch:
    """Notes on their way in together. ``sends`` says that most of it is sent before."""

    def __init__(self, new: Sequence[NewNote]) -> None:
        self._new, self.at = new, new[0].updated
        self.outgoing = [Outgoing.of(note) for note in new]
        self.is_laid_out = len(new) > PUT_AT_ONCE
        self.sends = self.is_laid_out or sum(map(Outgoing.size, self.outgoing)) > SENT_BYTES

    def fields(self, *, embedded: bool) -> list[Arg]:
        """What a script is told of the notes, as notes_writing.lua has it."""
        return [
            part
            for note, outgoing in zip(self._new, self.outgoing, strict=True)
            for part in outgoing.given(note, sends=self.sends, embedded=embedded)
        ]
