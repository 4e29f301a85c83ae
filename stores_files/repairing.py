"""Saving what damage has left: whole batches into a new run, and names that were lost.

``python -m stores_files`` is the command line for it.
"""

import contextlib
import secrets
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from stores_core.errors import InvalidRequestError, StoreError
from stores_core.values import micros, system_clock
from stores_files.commits import EVENTS, MESSAGES, PREFIX, Batch, Commit, is_whole, parsed
from stores_files.disk import Disk, NotAFileError
from stores_files.failures import nothing_applied
from stores_files.headers import Header, Range, from_json
from stores_files.journal import Journal
from stores_files.layout import HEADER, JOURNAL, LOGS, RESULTS, RUNS
from stores_files.links import is_refused
from stores_files.listing import line_of
from stores_files.logs import free, fresh, journals_of, new_id
from stores_files.making import claim
from stores_files.names import name_of
from stores_files.places import NEW, Place, read_json
from stores_files.result_folders import StoredResult
from stores_files.run_folders import log_of, shared_name
from stores_files.scanning import SCANNED
from stores_files.storage import Tenant

KINDS = (MESSAGES, EVENTS)

MAX_BATCH = 20_000
"""Lines that a batch may have: messages and events of the largest that an option allows."""


@dataclass
class Saved:
    """How many messages and events a repair saved, and a sentence for each loss."""

    counts: list[int] = field(default_factory=lambda: [0, 0])
    losses: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the damaged run's folder, and how many entries it has of it; None: all."""

    file: str
    journal: str
    kind: int
    length: int | None = None


def repair_run(tenant: Tenant, run_id: str, new_run_id: str) -> Saved:
    """Make a new run of the whole batches that a damaged one still has.

    Nothing that does not fit its sum is taken. The new run's parent is the damaged one, up to the
    first message that is lost. Raises InvalidRequestError where there is no such run, or the new
    one is there already.
    """
    with nothing_applied(), tenant.entered() as place:
        if place is None or place.disk.identity_of(place[RUNS], name_of(run_id)) is None:
            raise InvalidRequestError(field="run", found="no such run", allowed="one that is there")
        with _held(place, tenant, run_id) as folder:
            return _repaired(place, tenant, folder, run_id, new_run_id)


@contextlib.contextmanager
def _held(place: Place, tenant: Tenant, run_id: str) -> Generator[int]:
    disk = place.disk
    with (
        disk.opened(disk.open_folder(place[RUNS], name_of(run_id))) as folder,
        disk.locked(folder, tenant.storage.lock_timeout, shared=True),
    ):
        yield folder


def _repaired(place: Place, tenant: Tenant, folder: int, run_id: str, new_run_id: str) -> Saved:
    saved = Saved()
    labels, parts = _parts(place, folder, saved)
    journal, leading = fresh(place), [0, 0]
    try:
        for kind in KINDS:
            of_kind = [part for part in parts if part.kind == kind]
            leading[kind] = _save(place, folder, of_kind, kind, journal, saved)
        moment = micros(system_clock())
        header = Header(
            id=new_run_id,
            generation=new_id(),
            journal=new_id(),
            created=moment,
            updated=moment,
            labels=labels,
            parent=run_id,
            fork_point=leading[MESSAGES],
            ranges=(_all_of(journal, MESSAGES), _all_of(journal, EVENTS)),
        )
        journal.settle()
        if not claim(place, tenant, header):
            raise InvalidRequestError(field="new", found="a run that is there", allowed="a new id")
    finally:
        journal.close()
        free(place, journal.id)
    return saved


def _parts(place: Place, folder: int, saved: Saved) -> tuple[dict[str, str], list[Part]]:
    """The run's labels, and what it reads, oldest first."""
    try:
        header = from_json(read_json(place.disk, folder, HEADER))
    except (StoreError, ValueError, FileNotFoundError):
        saved.losses.append("run.json: labels, and all that came from other runs")
        own = Journal.id_of(place.disk, folder, JOURNAL)
        return {}, [Part(JOURNAL, own, kind) for kind in KINDS]
    shared = [part for ranges in header.ranges for part in ranges]
    parts = [
        Part(shared_name(each.journal), each.journal, each.kind, each.length) for each in shared
    ]
    parts += [Part(JOURNAL, header.journal, kind) for kind in KINDS]
    return dict(header.labels), parts


def _save(
    place: Place, folder: int, parts: Sequence[Part], kind: int, into: Journal, saved: Saved
) -> int:
    """Copy what some parts have of one kind; how many entries come before the first loss."""
    position, leading = 0, -1
    for part in parts:
        expected = 0
        for first, texts in _whole(place, folder, part, kind):
            if first > expected and leading < 0:
                leading = saved.counts[kind]
            _lose(saved, kind, position + expected, position + first)
            texts = texts[max(0, expected - first) :]
            into.append([_batch(kind, texts)], sync=False)
            saved.counts[kind] += len(texts)
            expected = first + len(texts)
        end = expected if part.length is None else part.length
        if end > expected and leading < 0:
            leading = saved.counts[kind]
        _lose(saved, kind, position + expected, position + end)
        position += end
    return saved.counts[kind] if leading < 0 else leading


def _lose(saved: Saved, kind: int, begin: int, end: int) -> None:
    if begin < end:
        saved.losses.append(f"{('messages', 'events')[kind]} {begin} to {end - 1}")


def _whole(place: Place, folder: int, part: Part, kind: int) -> Iterator[tuple[int, list[bytes]]]:
    """The position in its journal and the entries of each whole batch that the run has."""
    disk, expected = place.disk, 0
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(disk.opened(disk.open_file(folder, part.file)))
        except (FileNotFoundError, NotAFileError):
            return
        for commit, entries in _batches(disk, file, part.journal):
            skipped = 0 if kind == MESSAGES else commit.number(MESSAGES)
            texts = entries[skipped : skipped + commit.number(kind)]
            first = commit.first(kind)
            stop = len(texts) if part.length is None else part.length - first
            texts = texts[: max(0, stop)]
            if texts and first >= expected:
                yield first, texts
                expected = first + len(texts)


def _batches(disk: Disk, file: int, log: str) -> Iterator[tuple[Commit, list[bytes]]]:
    """The whole batches of a journal, wherever they stand."""
    lines: deque[bytes] = deque(maxlen=MAX_BATCH)
    for offset, line in _lines(disk, file):
        if not line.startswith(PREFIX):
            lines.append(line)
            continue
        commit = parsed(log, line, offset, anywhere=True)
        if commit is not None:
            number = commit.number(MESSAGES) + commit.number(EVENTS)
            entries = list(lines)[max(0, len(lines) - number) :]
            if len(entries) == number and is_whole(b"".join(entries), line):
                yield commit, [entry[:-1] for entry in entries]
        lines.clear()


def _lines(disk: Disk, file: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that end, each with its offset."""
    pending, offset = b"", 0
    while part := disk.read(file, offset + len(pending), SCANNED):
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            yield offset, line + b"\n"
            offset += len(line) + 1


def _batch(kind: int, texts: Sequence[bytes]) -> Batch:
    return Batch(texts, (), 0) if kind == MESSAGES else Batch((), texts, 0)


def _all_of(journal: Journal, kind: int) -> list[Range]:
    if not journal.length(kind):
        return []
    commit = journal.commit_of(kind, journal.length(kind) - 1).offset
    return [Range(log_of(journal.id, kind), journal.id, kind, commit, journal.length(kind))]


def repair_links(tenant: Tenant) -> int:
    """List what is missing from its listing, and give journals their names back; how many.

    A copy of the folder that did not keep hard links has several files where one should be.
    """
    mended = 0
    with nothing_applied(), tenant.entered(alone=True) as place:
        if place is None:
            return 0
        headers = dict(_headers(place))
        for name, header in headers.items():
            entry = header.id, header.generation
            if not tenant.listing.lists(place.folder, entry):
                line = line_of(*entry, header.created, header.labels, parent=header.parent)
                tenant.listing.add(place.folder, line)
                mended += 1
            mended += _linked(place, name, JOURNAL, shared_name(header.journal))
        for name, header in headers.items():
            for journal in sorted(journals_of(header) - {header.journal}):
                mended += _linked(place, name, shared_name(journal), shared_name(journal))
        for stored in _results(place):
            if not tenant.result_listing.lists(place.folder, (stored.ref, stored.generation)):
                tenant.result_listing.add(place.folder, stored.line())
                mended += 1
    return mended


def _headers(place: Place) -> Iterator[tuple[str, Header]]:
    for name in place.disk.names(place[RUNS]):
        with contextlib.suppress(StoreError, ValueError, OSError):
            yield name, _header(place, name)


def _results(place: Place) -> Iterator[StoredResult]:
    disk = place.disk
    for name in disk.names(place[RESULTS]):
        with (
            contextlib.suppress(StoreError, OSError),
            disk.opened(disk.open_folder(place[RESULTS], name)) as folder,
        ):
            stored = StoredResult.read(place, folder)
            yield stored


def _header(place: Place, name: str) -> Header:
    with place.disk.opened(place.disk.open_folder(place[RUNS], name)) as folder:
        return from_json(read_json(place.disk, folder, HEADER))


def _linked(place: Place, run: str, name: str, log: str) -> bool:
    """Let a file of a run and one of the logs be the same; whether they were not."""
    disk, logs = place.disk, place[LOGS]
    with disk.opened(disk.open_folder(place[RUNS], run)) as folder:
        ours, theirs = disk.identity_of(folder, name), disk.identity_of(logs, log)
        if ours is None or ours == theirs:
            return False
        if theirs is None or disk.size_of(folder, name) > disk.size_of(logs, log):
            return _replaced_by_link(place, folder, name, logs, log)
        return _replaced_by_link(place, logs, log, folder, name)


def _replaced_by_link(place: Place, folder: int, name: str, to: int, to_name: str) -> bool:
    new = NEW + secrets.token_hex(8)
    try:
        place.disk.link(folder, name, to, new)
    except OSError as error:
        if not is_refused(error):
            raise
        return False  # as it is to be on this disk
    place.disk.rename(to, new, to, to_name)
    place.disk.sync_folder(to)
    return True
