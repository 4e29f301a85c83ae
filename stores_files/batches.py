"""The entries of batches, in bytes that were read of a journal."""

from collections.abc import Iterator, Sequence

from stores_core.errors import CorruptRecordError
from stores_files.commits import Commit, is_whole

_READ = 1 << 22
"""Bytes of bodies that are read at a time, unless one batch has more."""


def check(commit: Commit, data: bytes, start: int) -> None:
    """Raise CorruptRecordError where a batch does not fit its sum; ``data`` begins at ``start``."""
    begin, offset, end = commit.begin - start, commit.offset - start, commit.end - start
    is_right = is_whole(memoryview(data)[begin:offset], data[offset:end])
    if not is_right or data.count(b"\n", begin, offset) != commit.entries:
        raise corrupt(f"the batch at byte {commit.begin} does not fit its sum")


def lines_of(data: bytes, begin: int, end: int, number: int, low: int, high: int) -> list[bytes]:
    """Some of the lines between two offsets; of the newest few, without a copy of all."""
    if 4 * (high - low) > number:
        return data[begin:end].split(b"\n")[low:high]
    for _ in range(high, number):
        end = data.rfind(b"\n", begin, end - 1) + 1 or begin
    begin, first = end, begin
    for _ in range(low, high):
        begin = data.rfind(b"\n", first, begin - 1) + 1 or first
    return data[begin:end].split(b"\n")[:-1]


def neighbours(commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    """Commits that follow each other in the file, so that one read brings them all."""
    group: list[Commit] = []
    for commit in commits:
        if group and (group[-1].end != commit.begin or commit.end - group[0].begin > _READ):
            yield group
            group = []
        group.append(commit)
    if group:
        yield group


def corrupt(what: str) -> CorruptRecordError:
    """The error of a journal of which something cannot be read."""
    return CorruptRecordError(
        f"a journal cannot be read: {what}; `verify` lists all damage, `repair` saves the rest"
    )
