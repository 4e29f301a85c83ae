"""Threads share open folders, but no place in a listing and no lock: those belong to a folder."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from stores_core import Backend, MemoryItem, StoreUnavailableError, open_backend
from stores_files.disk import Disk
from stores_files.layout import LOGS, NOTES
from stores_files.storage import Storage, Tenant

AT_ONCE = 16


def url(folder: Path) -> str:
    return f"file:{folder}/stores?durability=client"


async def put(backend: Backend, namespace: str) -> int:
    item = MemoryItem(key="k", value="v")
    return (await backend.memory.put_memory(item=item, namespace=namespace)).version


@pytest.mark.parametrize("name", [NOTES, LOGS])
async def test_a_folder_is_locked_against_other_threads_of_its_client(
    tmp_path: Path, name: str
) -> None:
    storage = await Storage.open(str(tmp_path / "stores"), Disk(), lock_timeout=2)
    with contextlib.closing(Tenant(storage, "t")) as tenant, tenant.made() as place:

        def locked() -> None:
            with place.locked(name, 0.01):
                pass

        with place.locked(name, 1), pytest.raises(StoreUnavailableError):
            await asyncio.to_thread(locked)
        await asyncio.to_thread(locked)
    await storage.close()


async def test_all_who_list_at_once_see_all(tmp_path: Path) -> None:
    names = [f"n{number:02}" for number in range(100)]
    async with open_backend(url(tmp_path)) as backend:
        for name in names:
            await put(backend, name)
        for _ in range(5):
            lists = (backend.memory.list_namespaces(limit=1_000) for _ in range(AT_ONCE))
            for answer in await asyncio.gather(*lists):
                assert list(answer.namespaces) == names


async def test_no_version_comes_again_where_many_namespaces_are_cleared_at_once(
    tmp_path: Path,
) -> None:
    async with open_backend(url(tmp_path)) as backend:
        for _ in range(5):
            last = [await put(backend, f"n{n}") for n in range(AT_ONCE) for _ in range(n + 1)][-1]
            clearing = (backend.memory.clear_namespace(namespace=f"n{n}") for n in range(AT_ONCE))
            assert all(answer.deleted == 1 for answer in await asyncio.gather(*clearing))
            assert await put(backend, f"n{AT_ONCE - 1}") > last


async def test_many_who_bring_one_log_at_once_bring_it_once(tmp_path: Path) -> None:
    entries = [b'{"role":"user","text":"%d"}' % number for number in range(50)]
    async with open_backend(url(tmp_path)) as backend:
        for number in range(10):
            log = f"log-{number}"
            bringing = (
                backend.moving.import_entries(log=log, start=0, entries=entries)
                for _ in range(AT_ONCE)
            )
            assert {answer.length for answer in await asyncio.gather(*bringing)} == {50}
            brought = await backend.moving.export_entries(log=log, start=0, limit=100)
            assert list(brought.entries) == entries
