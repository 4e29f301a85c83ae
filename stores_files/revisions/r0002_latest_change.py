"""A run's header says which batches came before its last change.

The time of the last change of a run was the later of two, that of the header and that of the newest
batch. A clock that was put back made it the wrong one.
"""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from stores_core.errors import CorruptRecordError
from stores_core.values import micros
from stores_files.disk import Disk
from stores_files.journal import Journal
from stores_files.places import read_json, replace

_RUNS, _HEADER, _JOURNAL = "runs", "run.json", "journal.jsonl"


def upgrade(disk: Disk, tenant: int) -> None:
    """Rewrite the headers of a tenant that are not rewritten yet."""
    for folder, header in _headers(disk, tenant):
        if header["format"] == 1:
            end, at = _newest(disk, folder, header["journal"])
            if end and at <= micros(datetime.fromisoformat(header["updatedAt"])):
                header["after"] = end
            replace(disk, folder, _HEADER, header | {"format": 2})


def downgrade(disk: Disk, tenant: int) -> None:
    """The way back. Of a run whose clock was put back the older code tells another time."""
    for folder, header in _headers(disk, tenant):
        if header["format"] == 2:
            header.pop("after", None)
            replace(disk, folder, _HEADER, header | {"format": 1})


def _headers(disk: Disk, tenant: int) -> Iterator[tuple[int, dict[str, Any]]]:
    with disk.opened(disk.open_folder(tenant, _RUNS)) as runs:
        for name in disk.names(runs):
            # What is no folder with a header is no run of ours.
            with (
                contextlib.suppress(NotADirectoryError, FileNotFoundError),
                disk.opened(disk.open_folder(runs, name)) as folder,
            ):
                try:
                    header = read_json(disk, folder, _HEADER)
                    if not header.keys() >= {"format", "journal", "updatedAt"}:
                        raise ValueError("no header")
                except (ValueError, AttributeError) as error:
                    raise CorruptRecordError(
                        "a run.json does not say what it should; `verify` names it"
                    ) from error
                yield folder, header


def _newest(disk: Disk, folder: int, id: str) -> tuple[int, int]:
    """Where the run's own journal ends, and when its newest batch came; 0 where there is none."""
    with (
        contextlib.suppress(FileNotFoundError),
        contextlib.closing(Journal.open(disk, folder, _JOURNAL)) as journal,
    ):
        if journal.id == id and journal.last is not None:
            return journal.end, journal.last.at
    return 0, 0
