"""What writers leave behind that end in the middle of their work, and removing it.

It never counts: no run, result or listing refers to it. Files that are not ours stay.
"""

import contextlib
from collections.abc import Collection
from datetime import datetime

from stores_core.errors import CorruptRecordError
from stores_core.moving import STAGED_FOR
from stores_core.values import micros
from stores_files.commits import EVENTS, MESSAGES, Commit
from stores_files.journal import Journal, heading
from stores_files.layout import (
    CONTENTS,
    ENDING,
    LOGS,
    REST,
    RESULT,
    RESULTS,
    RUNS,
    STAGING,
    TEXT,
    TRASH,
)
from stores_files.logs import free_file
from stores_files.names import id_of
from stores_files.places import NEW, Place, read_json, remove_folder
from stores_files.result_folders import entered
from stores_files.run_folders import run_in, shared_name
from stores_files.storage import Storage, Tenant

BUILT_FOR = 3600.0
"""Seconds after which what was being built is taken for given up."""

RESULT_FILES = 3
"""So many files has the folder of a result."""


def remove_left_overs(place: Place, tenant: Tenant, now: datetime) -> tuple[int, int]:
    """How many files went, and how many entries in journals that nobody came to read."""
    files = (
        _unfinished(place)
        + _unfinished_tenants(tenant.storage)
        + _strays_of_runs(place, tenant)
        + _strays_of_results(place, tenant)
    )
    return files + _unused_contents(place), _stale_imports(place, now)


def _unfinished(place: Place) -> int:
    """What was being removed, and what somebody began to build long ago."""
    disk, gone = place.disk, 0
    for name in disk.names(place[TRASH]):
        with contextlib.suppress(FileNotFoundError):
            gone += remove_folder(disk, place[TRASH], name)
    for name in disk.names(place[STAGING]):
        with contextlib.suppress(FileNotFoundError):
            if disk.age(place[STAGING], name) > BUILT_FOR:
                gone += remove_folder(disk, place[STAGING], name)
    for name in disk.names(place.folder):
        with contextlib.suppress(FileNotFoundError):
            if name.startswith(NEW) and disk.age(place.folder, name) > BUILT_FOR:
                disk.unlink(place.folder, name)
                gone += 1
    return gone


def _unfinished_tenants(storage: Storage) -> int:
    """Folders of tenants that were being made, or erased."""
    disk, gone = storage.disk, 0
    for name in disk.names(storage.tenants):
        with contextlib.suppress(FileNotFoundError):
            if name.startswith(NEW) and disk.age(storage.tenants, name) > BUILT_FOR:
                gone += remove_folder(disk, storage.tenants, name)
    return gone


def _unused_contents(place: Place) -> int:
    """Bodies that a writer left behind when it ended."""
    disk, gone = place.disk, 0
    for name in disk.names(place[CONTENTS]):
        with contextlib.suppress(FileNotFoundError):
            unused = name.startswith(NEW) or disk.links_of(place[CONTENTS], name) == 1
            if unused and disk.age(place[CONTENTS], name) > BUILT_FOR:
                # Whoever links to it meanwhile keeps it under the name that it gave.
                disk.unlink(place[CONTENTS], name)
                gone += 1
    return gone


def _stale_imports(place: Place, now: datetime) -> int:
    """Journals that an import or a copy brought and that no run ever came to read."""
    disk, entries, horizon = place.disk, 0, micros(now - STAGED_FOR)
    for name in disk.names(place[LOGS]):
        if not name.endswith(ENDING):
            continue
        with contextlib.suppress(FileNotFoundError):
            if disk.links_of(place[LOGS], name) > 1:
                continue
            last = _last_of(place, name)
            if last is not None and last.at < horizon:
                disk.unlink(place[LOGS], name)
                entries += last.length(MESSAGES) + last.length(EVENTS)
                continue
            is_old = disk.age(place[LOGS], name) > STAGED_FOR.total_seconds()
            if last is None and is_old and is_ours(place, name):
                disk.unlink(place[LOGS], name)
    return entries


def is_ours(place: Place, name: str) -> bool:
    """Whether a file among the logs begins as a journal of its name, as far as it was written."""
    id = id_of(name.removesuffix(ENDING))
    if id is None:  # a name that does not tell the id whole
        try:
            return shared_name(Journal.id_of(place.disk, place[LOGS], name)) == name
        except CorruptRecordError:
            return False
    wanted = heading(id)
    with place.disk.opened(place.disk.open_file(place[LOGS], name)) as file:
        found = place.disk.read(file, 0, len(wanted))
    return all(byte in (0, right) for byte, right in zip(found, wanted, strict=False))


def _last_of(place: Place, name: str) -> Commit | None:
    """The last batch of a journal; None where it has none that is whole."""
    try:
        journal = Journal.open(place.disk, place[LOGS], name)
    except CorruptRecordError:
        return None
    try:
        return journal.last
    finally:
        journal.close()


def _strays_of_runs(place: Place, tenant: Tenant) -> int:
    """Files of ours in the folders of runs that the runs do not refer to."""
    gone = 0
    for name in place.disk.names(place[RUNS]):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, CorruptRecordError):
            if any(each.startswith(NEW) for each in _names(place, RUNS, name)):
                gone += _tidy_run(place, tenant, run_in(place, name))
    return gone


def _tidy_run(place: Place, tenant: Tenant, id: str) -> int:
    with tenant.folders.entered(place, id, alone=True) as run:
        if run is None:
            return 0
        strays = [
            name
            for name in place.disk.names(run.folder)
            if name.startswith(NEW) or (name.endswith(ENDING) and name not in run.names())
        ]
        for name in sorted(strays, reverse=True):  # the mark, which begins with a dot, last
            place.disk.unlink(run.folder, name)
            if name.endswith(ENDING):
                free_file(place, name)
        return len(strays)


def _strays_of_results(place: Place, tenant: Tenant) -> int:
    """Files of ours in the folders of results that belong to no result that counts."""
    disk, gone = place.disk, 0
    for name in disk.names(place[RESULTS]):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, CorruptRecordError):
            if len(_names(place, RESULTS, name)) > RESULT_FILES:
                with disk.opened(disk.open_folder(place[RESULTS], name)) as folder:
                    ref = str(read_json(disk, folder, RESULT)["ref"])
                with entered(place, tenant, ref, alone=True) as found:
                    if found is not None:
                        stored, folder = found
                        gone += _remove_all_but(place, folder, [RESULT, *stored.names()])
    return gone


def _remove_all_but(place: Place, folder: int, kept: Collection[str]) -> int:
    """Strangers' files stay: ours are named after what they are to be, or were."""
    gone = 0
    for name in place.disk.names(folder):
        ours = name.startswith(NEW) or name.endswith(tuple(f"-{each}" for each in (TEXT, REST)))
        if ours and name not in kept:
            place.disk.unlink(folder, name)
            gone += 1
    return gone


def _names(place: Place, within: str, name: str) -> list[str]:
    with place.disk.opened(place.disk.open_folder(place[within], name)) as folder:
        return place.disk.names(folder)
