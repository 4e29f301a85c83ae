"""What threads of one client, and clients of one folder, do in the middle of each other's work."""

import asyncio
import shutil
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stores_core import MemoryItem
from stores_core.moving import ExportEntriesRequest, ImportEntriesRequest
from stores_files.backend import open_files
from stores_files.commits import MESSAGES, Batch
from stores_files.disk import Disk
from stores_files.journal import Journal
from stores_files.layout import CATALOG
from stores_files.listing import Listing, line_of
from stores_files.moving import FileMoving
from stores_files.notes_state import raise_floor, read_state
from stores_files.storage import Storage, Tenant

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

MOMENT = 0.2
"""Seconds in which others would be done, if nothing kept them out."""

NAME, ID = "journal.jsonl", "0" * 32
ENTRIES = tuple(b'{"role":"user","text":"%d"}' % n for n in range(4))


class Held(Disk):
    """Holds one thread at its next call of ``at`` while ``others`` work in another thread."""

    def __init__(self) -> None:
        self.at = ""
        self.others: Callable[[], Any] = lambda: None
        self.working: list[threading.Thread] = []

    def hold(self, at: str, others: Callable[[], Any]) -> None:
        self.at, self.others = at, others

    def _held(self, call: str) -> None:
        if self.at == call:
            self.at = ""
            self.working.append(threading.Thread(target=self.others))
            self.working[-1].start()
            self.working[-1].join(MOMENT)

    def rename(self, folder: int, name: str, to: int, to_name: str) -> None:
        self._held("rename")
        super().rename(folder, name, to, to_name)

    def write(self, file: int, offset: int, data: bytes) -> None:
        self._held("write")
        super().write(file, offset, data)

    def locked(self, file: int, patience: float, *, shared: bool = False) -> Any:
        self._held("locked")
        return super().locked(file, patience, shared=shared)


@asynccontextmanager
async def opened(path: Path, disk: Disk) -> AsyncGenerator[Tenant]:
    storage = await Storage.open(str(path / "stores"), disk, lock_timeout=5)
    tenant = Tenant(storage, "t")
    with tenant.made():
        pass
    try:
        yield tenant
    finally:
        tenant.close()
        await storage.close()


def open_folder(path: Path) -> int:
    return Disk().open_root(str(path))


async def test_two_threads_that_raise_the_floor_of_versions_leave_the_higher_one(
    tmp_path: Path,
) -> None:
    disk = Held()
    async with opened(tmp_path, disk) as tenant:
        with tenant.made() as place:
            disk.hold("rename", lambda: raise_floor(place, tenant, 9))
            await asyncio.to_thread(raise_floor, place, tenant, 5)
            for thread in disk.working:
                await asyncio.to_thread(thread.join)
            assert disk.working
            assert read_state(place).floor == 9


async def test_two_imports_at_once_into_one_log_keep_what_either_was_told(tmp_path: Path) -> None:
    disk = Held()

    def imported(entries: tuple[bytes, ...], start: int) -> ImportEntriesRequest:
        return ImportEntriesRequest(log=ID, entries=entries, start=start)

    async with opened(tmp_path, disk) as tenant:
        moving = FileMoving(tenant)
        await moving.import_entries(imported(ENTRIES[:2], 0))
        loop, told = asyncio.get_running_loop(), list[Any]()

        def longer() -> None:
            work = moving.import_entries(imported(ENTRIES[2:], 2))
            told.append(asyncio.run_coroutine_threadsafe(work, loop).result(5))

        disk.hold("write", longer)
        await moving.import_entries(imported(ENTRIES[2:3], 2))
        for thread in disk.working:
            await asyncio.to_thread(thread.join)
        assert [answer.length for answer in told] == [4]
        found = await moving.export_entries(ExportEntriesRequest(log=ID, start=0, limit=9))
        assert tuple(found.entries) == ENTRIES


def test_a_batch_as_long_as_the_torn_tail_that_it_took_the_place_of_is_seen(
    tmp_path: Path,
) -> None:
    disk, folder = Disk(), open_folder(tmp_path)
    writer = Journal.make(disk, folder, NAME, ID)
    writer.append([Batch(ENTRIES[:1], (), at=1)])
    before = writer.end
    writer.append([Batch(ENTRIES[1:2], (), at=2)])
    length = writer.end - before
    disk.cut(folder, NAME, before)
    writer.close()
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"x" * length)
    reader, writer = Journal.open(disk, folder, NAME), Journal.open(disk, folder, NAME)
    assert reader.torn == writer.torn == length
    writer.append([Batch(ENTRIES[1:2], (), at=2)])
    reader.refresh()
    assert reader.read(MESSAGES, 0, reader.length(MESSAGES)) == [*ENTRIES[:2]]
    reader.append([Batch(ENTRIES[2:3], (), at=3)])
    writer.refresh()
    assert writer.read(MESSAGES, 0, writer.length(MESSAGES)) == [*ENTRIES[:3]]
    for journal in (reader, writer):
        journal.close()
    disk.close(folder)


async def test_an_answer_about_a_torn_namespace_is_not_one_about_the_next_note(
    tmp_path: Path,
) -> None:
    async def put(path: Path, key: str) -> None:
        async with open_files(f"file:{path}") as backend:
            await backend.memory.put_memory(item=MemoryItem(key=key, value="v"), namespace="n")

    def journal(path: Path) -> Path:
        (found,) = path.glob("tenants/*/notes/*/notes.jsonl")
        return found

    path, other = tmp_path / "stores", tmp_path / "other"
    await put(path, "a")
    shutil.copytree(path, other)
    await put(other, "b")
    length = journal(other).stat().st_size - journal(path).stat().st_size
    storage = await Storage.open(str(path), Disk(), lock_timeout=5)
    tenant = Tenant(storage, "")

    def count() -> int | None:
        with tenant.made() as place:
            return tenant.answers.ask(place, "n", "count", lambda notes: len(notes.notes.notes))

    with journal(path).open("ab") as file:
        file.write(b"x" * length)
    assert count() == 1
    await put(path, "b")
    assert journal(path).stat().st_size == journal(other).stat().st_size
    assert count() == 2
    tenant.close()
    await storage.close()


def test_a_listing_that_two_shorten_at_once_keeps_all_lines(tmp_path: Path) -> None:
    disk, folder = Held(), open_folder(tmp_path)

    def line(id: str) -> bytes:
        return line_of(id, "g", 1, {})

    one, two = (Listing(each, CATALOG, 5) for each in (disk, Disk()))
    runs = [f"run {n}" for n in range(9)]
    written = [line("often")] * 1_100 + [line(run) for run in runs]
    (tmp_path / CATALOG).write_bytes(b"".join(written))

    def others() -> None:
        two.shorten(folder)
        two.add(folder, line("late"))

    disk.hold("locked", others)
    one.shorten(folder)
    for thread in disk.working:
        thread.join()
    assert disk.working
    fresh = Listing(Disk(), CATALOG, 5)
    found, _, _ = fresh.page(folder, (), "", 100, keep=lambda _: True)
    assert {id for id, _ in found} == {"often", "late", *runs}
    for listing in (one, two, fresh):
        listing.close()
    disk.close(folder)
