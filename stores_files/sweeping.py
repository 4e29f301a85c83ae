"""Freeing what nothing can reach, within a budget."""

import contextlib
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import datetime

from stores_core.errors import CorruptRecordError
from stores_core.retention import Retention
from stores_files.commits import EVENTS, MESSAGES
from stores_files.disk import Disk
from stores_files.headers import Header, Range, as_json, from_json
from stores_files.journal import Journal
from stores_files.layout import HEADER, LOGS, RUNS
from stores_files.left_overs import remove_left_overs
from stores_files.links import link_or_copy
from stores_files.logs import LOOSE, copied, free, tidied
from stores_files.note_sweeping import sweep_notes
from stores_files.places import Place, read_json, replace
from stores_files.run_folders import log_of, shared_name
from stores_files.storage import Tenant
from stores_files.tool_results import retain

REWRITTEN = 4096
"""Bytes of a batch beyond which it is not kept whole for the sake of a part of it."""


def sweep(
    tenant: Tenant, retention: Retention, now: datetime, budget: int
) -> tuple[dict[str, int], bool]:
    """What was freed, by kind, and whether the budget ended before the work."""
    freed: Counter[str] = Counter()
    with tenant.entered() as place:
        if place is None:
            return {}, False
        freed["tool_results"] += retain(place, tenant, retention, now, budget)
        files, entries = remove_left_overs(place, tenant, now)
        freed["files"] += files
        freed["entries"] += entries
        freed["files"] += sweep_notes(place, tenant)
        loose = [name for name in place.disk.names(place[LOGS]) if name.endswith(LOOSE)]
        needs: Needs = {}
        seen = _look(place, needs, set()) if loose else set[str]()
        tenant.listing.shorten(place.folder)
        tenant.result_listing.shorten(place.folder)
    left = budget - freed["tool_results"]
    taken = loose[: max(0, left)]
    if taken and seen is not None:
        # Nobody may fork or import now. Who did since the first look needs no more than those
        # that were looked at then, unless it was an import.
        with tenant.entered(alone=True) as place:
            if place is not None and _look(place, needs, seen) is not None:
                for name in taken:
                    freed["entries"] += _trim(place, name.removesuffix(LOOSE), needs)
    kinds = {kind: count for kind, count in freed.items() if count}
    return kinds, left <= 0 or len(taken) < len(loose)


@dataclass
class Need:
    """How far the runs read one journal: the offset of a commit, the messages and the events.

    ``names`` are those of these runs' folders; ``whole`` says that one of them writes to it.
    """

    commit: int = 0
    counts: tuple[int, int] = (0, 0)
    names: set[str] = field(default_factory=set[str])
    whole: bool = False

    def add(self, name: str, part: Range) -> None:
        self.commit = max(self.commit, part.commit)
        messages, events = self.counts
        if part.kind == MESSAGES:
            self.counts = max(messages, part.length), events
        else:
            self.counts = messages, max(events, part.length)
        self.names.add(name)


Needs = dict[str, Need]
"""By the id of the journal."""


def _look(place: Place, needs: Needs, known: set[str]) -> set[str] | None:
    """Add what the runs that are not ``known`` need; the names of all runs.

    None where a run cannot be read: nobody knows what it needs, so nothing may be cut.
    """
    names = set(place.disk.names(place[RUNS]))
    for name in names - known:
        try:
            header = _header(place, name)
        except FileNotFoundError:
            continue
        except (CorruptRecordError, ValueError, OSError):
            return None
        needs.setdefault(header.journal, Need()).whole = True
        for part in [*header.ranges[MESSAGES], *header.ranges[EVENTS]]:
            needs.setdefault(part.journal, Need()).add(name, part)
    return names


def _header(place: Place, name: str) -> Header:
    with place.disk.opened(place.disk.open_folder(place[RUNS], name)) as folder:
        return from_json(read_json(place.disk, folder, HEADER))


def _trim(place: Place, name: str, needs: Needs) -> int:
    """Cut what nobody reads off a journal; how many entries that were. The tenant is ours alone."""
    disk, logs, cut = place.disk, place[LOGS], 0
    with contextlib.suppress(FileNotFoundError), _opened(disk, logs, name) as journal:
        need = needs.get(journal.id)
        if need is None:
            free(place, journal.id)
        elif not need.whole:
            held = journal.length(MESSAGES) + journal.length(EVENTS)
            last = journal.commit_at(need.commit)
            surplus = last.length(MESSAGES) + last.length(EVENTS) - sum(need.counts)
            if surplus and last.offset - last.begin > REWRITTEN:
                _move_users(place, journal, need)
                cut = held - sum(need.counts)
            elif last.end < journal.end:
                disk.cut(logs, name, last.end)
                cut = held - last.length(MESSAGES) - last.length(EVENTS)
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(logs, name + LOOSE)
    return cut


def _move_users(place: Place, journal: Journal, need: Need) -> None:
    """Copy what is needed to a fresh journal, and let each run read that.

    Where this is cut off, some runs read the one and some the other, and the next sweep goes on.
    """
    disk, logs = place.disk, place[LOGS]
    fresh = copied(place, journal, need.counts)
    for name in sorted(need.names):
        with disk.opened(disk.open_folder(place[RUNS], name)) as folder:
            header = from_json(read_json(disk, folder, HEADER))
            header.ranges = (
                [_moved(part, journal, fresh) for part in header.ranges[MESSAGES]],
                [_moved(part, journal, fresh) for part in header.ranges[EVENTS]],
            )
            with tidied(place, folder):
                with contextlib.suppress(FileExistsError):
                    link_or_copy(disk, logs, shared_name(fresh.id), folder, shared_name(fresh.id))
                disk.sync_folder(folder)  # before the file that speaks of it
                replace(disk, folder, HEADER, as_json(header))
                with contextlib.suppress(FileNotFoundError):
                    disk.unlink(folder, shared_name(journal.id))
    fresh.close()
    free(place, journal.id)


def _moved(part: Range, journal: Journal, fresh: Journal) -> Range:
    if part.journal != journal.id:
        return part
    commit = fresh.commit_of(part.kind, part.length - 1).offset
    return Range(log_of(fresh.id, part.kind), fresh.id, part.kind, commit, part.length)


@contextlib.contextmanager
def _opened(disk: Disk, folder: int, name: str) -> Generator[Journal]:
    journal = Journal.open(disk, folder, name)
    try:
        yield journal
    finally:
        journal.close()
