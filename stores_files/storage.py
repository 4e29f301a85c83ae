"""An opened folder, and one tenant's part of it."""

import asyncio
import contextlib
import secrets
import stat
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from stores_core.disks import file_system_of, is_on_network
from stores_core.errors import (
    InvalidRequestError,
    StoreClosedError,
    StoreUnavailableError,
)
from stores_core.revisions import State
from stores_core.sending import nothing_sent
from stores_files.answers import Answers
from stores_files.disk import Disk
from stores_files.failures import nothing_applied, perhaps_applied
from stores_files.held import HeldFolders
from stores_files.layout import (
    CATALOG,
    CONTENTS,
    LOGS,
    NOTES,
    RESULT_CATALOG,
    RESULTS,
    RUNS,
    STAGING,
    TENANT,
    TENANTS,
    TRASH,
)
from stores_files.listing import Listing
from stores_files.names import name_of
from stores_files.note_folders import NoteFolder
from stores_files.places import NEW, Place, remove_folder, write_new
from stores_files.presence import Presence
from stores_files.run_folders import RunFolder
from stores_files.versions import (
    Marker,
    absent,
    identify,
    migrate,
    plan,
    read_marker,
    refusal,
)

T = TypeVar("T")

THREADS = 8
LOCK_TIMEOUT = 5.0

_OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Storage:
    """One opened folder: threads that work in it, since the disk makes each call wait.

    ``identity`` is the folder's own, the same for all who open it.
    """

    def __init__(self, disk: Disk, root: int, marker: Marker, *, lock_timeout: float) -> None:
        self.disk = disk
        self.root = root
        self.tenants = disk.open_folder(root, TENANTS)
        self.identity = marker.identity
        self.marker = marker
        self.lock_timeout = lock_timeout
        self.file_system = ""
        """The kind of disk, where the system tells."""
        self._opened = contextlib.ExitStack()
        self.executor = ThreadPoolExecutor(THREADS, thread_name_prefix="stores_files")
        self._closed = False

    @classmethod
    async def open(
        cls, path: str, disk: Disk, *, lock_timeout: float, create: bool = True
    ) -> "Storage":
        """Open the folder. With ``create`` it is made if there is none; without, whatever this code
        does not work on is refused. Raises StoreError."""
        loop = asyncio.get_running_loop()
        work = partial(cls._open, path, disk, lock_timeout, create)
        return await loop.run_in_executor(None, work)

    @classmethod
    def _open(cls, path: str, disk: Disk, lock_timeout: float, create: bool) -> "Storage":
        root, marker = _prepared(path, disk, lock_timeout, create)
        try:
            with nothing_applied():
                storage = cls(disk, root, marker, lock_timeout=lock_timeout)
                try:
                    storage._keep_format()
                    storage.file_system = file_system_of((Path.cwd() / path).resolve())
                except BaseException:
                    disk.close(storage.tenants)
                    raise
        except BaseException:
            disk.close(root)
            raise
        return storage

    def _keep_format(self) -> None:
        """Let nobody change the stored format as long as the folder is open here."""
        lock = self.disk.locked(self.tenants, self.lock_timeout, shared=True)
        self._opened.enter_context(lock)
        self.marker = read_marker(self.disk, self.root)

    def ensure_current(self) -> None:
        """Raise SchemaVersionError where the stored format is not this code's."""
        if self.marker.state is not State.CURRENT:
            raise refusal(self.marker)

    def migrate(self, target: str) -> list[str]:
        """Take the steps to another revision of the stored format; what was done.

        Raises StoreUnavailableError while others have the folder open.
        """
        disk = self.disk
        with disk.opened_anew(self.root) as root, disk.locked(root, self.lock_timeout):
            self.marker = read_marker(self.disk, self.root)
            if not plan(self.marker, target):
                return []
            try:
                with self._alone():
                    return migrate(self.disk, self.root, target, self.lock_timeout)
            finally:
                self._keep_format()

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        # What this client begins meanwhile is refused, what it has begun holds its tenant.
        self.marker = self.marker._replace(is_unfinished=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.disk.locked(self.tenants, self.lock_timeout))
            except StoreUnavailableError as error:
                raise StoreUnavailableError(
                    "others have the folder open, so its format stays as it is; close them first"
                ) from error
            with perhaps_applied():
                yield

    async def run(self, work: Callable[[], T]) -> T:
        """Do ``work`` in a thread. One that is cancelled before it was begun is never done."""
        if self._closed:
            raise StoreClosedError
        begun: Future[T] = self.executor.submit(work)
        try:
            return await asyncio.wrap_future(begun)
        except asyncio.CancelledError:
            if begun.cancelled():
                with nothing_sent():
                    raise
            raise

    async def close(self) -> None:
        """Finish what was begun and let go of the folder."""
        if not self._closed:
            self._closed = True
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self.executor.shutdown)
            self._opened.close()
            self.disk.close(self.tenants)
            self.disk.close(self.root)


def _prepared(path: str, disk: Disk, lock_timeout: float, create: bool) -> tuple[int, Marker]:
    if sys.platform == "win32":
        raise _unfit("Windows, whose locks and links are others", "Linux or macOS, or sqlite:path")
    if not path or "\0" in path:
        raise _unfit("no path", "file:path")
    place = Path.cwd() / path
    if not place.parent.is_dir():
        raise _unfit("a folder in a folder that does not exist", "a folder in one that exists")
    if is_on_network(place.resolve()):
        raise _unfit("a network file system, where locks and syncs fail", "a local one")
    with nothing_applied():
        try:
            root = disk.open_root(str(place))
        except FileNotFoundError as error:
            if not create:
                raise absent() from error
            with (
                disk.opened(disk.open_root(str(place.parent))) as above,
                contextlib.suppress(FileExistsError),
            ):
                disk.make_folder(above, place.name)
            root = disk.open_root(str(place))
        except NotADirectoryError as error:
            raise _unfit("a file", "a folder") from error
        try:
            if disk.mode(root) & _OPEN_TO_OTHERS:
                raise _unfit("a folder that others may write to", "one after chmod go-w")
            with disk.locked(root, lock_timeout):
                marker = identify(disk, root, create=create)
            # Also if it was there: whoever made it may have been killed. One who may not open the
            # folder above did not make this one.
            with (
                contextlib.suppress(PermissionError),
                disk.opened(disk.open_root(str(place.parent))) as above,
            ):
                disk.sync_folder(above)
            return root, marker
        except BaseException:
            disk.close(root)
            raise


def _unfit(found: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(field="url", found=found, allowed=allowed)


class Tenant:
    """What belongs to one tenant. Works are called with its folder, in a thread."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage
        self.disk = storage.disk
        self.name = name
        self.folders = HeldFolders(
            storage.disk, RUNS, partial(RunFolder, storage.disk), storage.lock_timeout
        )
        self.namespaces = HeldFolders(
            storage.disk, NOTES, partial(NoteFolder, storage.disk), storage.lock_timeout
        )
        self.answers = Answers(self.namespaces)
        self.listing = Listing(storage.disk, CATALOG, storage.lock_timeout)
        self.result_listing = Listing(storage.disk, RESULT_CATALOG, storage.lock_timeout)
        self._presence = Presence(
            storage.disk, storage.tenants, name_of(name), storage.lock_timeout
        )
        self._is_settled = False

    async def read(self, work: Callable[[Place], T], otherwise: T) -> T:
        """What ``work`` finds; ``otherwise`` for a tenant that has written nothing yet."""

        def reading() -> T:
            with nothing_applied(), contextlib.ExitStack() as stack:
                place = self.enter(stack)
                return otherwise if place is None else work(place)

        return await self.storage.run(reading)

    async def write(self, work: Callable[[Place], T], *, alone: bool = False) -> T:
        """Do ``work``, which says itself from where on an error of the system is unknown."""

        def writing() -> T:
            with nothing_applied(), self.made(alone=alone) as place:
                return work(place)

        return await self.storage.run(writing)

    def close(self) -> None:
        """Let go of what is held open."""
        self.folders.close()
        self.namespaces.close()
        self.listing.close()
        self.result_listing.close()
        self._presence.close()

    def renew(self) -> None:
        """Look anew at the tenant's own files, which a step of the format replaced."""
        self._presence.renew()

    @contextlib.contextmanager
    def made(self, *, alone: bool = False) -> Generator[Place]:
        """The folder, made if it is not there; see :meth:`entered`."""
        while True:
            with self.entered(alone=alone) as place:
                if place is not None:
                    yield place
                    return
            self._make()

    @contextlib.contextmanager
    def entered(self, *, alone: bool = False) -> Generator[Place | None]:
        """The folder, None where there is none. It is not erased meanwhile.

        ``alone`` keeps all others out: what is shared by runs may be cut.
        """
        with contextlib.ExitStack() as stack:
            yield self.enter(stack, alone=alone)

    def enter(self, stack: contextlib.ExitStack, *, alone: bool = False) -> Place | None:
        """The same, until the stack is closed."""
        self.storage.ensure_current()
        place = self._presence.enter_alone(stack) if alone else self._presence.enter(stack)
        if place is not None and not self._is_settled:
            self.disk.sync_folder(self.storage.tenants)  # whoever made it may have been killed
            self._is_settled = True
        return place

    def _make(self) -> None:
        disk, tenants = self.disk, self.storage.tenants
        name, new = name_of(self.name), NEW + secrets.token_hex(8)
        disk.make_folder(tenants, new)
        with disk.opened(disk.open_folder(tenants, new)) as folder:
            for inner in (RUNS, LOGS, NOTES, RESULTS, CONTENTS, STAGING, TRASH):
                disk.make_folder(folder, inner)
            write_new(disk, folder, TENANT, {"tenant": self.name})
            disk.sync_folder(folder)
        try:
            disk.rename(tenants, new, tenants, name)
        except OSError:
            remove_folder(disk, tenants, new)
            if disk.identity_of(tenants, name) is None:
                raise
        disk.sync_folder(tenants)
