"""Whatever a power cut leaves of a folder, it holds what was acknowledged, and nothing in part.

The states are made by tests/files_power_cuts.py, which is examined here too: it finds each mistake
that a store of files can make.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any
from unittest.mock import patch
from zlib import crc32

import pytest

from conformance_tests.faults.crash_states import Change, Synced, Written
from stores_core.codec import encode_json
from stores_files import batches, journal, making, scanning
from stores_files.disk import Disk
from stores_files.listing import Listing
from tests.files_power_cuts import examine, examine_part
from tests.files_simulated import SimulatedDisk
from tests.files_steps import ALL, on, prepared

PARTS, STATES = 8, 100_000

MORE = 1.05
"""So many times more are asked for, since some sequences have fewer than their share."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_what_a_power_cut_leaves_holds_what_was_acknowledged(part: int) -> None:
    looked, faults = examine_part(part, PARTS, int(MORE * STATES / PARTS))
    assert not faults, "\n".join(faults)
    assert looked >= STATES / PARTS


@pytest.mark.long
def test_what_some_power_cuts_leave_holds_what_was_acknowledged() -> None:
    looked, faults = examine_part(0, 40 * PARTS, 1_000)
    assert not faults, "\n".join(faults)
    assert looked > 500


def test_two_appends_that_wait_share_a_write_and_a_sync() -> None:
    """Or the power cuts above would not know what is left of such a write."""

    nodes = prepared()

    async def work() -> list[type[Change]]:
        disk = SimulatedDisk(nodes)
        stores = on(disk)
        await ALL["append one"](stores)
        begun = len(disk.record)
        await ALL["append two at once"](stores)
        return [type(change) for change in disk.record[begun:]]

    assert asyncio.run(work()) == [Written, Synced]


class NoSync(SimulatedDisk):
    def sync(self, file: int) -> None:
        pass


class NoFolderSync(SimulatedDisk):
    def sync_folder(self, folder: int) -> None:
        pass


class LateSync(SimulatedDisk):
    """Files are on the disk only when the next call comes: after the caller was told."""

    late: tuple[Synced, ...] = ()

    def _call(self, name: str) -> None:
        self.record += self.late
        self.late = ()
        super()._call(name)

    def sync(self, file: int) -> None:
        self.late = (*self.late, Synced(self._files[file]))


def _in_place(disk: Disk, folder: int, name: str, value: Any) -> None:
    """A file of JSON that is written over, where it should be replaced."""
    fields = encode_json(value)[:-1]
    text = b'%b,"sum":"%08x"}\n' % (fields, crc32(fields))
    with disk.opened(disk.open_file(folder, name)) as file:
        disk.write(file, 0, text)
        disk.truncate(file, len(text))
        disk.sync(file)


def _unlisted(self: Listing, folder: int, lines: bytes) -> None:
    """A listing that is not written before what is listed."""


def _always(entries: bytes, line: bytes) -> bool:
    return True


def _unchecked(*given: Any, **named: Any) -> Iterator[scanning.Found]:
    with patch.object(scanning, "is_whole", _always):
        yield from scanning.scan(*given, **named)


@contextlib.contextmanager
def _all_unchecked() -> Generator[None]:
    with patch.object(batches, "is_whole", _always), patch.object(journal, "scan", _unchecked):
        yield


def _unsynced(disk: Disk, folder: int, name: str, value: Any) -> None:
    fields = encode_json(value)[:-1]
    with disk.opened(disk.make_file(folder, name)) as file:
        disk.write(file, 0, b'%b,"sum":"%08x"}\n' % (fields, crc32(fields)))


MISTAKES: dict[str, tuple[type[SimulatedDisk], Callable[[], Any], list[str]]] = {
    "files are not synced": (NoSync, contextlib.nullcontext, ["create", "append one", "fork"]),
    "folders are not synced": (NoFolderSync, contextlib.nullcontext, ["create", "fork", "update"]),
    "it tells before it syncs": (LateSync, contextlib.nullcontext, ["append one", "append many"]),
    "sums are not checked": (
        SimulatedDisk,
        _all_unchecked,
        ["append one", "append many"],
    ),
    "headers are written over": (
        SimulatedDisk,
        lambda: patch("stores_files.runs.replace", _in_place),
        ["update"],
    ),
    "runs are not listed": (
        SimulatedDisk,
        lambda: patch.object(Listing, "add", _unlisted),
        ["create"],
    ),
    "what is claimed is not synced before": (
        SimulatedDisk,
        lambda: patch.object(making, "write_new", _unsynced),
        ["create", "fork"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_in_each_step_that_shows_it(mistake: str) -> None:
    disk, made, steps = MISTAKES[mistake]
    nodes = prepared()
    with made():
        for step in steps:
            _, faults = examine(nodes, [step], disk=disk)
            assert faults, f"{step} passes although {mistake}"
