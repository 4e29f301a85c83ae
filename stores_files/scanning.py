"""Finding commits in a file by reading it through, whatever else stands there."""

from collections.abc import Iterator

from stores_files.commits import LONGEST, PREFIX, Commit, is_whole, parsed
from stores_files.disk import Disk

SCANNED = 1 << 18
"""Bytes that are read at a time."""

Found = tuple[Commit, bool]
"""What looks like a commit, and whether its sum fits."""


def scan(
    disk: Disk, file: int, log: str, begin: int, end: int, *, checked: bool = True
) -> Iterator[Found]:
    """The commits of a journal whose lines stand between two offsets.

    ``begin`` is where a line begins. Without ``checked`` no sums are looked at, and all fit; with
    it those are found too that cannot be where they stand.
    """
    pending, offset, is_long = b"", begin, False
    while offset < end:
        part = disk.read(file, offset, min(SCANNED, end - offset))
        if not part:
            break
        start = offset - len(pending)
        data, at = pending + part, 0
        offset += len(part)
        while (stop := data.find(b"\n", at)) >= 0:
            if not is_long and data.startswith(PREFIX, at):
                line = data[at : stop + 1]
                commit = parsed(log, line, start + at, anywhere=checked)
                if commit is not None and not checked:
                    yield commit, True
                elif commit is not None and commit.begin >= begin:
                    size = commit.offset - commit.begin
                    if size > at:
                        entries = disk.read(file, commit.begin, size)
                    else:
                        entries = data[at - size : at] if size > 0 else b""
                    yield commit, size >= 0 and is_whole(entries, line)
            is_long, at = False, stop + 1
        pending = data[at:]
        if len(pending) > LONGEST:  # no commit is that long, so nothing of it is needed
            pending, is_long = b"", True
