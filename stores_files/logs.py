"""Journals as files of a tenant: making, sharing, joining and freeing them.

Each journal has its own name in the folder of logs, and one more in the folder of each run that
reads it. So the system counts the users, and a journal whose only name is its own is free. On a
disk that gives no second name a journal lies in the folder of its run, and forks have copies.
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Generator, Sequence

from stores_core.errors import StoreError
from stores_core.ranges import MAX_RANGES, join
from stores_core.values import micros, system_clock
from stores_files.commits import EVENTS, MESSAGES, Batch, Commit
from stores_files.failures import perhaps_applied
from stores_files.headers import Header, Range, as_json
from stores_files.journal import Journal
from stores_files.layout import HEADER, JOURNAL, LOGS
from stores_files.links import copy, is_refused, link_or_copy, link_or_move
from stores_files.places import NEW, Place, replace
from stores_files.run_folders import RunFolder, log_of, shared_name

LOOSE = ".loose"
"""What the name of such a mark ends in."""

_NAMES = 2
"""So many names has a journal that one run reads."""


def new_id() -> str:
    """An id for a journal or a generation, that no other storage has."""
    return secrets.token_hex(16)


def append(place: Place, run: RunFolder, batches: Sequence[Batch]) -> list[Commit]:
    """Write to the run's own journal, which is made if this is its first batch.

    Raises StoreUnavailableError where nothing was applied, OutcomeUnknownError where nobody knows.
    """
    if run.own is not None:
        if run.is_unsettled:
            place.disk.sync_folder(run.folder)
            run.is_unsettled = False
        try:
            return run.own.append(batches)
        except StoreError:
            if run.own.is_spent:
                with contextlib.suppress(OSError, StoreError):
                    seal(place, run)
            raise
    disk, logs, name = place.disk, place[LOGS], shared_name(run.header.journal)
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(logs, name)  # an earlier try did not come to its end
    journal = Journal.make(disk, logs, name, run.header.journal)
    try:
        commits = journal.append(batches)
        disk.sync_folder(logs)
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(run.folder, JOURNAL)  # one that was set aside
        link_or_move(disk, logs, name, run.folder, JOURNAL)
    except BaseException:
        journal.close()
        with contextlib.suppress(OSError):
            disk.unlink(logs, name)
        raise
    run.own, run.is_unsettled = journal, True
    with perhaps_applied():
        disk.sync_folder(run.folder)
    run.is_unsettled = False
    return commits


def seal(place: Place, run: RunFolder) -> None:
    """Copy what counts of the run's own journal, of which a sync failed, to a fresh one.

    The system may take lost pages for written, so nothing may rely on that file any more. Of a
    batch that was not synced, what others have seen since is kept.
    """
    if run.own is None:
        return
    ranges = [list(run.header.ranges[kind]) for kind in (MESSAGES, EVENTS)]
    with tidied(place, run.folder):
        for kind, own in enumerate(run.ranges(kind)[len(ranges[kind]) :] for kind in (0, 1)):
            if own:
                ranges[kind].append(_joined(place, run, kind, own))
        _set_aside(place, run, (ranges[MESSAGES], ranges[EVENTS]))


@contextlib.contextmanager
def tidied(place: Place, folder: int) -> Generator[None]:
    """While shared journals come and go a mark stands there: after a crash, sweep looks."""
    mark = NEW + secrets.token_hex(8)
    place.disk.close(place.disk.make_file(folder, mark))
    yield
    place.disk.unlink(folder, mark)


def _set_aside(
    place: Place, run: RunFolder, ranges: tuple[Sequence[Range], Sequence[Range]]
) -> None:
    """The run's header says what it reads from now on, and its own journal is another one."""
    keys = list(run.keys().values())
    header = dataclasses.replace(
        run.header, journal=new_id(), updated=run.updated, after=0, keys=keys, ranges=ranges
    )
    place.disk.sync_folder(run.folder)  # before the file that speaks of what was linked
    replace(place.disk, run.folder, HEADER, as_json(header))
    with contextlib.suppress(FileNotFoundError):
        place.disk.unlink(run.folder, JOURNAL)
    run.refresh()


def share(place: Place, source: RunFolder | None, parts: Sequence[Range], folder: int) -> None:
    """Give a new run's folder a name for each journal that it reads, or a copy of what it reads.

    Raises TooManyNamesError where a fresh copy for the source could be shared again.
    """
    disk, where = place.disk, place[LOGS] if source is None else source.folder
    for journal in dict.fromkeys(part.journal for part in parts):
        own = source is not None and source.own is not None and source.own.id == journal
        file, name = JOURNAL if own else shared_name(journal), shared_name(journal)
        try:
            disk.link(where, file, folder, name)
        except OSError as error:
            if not is_refused(error):
                raise
            if source is not None and disk.links_of(where, file) > _NAMES:
                raise TooManyNamesError from error
            commit = max(part.commit for part in parts if part.journal == journal)
            with contextlib.closing(Journal.open(disk, where, file, limit=commit)) as opened:
                end = opened.end
            copy(disk, where, file, folder, name, end)


class TooManyNamesError(Exception):
    """The disk allows no more names for a journal that was to be shared."""


def make_room(place: Place, run: RunFolder, *, copy_all: bool = False) -> bool:
    """Join ranges of a run, which is held alone, by copying; whether there was need.

    The run itself takes the joined ranges over, or each further fork of it would copy again.
    ``copy_all`` copies each journal once to a fresh file.
    """
    ranges = [run.ranges(kind) for kind in (MESSAGES, EVENTS)]
    if not copy_all and max(map(len, ranges)) < MAX_RANGES:
        return False
    with tidied(place, run.folder):
        _join(place, run, ranges, copy_all=copy_all)
    return True


def _join(
    place: Place, run: RunFolder, ranges: Sequence[Sequence[Range]], *, copy_all: bool
) -> None:
    joined: list[list[Range]] = []
    for kind, parts in enumerate(ranges):
        groups = join([part.length for part in parts])
        joined.append([])
        for first, last in groups:
            if last - first == 1 and not copy_all:
                joined[kind].append(parts[first])
            else:
                joined[kind].append(_joined(place, run, kind, parts[first:last]))
    own = run.own.id if run.own else ""
    if any(part.journal == own for kind in joined for part in kind):
        link_or_copy(place.disk, run.folder, JOURNAL, run.folder, shared_name(own))
    _set_aside(place, run, (joined[MESSAGES], joined[EVENTS]))
    used = {shared_name(part.journal) for kind in joined for part in kind}
    for journal in {part.journal for kind in ranges for part in kind} - {own}:
        if shared_name(journal) not in used:
            with contextlib.suppress(FileNotFoundError):
                place.disk.unlink(run.folder, shared_name(journal))
            free(place, journal)
    if own:
        free(place, own)


def _joined(place: Place, run: RunFolder, kind: int, parts: Sequence[Range]) -> Range:
    """The entries of some ranges in one fresh journal, which the run shares."""
    journal = fresh(place)
    try:
        for part in parts:
            with run.journal_of(part) as source:
                _copy(source, journal, kind, part.length)
        count = _finished(place, journal).length(kind)
        name = shared_name(journal.id)
        link_or_move(place.disk, place[LOGS], name, run.folder, name)
        commit = journal.commit_of(kind, count - 1).offset
    finally:
        journal.close()
    return Range(log_of(journal.id, kind), journal.id, kind, commit, count)


def copied(place: Place, source: Journal, counts: tuple[int, int]) -> Journal:
    """The first messages and events of a journal in a fresh one. The caller closes it."""
    journal = fresh(place)
    try:
        for kind, count in enumerate(counts):
            _copy(source, journal, kind, count)
        return _finished(place, journal)
    except BaseException:
        journal.close()
        raise


def fresh(place: Place) -> Journal:
    """A new journal that no run reads yet. The caller closes it."""
    id = new_id()
    return Journal.make(place.disk, place[LOGS], shared_name(id), id)


def _copy(source: Journal, journal: Journal, kind: int, count: int) -> None:
    at = micros(system_clock())
    for texts in source.pages(kind, 0, count):
        batch = Batch(texts, [], at) if kind == MESSAGES else Batch([], texts, at)
        journal.append([batch], sync=False)


def _finished(place: Place, journal: Journal) -> Journal:
    journal.settle()
    place.disk.sync_folder(place[LOGS])
    return journal


def free(place: Place, journal: str) -> bool:
    """Remove a journal that no run reads; whether it was removed.

    One that others read may hold more than they need, and is marked for sweep to look at.
    """
    return free_file(place, shared_name(journal))


def free_file(place: Place, name: str) -> bool:
    """The same by the name of the file."""
    disk, logs = place.disk, place[LOGS]
    try:
        with disk.opened(disk.open_file(logs, name)) as file:
            if disk.links(file) > 1:
                with contextlib.suppress(FileExistsError):
                    disk.close(disk.make_file(logs, name + LOOSE))
                return False
        disk.unlink(logs, name)
    except FileNotFoundError:
        return False
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(logs, name + LOOSE)
    return True


def journals_of(header: Header) -> set[str]:
    """The ids of all journals that a run reads or writes."""
    return {header.journal, *(part.journal for parts in header.ranges for part in parts)}
