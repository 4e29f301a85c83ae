"""A journal: a file of batches that only grows, one JSON line for each entry.

The file begins with a line that names the journal. Each batch ends with its commit (see
stores_files.commits), and what has none does not count: so a batch is there whole or not at all. A
tail that a crash left torn is passed over by readers and cut off by the next writer, so that
nothing is ever glued to it. A batch that a later write followed was on the disk before that one
began; where it does not fit its sum it is damaged, and nothing skips it.

Whoever calls holds the lock of the run: shared to read, alone to append.
"""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice

from stores_core.codec import decode_json, encode_json
from stores_core.errors import OutcomeUnknownError
from stores_files.batches import check, corrupt, lines_of, neighbours
from stores_files.commits import (
    EVENTS,
    KEYS,
    LONGEST,
    MESSAGES,
    Batch,
    Commit,
    parsed,
    written,
)
from stores_files.disk import Disk
from stores_files.failures import meaning, unknown
from stores_files.scanning import SCANNED, Found, scan

FORMAT = 1

_USUAL = 512
"""Bytes that the line of a commit seldom exceeds."""

_MANY = 1_000
"""Entries of a read beyond which all commits are looked up in one pass."""

_REMEMBERED = 4_096
"""So many commits of a journal are kept in memory."""

_NEAR = 32
"""So many commits are followed one by one before a search begins."""


def heading(id: str) -> bytes:
    """The first line of a journal."""
    return encode_json({"journal": id, "format": FORMAT}) + b"\n"


class Journal:
    """One open file. ``limit`` is the offset of the last commit that counts here; None: the newest.

    ``last`` is that commit, ``torn`` how many bytes behind it are no whole batch.
    """

    def __init__(self, disk: Disk, file: int, id: str, limit: int | None = None) -> None:
        self._disk, self._file, self.id = disk, file, id
        self._limit = limit
        self._head = len(heading(id))
        self.last: Commit | None = None
        self.torn = 0
        self._size = 0
        self._known: dict[int, Commit] = {}
        self._damaged = False
        self._settled = 0

    @classmethod
    def make(cls, disk: Disk, folder: int, name: str, id: str) -> "Journal":
        """A new file, not yet on the disk for certain."""
        file = disk.make_file(folder, name)
        try:
            disk.write(file, 0, heading(id))
        except BaseException:
            disk.close(file)
            with contextlib.suppress(OSError):
                disk.unlink(folder, name)
            raise
        journal = cls(disk, file, id)
        journal._size = journal._head
        return journal

    @classmethod
    def open(cls, disk: Disk, folder: int, name: str, *, limit: int | None = None) -> "Journal":
        """An existing file. Raises CorruptRecordError, OSError."""
        file = disk.open_file(folder, name)
        try:
            journal = cls(disk, file, _named(disk.read(file, 0, LONGEST)), limit)
            journal.refresh()
        except BaseException:
            disk.close(file)
            raise
        return journal

    @staticmethod
    def id_of(disk: Disk, folder: int, name: str) -> str:
        """The id of an existing file. Raises CorruptRecordError, OSError."""
        with disk.opened(disk.open_file(folder, name)) as file:
            return _named(disk.read(file, 0, LONGEST))

    def close(self) -> None:
        self._disk.close(self._file)

    def length(self, kind: int) -> int:
        """How many messages, or events, count."""
        return self.last.length(kind) if self.last else 0

    @property
    def end(self) -> int:
        return self.last.end if self.last else self._head

    # Where it ends

    def refresh(self) -> None:
        """Look at what others have appended since. Raises CorruptRecordError."""
        if self._limit is not None:
            if self.last is None:
                self.last = self.commit_at(self._limit)
            return
        size = self._disk.size(self._file)
        if size == self._size and not self.torn:
            return  # a torn tail may have made way for a batch of as many bytes
        if size < self.end:
            raise corrupt("it is shorter than what was committed")
        self._take_newest(size)
        self._size = size

    def _take_newest(self, size: int) -> None:
        newest = self._commit_at_end(size)
        if newest is not None and self._last_write_is_whole(newest):
            self.last, self.torn = newest, 0
            return
        for commit, whole in self._scan(self.end, size):
            if commit.group > self.end:
                # A later write stands behind what does not fit: that was on the disk before.
                raise corrupt(f"at byte {self.end} stands no whole batch, and some follow")
            if not whole or commit.begin != self.end:
                continue
            if any(commit.first(kind) != self.length(kind) for kind in (MESSAGES, EVENTS)):
                raise corrupt(f"the batch at byte {commit.begin} has other positions")
            self.last = commit
        self.torn = size - self.end

    def _commit_at_end(self, size: int) -> Commit | None:
        tail = self._disk.read(self._file, max(self._head, size - LONGEST), LONGEST)
        if not tail.endswith(b"\n"):
            return None
        line = tail[tail.rfind(b"\n", 0, len(tail) - 1) + 1 :]
        commit = parsed(self.id, line, size - len(line))
        return commit if commit and commit.begin >= self._head else None

    def _last_write_is_whole(self, newest: Commit) -> bool:
        # After a power cut its last line may be there and a block before it not.
        expected = max(newest.group, self.end)
        for commit, whole in self._scan(expected, newest.end):
            if not whole or commit.begin != expected:
                return False
            expected = commit.end
        return expected == newest.end

    def _scan(self, begin: int, end: int, *, checked: bool = True) -> Iterator[Found]:
        return scan(self._disk, self._file, self.id, begin, end, checked=checked)

    # Appending

    def append(self, batches: Sequence[Batch], *, sync: bool = True) -> list[Commit]:
        """Write batches, all in one write and one sync; the commits.

        Raises StoreUnavailableError where nothing of it counts, and OutcomeUnknownError where
        nobody knows; after that the file takes no more (see :attr:`is_spent`).
        """
        if self._limit is not None or self._damaged:
            raise OutcomeUnknownError("the journal failed before and takes no more")
        group = begin = self.end
        previous, parts, commits = self.last, list[bytes](), list[Commit]()
        for batch in batches:
            lines, commit = written(self.id, batch, previous, begin, group)
            parts.append(lines)
            commits.append(commit)
            previous, begin = commit, commit.end
        self._write(b"".join(parts), group, sync=sync)
        self.last, self._size, self.torn = previous, begin, 0
        if sync:
            self._settled = begin
        for commit in commits:
            self._remember(commit)
        return commits

    def _write(self, data: bytes, offset: int, *, sync: bool) -> None:
        try:
            if self._size > offset:
                self._disk.truncate(self._file, offset)
                self._size = offset
                if sync:
                    # Or a crash could bring back what was cut off, behind what is written now.
                    self.sync()
            self._disk.write(self._file, offset, data)
        except OSError as error:
            try:
                self._disk.truncate(self._file, offset)
            except OSError:
                # All of it may stand there, and would count.
                self._damaged = True
                raise unknown(error) from error
            self._size = offset
            raise meaning(error) from error
        if sync:
            self.sync()

    def sync(self) -> None:
        """Let all that was written survive a crash of the machine."""
        try:
            self._disk.sync(self._file)
        except OSError as error:
            # The system may now take the lost pages for written: a second sync proves nothing.
            self._damaged = True
            raise unknown(error) from error

    def settle(self) -> None:
        """Let all that counts survive a crash of the machine, whoever wrote it.

        One who was killed before the sync has left what others see and nobody has promised.
        """
        if self._limit is not None or self.last is None or self.end <= self._settled:
            return
        try:
            self._disk.sync(self._file)
        except OSError as error:
            self._damaged = True
            raise meaning(error) from error
        self._settled = self.end

    @property
    def is_spent(self) -> bool:
        """Whether a sync failed, so that the file must not be written to again."""
        return self._damaged

    # Reading

    def read(self, kind: int, begin: int, stop: int) -> list[bytes]:
        """The messages, or events, from ``begin`` to ``stop``, at a cost that follows their number.

        Raises CorruptRecordError for a batch that does not fit its sum.
        """
        return [entry for page in self.pages(kind, begin, stop) for entry in page]

    def pages(self, kind: int, begin: int, stop: int) -> Iterator[list[bytes]]:
        """The same, some batches at a time."""
        for commits in neighbours(self._covering(kind, begin, stop)):
            start, entries = commits[0].begin, list[bytes]()
            data = self._disk.read(self._file, start, commits[-1].end - start)
            for commit in commits:
                check(commit, data, start)
                skipped = 0 if kind == MESSAGES else commit.number(MESSAGES)
                first = commit.first(kind)
                low, high = max(begin - first, 0), min(stop - first, commit.number(kind))
                span = commit.begin - start, commit.offset - start
                entries += lines_of(data, *span, commit.entries, skipped + low, skipped + high)
            yield entries

    def _covering(self, kind: int, begin: int, stop: int) -> list[Commit]:
        """The commits with entries of a kind between these positions, oldest first."""
        if begin >= stop:
            return []
        found: list[Commit] = []
        if stop - begin > _MANY:
            # One pass over the file is quicker than following each commit to the one before it.
            for commit, _ in self._scan(self.commit_of(kind, begin).begin, self.end, checked=False):
                if commit.number(kind):
                    found.append(commit)
                if commit.length(kind) >= stop:
                    break
            return found
        for commit in self.chain(kind, self.commit_of(kind, stop - 1)):
            found.append(commit)
            if commit.first(kind) <= begin:
                break
        return found[::-1]

    def commit_of(self, kind: int, position: int) -> Commit:
        """The commit that brought this entry, which is there; found in few reads.

        The newest are looked at one by one, those far back by halving the file.
        """
        for commit in islice(self.chain(kind), _NEAR):
            if commit.first(kind) <= position:
                return commit
        low, high = self._head, self.end
        while high - low > SCANNED:
            middle = (low + high) // 2
            commit = next(self._commits_from(middle, high), None)
            if commit is None or commit.length(kind) > position:
                high = middle
            else:
                low = commit.end
        for commit in self._commits_from(low, self.end):
            if commit.length(kind) > position:
                return commit
        raise corrupt(f"the batch with entry {position} is missing")

    def _commits_from(self, offset: int, end: int) -> Iterator[Commit]:
        """The commits whose lines begin behind an offset, which may lie inside a line."""
        data = self._disk.read(self._file, offset, LONGEST)
        skipped = data.find(b"\n") + 1 if offset > self._head else 0
        while offset > self._head and not skipped and len(data) == LONGEST:
            offset += LONGEST
            data = self._disk.read(self._file, offset, LONGEST)
            skipped = data.find(b"\n") + 1
        for commit, _ in self._scan(offset + skipped, end, checked=False):
            self._remember(commit)
            yield commit

    def chain(self, kind: int, newest: Commit | None = None) -> Iterator[Commit]:
        """The commits with messages, events or a key, newest first; no bodies are read."""
        commit = newest or self.last
        if commit is None:
            return
        offset = commit.chain()[kind]
        while offset:
            commit = self.commit_at(offset)
            yield commit
            offset = commit.before[kind]

    def keyed(self, most: int) -> list[Commit]:
        """The latest commits with a key, newest first."""
        found: list[Commit] = []
        for commit in self.chain(KEYS):
            if len(found) == most:
                break
            found.append(commit)
        return found

    def commit_at(self, offset: int) -> Commit:
        """The commit whose line stands at this offset. Raises CorruptRecordError."""
        commit = self._known.get(offset)
        if commit is None:
            line = self._disk.read(self._file, offset, _USUAL)
            if b"\n" not in line:
                line = self._disk.read(self._file, offset, LONGEST)
            commit = parsed(self.id, line[: line.find(b"\n") + 1], offset)
            if commit is None:
                raise corrupt(f"at byte {offset} should stand a commit")
            self._remember(commit)
        return commit

    def _remember(self, commit: Commit) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[commit.offset] = commit


def _named(data: bytes) -> str:
    try:
        found = decode_json(data.partition(b"\n")[0])
        id, format = str(found["journal"]), int(found["format"])
    except (ValueError, TypeError, KeyError) as error:
        raise corrupt("its first line does not say which journal it is") from error
    if format != FORMAT:
        raise corrupt(f"it has the format {format}, this code knows {FORMAT}")
    return id
