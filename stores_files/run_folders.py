"""The folder of one run."""

import contextlib
from collections.abc import Generator

from stores_core.errors import CorruptRecordError
from stores_core.keys import KEYS_KEPT
from stores_core.moving import KeyRecord
from stores_core.runs import RunInfo
from stores_core.shape import EPOCH, replaced
from stores_core.values import from_micros
from stores_files.commits import EVENTS, MESSAGES, Commit
from stores_files.disk import Disk
from stores_files.headers import Header, Range, from_json
from stores_files.journal import Journal
from stores_files.layout import ENDING, HEADER, JOURNAL, RUNS
from stores_files.names import id_of, name_of
from stores_files.places import Place, read_json, read_json_of

_NO_RUN = RunInfo(id="-", created_at=EPOCH, updated_at=EPOCH)


def shared_name(journal: str) -> str:
    """What a journal that a run shares is called in the run's folder, and in that of logs."""
    return name_of(journal) + ENDING


def run_in(place: Place, name: str) -> str:
    """The id of the run whose folder bears this name. Raises CorruptRecordError, OSError."""
    id = id_of(name)
    if id is not None:
        return id
    with place.disk.opened(place.disk.open_folder(place[RUNS], name)) as folder:
        try:
            return from_json(read_json(place.disk, folder, HEADER)).id
        except ValueError as error:
            raise CorruptRecordError("a run.json is no JSON; `verify` names it") from error


class RunFolder:
    """One run as this process knows it."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk = disk
        self.folder = folder
        self.header: Header
        self.own: Journal | None = None
        self.is_unsettled = False
        """Whether the name of its own journal may not be on the disk."""
        self._read_from: int | None = None
        self._read_as: tuple[int, int] | None = None
        self._keys: tuple[int, dict[str, KeyRecord]] = (-1, {})

    @property
    def id(self) -> str:
        return self.header.id

    def close(self) -> None:
        if self.own is not None:
            self.own.close()
        if self._read_from is not None:
            self._disk.close(self._read_from)

    def refresh(self) -> None:
        """Look at what others have changed. Raises CorruptRecordError, OSError."""
        seen = self._disk.identity_of(self.folder, HEADER)
        if seen is None:
            raise CorruptRecordError("the folder of a run has no run.json; `verify` names it")
        if seen[:2] != self._read_as:
            self._read_header()
        if self.own is not None:
            self.own.refresh()
        else:
            with contextlib.suppress(FileNotFoundError):
                own = Journal.open(self._disk, self.folder, JOURNAL)
                if own.id == self.header.journal:
                    self.own = own
                else:  # set aside, and cut off before its name was taken away
                    own.close()

    def _read_header(self) -> None:
        file = self._disk.open_file(self.folder, HEADER)
        try:
            self.header = from_json(read_json_of(self._disk, file))
        except BaseException as error:
            self._disk.close(file)
            if isinstance(error, ValueError):
                raise CorruptRecordError("a run.json is damaged; `verify` names it") from error
            raise
        # Held open, so that no other file can get its number and be taken for it.
        if self._read_from is not None:
            self._disk.close(self._read_from)
        self._read_from, self._read_as = file, self._disk.identity(file)[:2]
        self._keys = (-1, {})
        if self.own is not None and self.own.id != self.header.journal:
            self.own.close()
            self.own = None

    def count(self, kind: int) -> int:
        """How many messages, or events, the run has."""
        return self.header.base(kind) + (self.own.length(kind) if self.own else 0)

    @property
    def updated(self) -> int:
        last = self.own.last if self.own else None
        return last.at if last and last.end > self.header.after else self.header.updated

    def info(self) -> RunInfo:
        """The header, as it is handed out."""
        header = self.header
        # Not checked again: a listing would spend most of its time on that.
        fields = {
            "id": header.id,
            "parent_id": header.parent,
            "fork_point": header.fork_point,
            "created_at": from_micros(header.created),
            "updated_at": from_micros(self.updated),
            "labels": dict(header.labels),
            "message_count": self.count(MESSAGES),
            "event_count": self.count(EVENTS),
        }
        return replaced(_NO_RUN, fields)

    def read(self, kind: int, begin: int, stop: int) -> list[bytes]:
        """The entries from ``begin`` to ``stop``, at a cost that follows their number."""
        entries: list[bytes] = []
        start = 0
        for part in self.header.ranges[kind]:
            end = start + part.length
            if start < stop and begin < end:
                entries += self._read_shared(
                    part, max(begin, start) - start, min(stop, end) - start
                )
            start = end
        if self.own is not None and start < stop:
            entries += self.own.read(kind, max(begin - start, 0), stop - start)
        if len(entries) != stop - begin:
            raise CorruptRecordError(store="runs", id=self.header.id, position=begin + len(entries))
        return entries

    def _read_shared(self, part: Range, begin: int, stop: int) -> list[bytes]:
        with self.journal_of(part) as journal:
            return journal.read(part.kind, begin, stop)

    def ending(self, part: Range) -> Range:
        """The same range, with the commit that brings its last entry."""
        with self.journal_of(part) as journal:
            return part._replace(commit=journal.commit_of(part.kind, part.length - 1).offset)

    @contextlib.contextmanager
    def journal_of(self, part: Range) -> Generator[Journal]:
        """The journal that holds a range of this run."""
        if self.own is not None and self.own.id == part.journal:
            yield self.own
            return
        journal = self._shared(part)
        try:
            yield journal
        finally:
            journal.close()

    def _shared(self, part: Range) -> Journal:
        name = shared_name(part.journal)
        try:
            return Journal.open(self._disk, self.folder, name, limit=part.commit)
        except FileNotFoundError as error:
            raise CorruptRecordError(
                "a journal that a run reads is missing from its folder; `verify` names it"
            ) from error

    def keys(self) -> dict[str, KeyRecord]:
        """The live keys, oldest first."""
        end = self.own.end if self.own else 0
        if self._keys[0] != end:
            own = self.own.keyed(KEYS_KEPT) if self.own else []
            records = [*self.header.keys, *(self._record(commit) for commit in reversed(own))]
            self._keys = (end, {record.key: record for record in records[-KEYS_KEPT:]})
        return self._keys[1]

    def _record(self, commit: Commit) -> KeyRecord:
        return KeyRecord(
            key=commit.key,
            digest=commit.digest,
            message_count=self.header.base(MESSAGES) + commit.length(MESSAGES),
            event_count=self.header.base(EVENTS) + commit.length(EVENTS),
        )

    def names(self) -> set[str]:
        """The files that belong to the run."""
        shared = {shared_name(part.journal) for parts in self.header.ranges for part in parts}
        return {HEADER, *([JOURNAL] if self.own is not None else []), *shared}

    def ranges(self, kind: int) -> list[Range]:
        """All that the run reads, what it wrote itself last."""
        ranges = list(self.header.ranges[kind])
        if self.own is not None and self.own.last is not None and self.own.length(kind):
            log = log_of(self.own.id, kind)
            end = self.own.last.offset
            ranges.append(Range(log, self.own.id, kind, end, self.own.length(kind)))
        return ranges


def log_of(journal: str, kind: int) -> str:
    """The id that the messages, or the events, of a journal of ours have as a log."""
    return journal + "me"[kind]
