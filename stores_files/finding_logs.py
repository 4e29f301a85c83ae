"""Which file holds a log, as exports and imports name it."""

import contextlib
from collections.abc import Generator
from typing import NamedTuple

from stores_core.errors import StoreError
from stores_files.commits import EVENTS, MESSAGES
from stores_files.headers import from_json
from stores_files.journal import Journal
from stores_files.layout import HEADER, JOURNAL, LOGS, RUNS
from stores_files.places import Place, read_json
from stores_files.run_folders import log_of, shared_name

Found = tuple[Journal, int]
"""An open journal, and as which kind of entries it holds the log."""


@contextlib.contextmanager
def among_logs(place: Place, log: str) -> Generator[Found | None]:
    """The journal that holds a log under its own name; None where there is none."""
    found = _found(place, log)
    try:
        yield found
    finally:
        if found is not None:
            found[0].close()


def _found(place: Place, log: str) -> Found | None:
    # An imported log is a journal of its name; one that was written here is half of a journal.
    named = [(log, MESSAGES)]
    named += [(log[:-1], kind) for kind in (MESSAGES, EVENTS) if log == log_of(log[:-1], kind)]
    for name, kind in named:
        with contextlib.suppress(FileNotFoundError):
            journal = Journal.open(place.disk, place[LOGS], shared_name(name))
            if journal.id == name:
                return journal, kind
            journal.close()
    return None


class _Home(NamedTuple):
    """A file in the folder of a run. ``limit`` is the last commit that it has, None: it grows."""

    run: str
    file: str
    kind: int
    limit: int | None
    length: int


class Homes:
    """Finds logs in the folders of runs too: on a disk without links they have no other name."""

    def __init__(self) -> None:
        self._homes: dict[str, _Home] = {}

    def forget(self) -> None:
        """Look again at the next question."""
        self._homes = {}

    @contextlib.contextmanager
    def opened(self, place: Place, log: str) -> Generator[Found | None]:
        """The journal that holds most of a log; None where there is none."""
        with among_logs(place, log) as found:
            if found is not None:
                yield found
                return
        if log not in self._homes:
            self._homes = _homes(place)
        found = _at_home(place, self._homes.get(log))
        if found is None:
            self._homes.pop(log, None)  # its run was deleted, or is not there at all
            yield None
            return
        with contextlib.closing(found[0]):
            yield found


def _homes(place: Place) -> dict[str, _Home]:
    homes: dict[str, _Home] = {}
    for name in place.disk.names(place[RUNS]):
        with (
            contextlib.suppress(StoreError, ValueError, OSError),
            place.disk.opened(place.disk.open_folder(place[RUNS], name)) as folder,
        ):
            header = from_json(read_json(place.disk, folder, HEADER))
            for kind, ranges in enumerate(header.ranges):
                own = log_of(header.journal, kind)
                homes[own] = _Home(name, JOURNAL, kind, None, 0)
                for part in ranges:
                    file = shared_name(part.journal)
                    home = _Home(name, file, part.kind, part.commit, part.length)
                    there = homes.setdefault(part.log, home)
                    if there.limit is not None and there.length < home.length:
                        homes[part.log] = home
    return homes


def _at_home(place: Place, home: _Home | None) -> Found | None:
    if home is not None:
        with (
            contextlib.suppress(FileNotFoundError),
            place.disk.opened(place.disk.open_folder(place[RUNS], home.run)) as folder,
        ):
            journal = Journal.open(place.disk, folder, home.file, limit=home.limit)
            return journal, home.kind
    return None
