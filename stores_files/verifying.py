"""Reading every record of a tenant, and listing what is damaged."""

from functools import partial

from stores_core.codec import decode_event, decode_message
from stores_core.errors import CorruptRecordError, StoreError
from stores_core.findings import Findings
from stores_files import links
from stores_files.commits import EVENTS, MESSAGES
from stores_files.layout import (
    CATALOG,
    CONTENTS,
    ENDING,
    HEADER,
    JOURNAL,
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
from stores_files.left_overs import is_ours
from stores_files.logs import LOOSE
from stores_files.names import name_of
from stores_files.places import NEW, Place
from stores_files.run_folders import RunFolder, run_in, shared_name
from stores_files.storage import Tenant

PAGE = 1_000
"""So many entries are read at a time."""

_OURS = {
    CATALOG, CONTENTS, LOGS, NOTES, NOTES_STATE, RESULT_CATALOG, RESULTS, RUNS, STAGING, TENANT,
    TRASH,
}  # fmt: skip
_DECODERS = {MESSAGES: decode_message, EVENTS: decode_event}


def verify_runs(tenant: Tenant, findings: Findings) -> None:
    """Every header, journal and entry, and what is in the folders that is not ours."""
    with tenant.entered() as place:
        if place is None:
            return
        for name in sorted(place.disk.names(place.folder)):
            if name not in _OURS and not name.startswith(NEW):
                findings.add("files", name, "a strange file or folder; it was left alone")
        for name in sorted(place.disk.names(place[LOGS])):
            if not name.endswith((ENDING, LOOSE)) or not _is_ours(place, name):
                findings.add("files", name, "a strange file among the logs; it was left alone")
        names = sorted(place.disk.names(place[RUNS]))
    for name in names:
        with tenant.entered() as place:
            if place is not None:
                _verify_run(place, tenant, name, findings)


def _is_ours(place: Place, name: str) -> bool:
    try:
        return name.endswith(LOOSE) or is_ours(place, name)
    except FileNotFoundError:
        return True  # freed meanwhile
    except OSError:
        return False


def _verify_run(place: Place, tenant: Tenant, name: str, findings: Findings) -> None:
    disk = place.disk
    try:
        run_id = run_in(place, name)
    except (StoreError, OSError):
        findings.add("files", name, "a strange thing among the runs; it was left alone")
        return
    findings.checked["runs"] += 1
    try:
        with disk.opened(disk.open_folder(place[RUNS], name)) as folder:
            # Nothing that this process remembers is believed.
            run = RunFolder(disk, folder)
            try:
                with disk.locked(folder, tenant.storage.lock_timeout, shared=True):
                    run.refresh()
                    _verify_logs(run, findings)
                    _verify_place(place, tenant, run, name, findings)
            finally:
                run.close()
    except FileNotFoundError:
        return  # it was deleted meanwhile
    except StoreError as error:
        findings.add("runs", run_id, str(error))
    except OSError as error:
        findings.add("runs", run_id, f"its folder cannot be read ({type(error).__name__})")


def _verify_place(
    place: Place, tenant: Tenant, run: RunFolder, name: str, findings: Findings
) -> None:
    """Whether the run is where it is looked for, is listed, and shares its journals."""
    disk, id = place.disk, run.header.id
    if name_of(id) != name:
        findings.add("runs", id, "its folder has the name of another run")
    elif not tenant.listing.lists(place.folder, (id, run.header.generation)):
        findings.add("runs", id, "it is not listed; `repair` lists it again")
    for file in run.names() - {HEADER}:
        log = shared_name(run.header.journal) if file == JOURNAL else file
        if disk.identity_of(run.folder, file) == disk.identity_of(place[LOGS], log):
            continue
        if links.are_given(disk, place.folder):
            what = "a journal of it is not the one among the logs, as in a copy without hard links"
            findings.add("runs", id, f"{what}; `repair` links it again")


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
