"""Reading every record of a tenant, and listing what is damaged."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from stores_core.admin import Problem
from stores_core.codec import decode_event, decode_message
from stores_core.errors import CorruptRecordError, StoreError
from stores_files.commits import EVENTS, MESSAGES
from stores_files.headers import from_json
from stores_files.layout import (
    CATALOG,
    CONTENTS,
    ENDING,
    HEADER,
    LOGS,
    NOTES,
    NOTES_STATE,
    RESULT_CATALOG,
    RESULTS,
    RUNS,
    STAGING,
    TENANT,
    TRASH,
)
from stores_files.logs import LOOSE
from stores_files.names import id_of
from stores_files.places import NEW, Place, read_json
from stores_files.run_folders import RunFolder
from stores_files.storage import Tenant

PAGE = 1_000
"""So many entries are read at a time."""

_OURS = {
    CATALOG, CONTENTS, LOGS, NOTES, NOTES_STATE, RESULT_CATALOG, RESULTS, RUNS, STAGING, TENANT,
    TRASH,
}  # fmt: skip
_DECODERS = {MESSAGES: decode_message, EVENTS: decode_event}


class Findings:
    """What was checked, by kind, and what was found."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.problems: list[Problem] = []

    def check(self, store: str, id: str, work: Callable[[], object], position: int = -1) -> None:
        """Note a problem if ``work`` meets one."""
        try:
            work()
        except StoreError as error:
            self.add(store, id, str(error), position)

    def add(self, store: str, id: str, what: str, position: int = -1) -> None:
        self.problems.append(Problem(store=store, id=id, position=position, what=what))


def verify_runs(tenant: Tenant, findings: Findings) -> None:
    """Every header, journal and entry, and what is in the folders that is not ours."""
    with tenant.entered() as place:
        if place is None:
            return
        for name in sorted(place.disk.names(place.folder)):
            if name not in _OURS and not name.startswith(NEW):
                findings.add("files", name, "a strange file or folder; it was left alone")
        for name in sorted(place.disk.names(place[LOGS])):
            if not name.endswith((ENDING, LOOSE)):
                findings.add("files", name, "a strange file among the logs; it was left alone")
        names = sorted(place.disk.names(place[RUNS]))
    for name in names:
        with tenant.entered() as place:
            if place is not None:
                _verify_run(place, tenant, name, findings)


def _verify_run(place: Place, tenant: Tenant, name: str, findings: Findings) -> None:
    try:
        run_id = id_of(name) or _id_within(place, name)
    except (StoreError, OSError, ValueError):
        findings.add("files", name, "a strange thing among the runs; it was left alone")
        return
    findings.checked["runs"] += 1
    try:
        with tenant.folders.entered(place, run_id) as run:
            if run is not None:
                _verify_logs(run, findings)
    except StoreError as error:
        findings.add("runs", run_id, str(error))
    except OSError as error:
        findings.add("runs", run_id, f"its folder cannot be read ({type(error).__name__})")


def _id_within(place: Place, name: str) -> str:
    """The id that a run whose name was shortened has inside."""
    with place.disk.opened(place.disk.open_folder(place[RUNS], name)) as folder:
        return from_json(read_json(place.disk, folder, HEADER)).id


def _verify_logs(run: RunFolder, findings: Findings) -> None:
    if run.own is not None and run.own.torn:
        what = f"{run.own.torn} bytes at the end of its journal are no whole batch and do not count"
        findings.add("runs", run.header.id, what)
    for kind, decode in _DECODERS.items():
        count = run.count(kind)
        for start in range(0, count, PAGE):
            try:
                texts = run.read(kind, start, min(count, start + PAGE))
            except CorruptRecordError as error:
                findings.add("runs", run.header.id, str(error), start)
                continue
            findings.checked["entries"] += len(texts)
            for position, text in enumerate(texts, start):
                findings.check("runs", run.header.id, partial(decode, text), position)
