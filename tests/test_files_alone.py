"""Who needs a tenant's folder alone gets it, however many come and go."""

import asyncio
import contextlib
import threading
import time
from pathlib import Path

import pytest

from stores_core import CorruptRecordError
from stores_files.disk import Disk
from stores_files.storage import Storage, Tenant

HELD = 0.05


def test_many_who_share_a_folder_let_one_have_it_alone(tmp_path: Path) -> None:
    async def run() -> None:
        storage = await Storage.open(str(tmp_path / "stores"), Disk(), lock_timeout=2)
        tenant, done, entered = Tenant(storage, "t"), threading.Event(), [0, 0]
        with tenant.made():
            pass

        def come_and_go(which: int) -> None:
            time.sleep(which * HELD / 2)  # so that one is always there
            while not done.is_set():
                with tenant.entered():
                    entered[which] += 1
                    time.sleep(HELD)

        def alone() -> bool:
            with tenant.entered(alone=True) as place:
                before = list(entered)
                time.sleep(2 * HELD)
                return place is not None and entered == before

        try:
            async with asyncio.TaskGroup() as group:
                for which in range(2):
                    group.create_task(asyncio.to_thread(come_and_go, which))
                try:
                    await asyncio.sleep(4 * HELD)
                    assert min(entered) > 0
                    assert await asyncio.to_thread(alone)
                finally:
                    done.set()
        finally:
            tenant.close()
            await storage.close()

    asyncio.run(run())


def test_a_tenant_without_its_name_is_damaged(tmp_path: Path) -> None:
    async def run() -> None:
        storage = await Storage.open(str(tmp_path / "stores"), Disk(), lock_timeout=1)
        with contextlib.closing(Tenant(storage, "t")) as maker, maker.made():
            pass
        tenant = Tenant(storage, "t")
        (tmp_path / "stores" / "tenants" / "t" / "tenant.json").unlink()
        with (
            contextlib.closing(tenant),
            pytest.raises(CorruptRecordError, match=r"no tenant\.json"),
            tenant.entered(),
        ):
            pass
        await storage.close()

    asyncio.run(run())
