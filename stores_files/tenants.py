"""Tenants as a whole: which hold data, how much, and erasing one."""

import contextlib
import secrets

from stores_files.disk import Disk
from stores_files.layout import CONTENTS, LOGS, NOTES, RESULTS, RUNS, TENANT
from stores_files.names import name_of
from stores_files.places import NEW, Place, read_json, remove_folder
from stores_files.storage import Storage, Tenant

_HOLDING = (RUNS, NOTES, RESULTS)


def list_tenants(storage: Storage, last: str | None, most: int) -> list[str]:
    """The tenants behind ``last`` that hold data, in code-point order."""
    disk, found = storage.disk, list[str]()
    for name in disk.names(storage.tenants):
        if name.startswith(NEW):
            continue
        with contextlib.suppress(FileNotFoundError):
            with disk.opened(disk.open_folder(storage.tenants, name)) as folder:
                tenant = str(read_json(disk, folder, TENANT)["tenant"])
            if (last is None or tenant > last) and _holds(Tenant(storage, tenant)):
                found.append(tenant)
    return sorted(found)[:most]


def _holds(tenant: Tenant) -> bool:
    with contextlib.closing(tenant), tenant.entered() as place:
        return place is not None and any(place.disk.names(place[name]) for name in _HOLDING)


def erase(storage: Storage, name: str) -> bool:
    """Remove everything of a tenant, its name too; whether there was anything."""
    disk, tenant = storage.disk, Tenant(storage, name)
    gone = NEW + secrets.token_hex(8)
    with tenant.entered(alone=True) as place:
        if place is None:
            return False
        held = any(disk.names(place[name]) for name in _HOLDING)
        disk.rename(storage.tenants, name_of(name), storage.tenants, gone)
        disk.sync_folder(storage.tenants)
    with contextlib.suppress(OSError):
        remove_folder(disk, storage.tenants, gone)
    return held


def count_bytes(place: Place) -> int:
    """What a tenant's files hold, each journal once, without the lines of runs that are gone."""
    disk, size = place.disk, 0
    for kind in (LOGS, CONTENTS):
        size += sum(disk.size_of(place[kind], name) for name in disk.names(place[kind]))
    for kind in (RUNS, RESULTS, NOTES):
        for name in disk.names(place[kind]):
            with contextlib.suppress(FileNotFoundError):
                size += _within(disk, place[kind], name)
    return size


def _within(disk: Disk, folder: int, name: str) -> int:
    # What has several names has been counted under its own.
    with disk.opened(disk.open_folder(folder, name)) as inner:
        alone = [each for each in disk.names(inner) if disk.links_of(inner, each) == 1]
        return sum(disk.size_of(inner, each) for each in alone)
