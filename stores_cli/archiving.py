"""An archive that is being written, and goes on where it was after a cut.

It is a row of zstd frames, each of whole lines and on the disk before the next is begun, and bears
the name FILE.part until its last line is there. Whoever goes on reads the whole frames, cuts off
what is behind them, and passes over the records that they hold.
"""

import hashlib
import os
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard

from stores_cli.archive import FORMAT, VERSION, line_of, parsed, piece_of
from stores_cli.comparing import NOTE
from stores_cli.transfer import Lengths, Piece, Record, Tally
from stores_core.codec import canonical, encode_json
from stores_core.errors import InvalidRequestError
from stores_core.limits import MIB
from stores_core.moving import (
    ImportEntriesRequest,
    ImportMemoriesRequest,
    ImportRunRequest,
    MemoryRecord,
)

FRAME_BYTES = 4 * MIB
"""Of text: so much, and a piece, is at most written again after a cut."""

_CHUNK = 1 << 16
_LEVEL = 6
_DIGEST = 16


@contextmanager
def written(path: Path, header: Mapping[str, object], *, replace: bool) -> "Generator[Archive]":
    """An archive for its owner alone, which bears the name ``path`` once it is whole.

    One of the same ``header`` that was begun and not ended is gone on with. Raises
    InvalidRequestError where a file is there and not to ``replace``.
    """
    if path.exists() and not replace:
        raise InvalidRequestError(
            field="FILE", found="a file that is there already", allowed="another name, or --force"
        )
    part = path.with_name(path.name + ".part")
    with os.fdopen(_private(part), "r+b") as file:
        archive = Archive(file, header)
        try:
            yield archive
            archive.end()
        except OSError:  # as of a full disk
            raise
        except BaseException:
            archive.save()
            raise
    part.replace(path)


def _private(path: Path) -> int:
    """The file, opened; made anew where what is there is not a file of ours alone."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        found = os.fstat(opened)
        ours = not hasattr(os, "geteuid") or (
            found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
        )
        if ours and stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return opened
        os.close(opened)
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


class Archive:
    """A sink for pieces, in a file that holds what an earlier call left.

    The header says what is exported, so that no other export goes on with it.
    """

    def __init__(self, file: BinaryIO, header: Mapping[str, object]) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=32)
        self._lines = 0
        self._tenant: str | None = None
        self._tallies: dict[str | None, Tally] = {}
        self._lengths = Lengths()
        self._known = np.empty(0, dtype=f"S{_DIGEST}")
        self._unsaved = 0
        first = encode_json({"format": FORMAT, "version": VERSION, **header}) + b"\n"
        end = self._replay(first)
        self.resumed = end > 0
        """Whether an earlier call had written some of it."""
        file.seek(end)
        file.truncate()
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._packed = compressor.stream_writer(file, closefd=False)
        if not self.resumed:
            self._write(first)

    @property
    def tally(self) -> Tally:
        """What the archive holds of the present tenant."""
        return self._tallies.setdefault(self._tenant, Tally())

    async def lacks(self, record: Record) -> bool:
        if not len(self._known):
            return True
        digest = _digest(self._tenant, record)
        place = int(np.searchsorted(self._known, digest))
        # What numpy gives back has lost the zeros at its end.
        return place == len(self._known) or self._known[place] != digest.rstrip(b"\0")

    async def reached(self, log: str) -> int:
        return self._lengths.get(self._named(log)) or 0

    async def put(self, piece: Piece) -> None:
        self._write(encode_json(line_of(piece)) + b"\n")
        self._count(piece)
        if self._unsaved >= FRAME_BYTES:
            self.save()

    async def finish(self) -> None:
        """Nothing waits."""

    def begin(self, tenant: str) -> None:
        """All that comes now is of this tenant, by name."""
        self._tenant = tenant
        self._write(encode_json({"tenant": tenant}) + b"\n")

    def end(self) -> None:
        """The last line, without which an archive is a torn one."""
        last = {"lines": self._lines, "digest": self._digest.hexdigest()}
        self._write(encode_json(last) + b"\n")
        self.save()

    def save(self) -> None:
        """End the frame, and see it to the disk."""
        if self._unsaved:
            self._packed.flush(zstandard.FLUSH_FRAME)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._unsaved = 0

    def _write(self, text: bytes) -> None:
        self._take(text)
        self._packed.write(text)
        self._unsaved += len(text)

    def _take(self, text: bytes) -> None:
        self._digest.update(text)
        self._lines += 1

    def _named(self, log: str) -> str:
        return f"{self._tenant!r} {log}"

    def _count(self, piece: Piece) -> None:
        counts = self.tally.counts
        if isinstance(piece, ImportEntriesRequest):
            self._lengths.set(self._named(piece.log), piece.start + len(piece.entries))
            counts["entries"] += len(piece.entries)
        elif isinstance(piece, ImportRunRequest):
            counts["runs"] += 1
        elif isinstance(piece, ImportMemoriesRequest):
            counts["notes"] += len(piece.memories)
        else:
            counts["results"] += len(piece.results)

    def _replay(self, first: bytes) -> int:
        """Take in what the file holds already; where that ends. 0 where it is another export's."""
        digests, end = bytearray(), 0
        for texts, behind in _frames(self._file):
            if end == 0:
                if texts[0] != first:
                    return 0
                self._take(texts.pop(0))
            lines = [parsed(text) for text in texts]
            if lines and "digest" in lines[-1]:  # the last line, which comes anew
                break
            for text, line in zip(texts, lines, strict=True):
                self._take(text)
                if "tenant" in line:
                    self._tenant = line["tenant"]
                    continue
                piece = piece_of(line)
                self._count(piece)
                for record in _records(piece):
                    digests += _digest(self._tenant, record)
            end = behind
        self._known = np.sort(np.frombuffer(bytes(digests), dtype=self._known.dtype))
        self._tenant = None
        return end


def _records(piece: Piece) -> Sequence[Record]:
    if isinstance(piece, ImportEntriesRequest):
        return ()
    if isinstance(piece, ImportRunRequest):
        return (piece.run,)
    return piece.memories if isinstance(piece, ImportMemoriesRequest) else piece.results


def _digest(tenant: str | None, record: Record) -> bytes:
    text = NOTE.text(record) if isinstance(record, MemoryRecord) else canonical(record).encode()
    return hashlib.blake2b(f"{tenant!r} ".encode() + text, digest_size=_DIGEST).digest()


def _frames(file: BinaryIO) -> Generator[tuple[list[bytes], int]]:
    """The lines of each whole frame, with the position behind it; all from a torn one on is left.

    Each frame bears a checksum.
    """
    unpacker, texts = zstandard.ZstdDecompressor().decompressobj(), list[bytes]()
    chunk = file.read(_CHUNK)
    while chunk:
        try:
            texts.append(unpacker.decompress(chunk))
        except zstandard.ZstdError:
            return
        if unpacker.eof:
            behind = unpacker.unused_data
            yield b"".join(texts).splitlines(keepends=True), file.tell() - len(behind)
            unpacker, texts = zstandard.ZstdDecompressor().decompressobj(), []
            chunk = behind or file.read(_CHUNK)
        else:
            chunk = file.read(_CHUNK)
