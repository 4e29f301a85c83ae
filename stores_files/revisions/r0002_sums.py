"""Small files carry a sum, and a run's header says which batches came before its last change.

The time of the last change of a run was the later of two, that of the header and that of the newest
batch. A clock that was put back made it the wrong one.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from zlib import crc32

from stores_core.codec import decode_json, encode_json
from stores_core.errors import CorruptRecordError
from stores_core.values import micros
from stores_files.disk import Disk
from stores_files.journal import Journal

_SUM = b',"sum":"'
_FILES = ("tenant.json", "notes.json")
_HEADER, _JOURNAL = "run.json", "journal.jsonl"
_FOLDERS = (("runs", _HEADER), ("results", "result.json"))


def upgrade(disk: Disk, tenant: int) -> None:
    """Rewrite the small files of a tenant that are not rewritten yet."""
    for folder, name in _places(disk, tenant):
        _rewrite(disk, folder, name, lambda fields, folder=folder: _newer(disk, folder, fields))


def downgrade(disk: Disk, tenant: int) -> None:
    """The way back. Of a run whose clock was put back the older code tells another time."""
    for folder, name in _places(disk, tenant):
        _rewrite(disk, folder, name, _older, summed=False)


def _newer(disk: Disk, folder: int, fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("format") != 1:
        return fields
    end, at = _newest(disk, folder, fields["journal"])
    is_later = end and at <= micros(datetime.fromisoformat(fields["updatedAt"]))
    return fields | {"format": 2} | ({"after": end} if is_later else {})


def _older(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("format") != 2:
        return fields
    fields.pop("after", None)
    return fields | {"format": 1}


def _newest(disk: Disk, folder: int, id: str) -> tuple[int, int]:
    """Where the run's own journal ends, and when its newest batch came; 0 where there is none."""
    with (
        contextlib.suppress(FileNotFoundError),
        contextlib.closing(Journal.open(disk, folder, _JOURNAL)) as journal,
    ):
        if journal.id == id and journal.last is not None:
            return journal.end, journal.last.at
    return 0, 0


def _places(disk: Disk, tenant: int) -> Iterator[tuple[int, str]]:
    """The small files of a tenant, each with its folder. What has none is nothing of ours."""
    for name in _FILES:
        yield tenant, name
    for kind, name in _FOLDERS:
        with disk.opened(disk.open_folder(tenant, kind)) as outer:
            for inner in disk.names(outer):
                with (
                    contextlib.suppress(NotADirectoryError, FileNotFoundError),
                    disk.opened(disk.open_folder(outer, inner)) as folder,
                ):
                    yield folder, name


def _rewrite(
    disk: Disk,
    folder: int,
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    summed: bool = True,
) -> None:
    """Replace a file in one step, unless it is as it should be or not there."""
    if disk.identity_of(folder, name) is None:
        return
    with disk.opened(disk.open_file(folder, name)) as file:
        data = disk.read(file, 0, disk.size(file))
    text, mark, end = data.rpartition(_SUM)
    try:
        if mark and end != b'%08x"}\n' % crc32(text):
            raise ValueError("it does not fit its sum")
        fields = change(decode_json(text + b"}" if mark else data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptRecordError(f"a {name} does not say what it should") from error
    text = encode_json(fields)
    new = b'%b,"sum":"%08x"}' % (text[:-1], crc32(text[:-1])) if summed else text
    if new + b"\n" == data:
        return
    fresh = f".new-{secrets.token_hex(8)}"
    with disk.opened(disk.make_file(folder, fresh)) as file:
        disk.write(file, 0, new + b"\n")
        disk.sync(file)
    disk.rename(folder, fresh, folder, name)
    disk.sync_folder(folder)
