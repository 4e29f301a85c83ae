"""The ways into a tenant's folder: shared with others, or alone.

A lock belongs to a descriptor. The one for sharing stays open between operations: the first work of
this process that comes takes the folder's lock for all that join it, and the last gives it back.
"""

import contextlib
import threading

from stores_core.errors import CorruptRecordError, StoreUnavailableError
from stores_files.disk import Disk
from stores_files.layout import TENANT
from stores_files.places import Place


class _Opened:
    """A tenant's folder, and its tenant.json, which one who wants it alone locks first."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk = disk
        self.gate = disk.open_file(folder, TENANT)
        self.place = Place(disk, folder)
        self.users = 0
        self.lock = contextlib.ExitStack()
        """Holds the folder's lock for the users."""

    def close(self) -> None:
        self.place.close()
        self._disk.close(self.gate)
        self._disk.close(self.place.folder)


class Presence:
    """Enters the folder ``name`` among ``tenants``, waiting up to ``patience`` seconds for others.

    Who wants it alone holds tenant.json first, and everybody else comes by there. Or one who waits
    for a moment without others would never get it while they come and go.
    """

    def __init__(self, disk: Disk, tenants: int, name: str, patience: float) -> None:
        self._disk, self._tenants, self._name, self._patience = disk, tenants, name, patience
        self._shared: _Opened | None = None
        self._left: list[_Opened] = []
        self._first, self._counting = threading.Lock(), threading.Lock()

    def close(self) -> None:
        """Let go of the folder, which nobody here works in any more."""
        for each in (*self._left, self._shared):
            if each is not None:
                each.close()
        self._shared, self._left = None, []

    def renew(self) -> None:
        """Open it anew next time: its tenant.json was replaced."""
        with self._first:
            if self._shared is not None:
                self._left.append(self._shared)
                self._shared = None

    def enter(self, stack: contextlib.ExitStack) -> Place | None:
        """The folder, None where there is none. It is not erased before the stack is closed."""
        opened = self._shared
        if opened is not None:
            self._come_by(opened)
        if opened is None or not self._joined(opened):
            opened = self._entered_first(opened)
        if opened is None:
            return None
        stack.callback(self._leave, opened)
        return opened.place

    def enter_alone(self, stack: contextlib.ExitStack) -> Place | None:
        """The same with all others kept out, of this process too."""
        while True:
            with contextlib.ExitStack() as tried:
                opened = self._open()
                if opened is None:
                    return None
                tried.callback(opened.close)
                tried.enter_context(self._disk.locked(opened.gate, self._patience))
                tried.enter_context(self._disk.locked(opened.place.folder, self._patience))
                if self._is_standing(opened):
                    stack.enter_context(tried.pop_all())
                    return opened.place
                # Erased while we waited: look again.

    def _come_by(self, opened: _Opened) -> None:
        # Before one is counted: who waits here must not be who is waited for.
        with self._disk.locked(opened.gate, self._patience, shared=True):
            pass

    def _joined(self, opened: _Opened) -> bool:
        """Whether others of this process are in the folder, and now one more."""
        with self._counting:
            is_locked = opened.users > 0
            opened.users += is_locked
        return is_locked

    def _entered_first(self, came_by: _Opened | None) -> _Opened | None:
        # One at a time, so that nobody else takes or drops the lock of this descriptor meanwhile.
        if not self._first.acquire(timeout=self._patience):
            raise StoreUnavailableError(
                f"another task waited for a lock for over {self._patience:g} s; nothing was applied"
            )
        try:
            while True:
                opened = self._shared = self._shared or self._open()
                if opened is not None and opened is not came_by:
                    self._come_by(opened)
                if opened is None or self._joined(opened):
                    return opened
                with contextlib.ExitStack() as lock:
                    folder = opened.place.folder
                    lock.enter_context(self._disk.locked(folder, self._patience, shared=True))
                    if self._is_standing(opened):
                        with self._counting:
                            opened.users, opened.lock = 1, lock.pop_all()
                        return opened
                # Erased. Another thread may be about to look at it, so it is closed in the end.
                self._left.append(opened)
                self._shared = None
        finally:
            self._first.release()

    def _leave(self, opened: _Opened) -> None:
        with self._counting:
            opened.users -= 1
            if not opened.users:
                opened.lock.close()

    def _is_standing(self, opened: _Opened) -> bool:
        return self._disk.identity_of(self._tenants, self._name) == opened.place.identity

    def _open(self) -> _Opened | None:
        disk = self._disk
        while True:
            try:
                folder = disk.open_folder(self._tenants, self._name)
            except FileNotFoundError:
                return None
            try:
                return _Opened(disk, folder)
            except FileNotFoundError as error:
                is_standing = disk.identity_of(self._tenants, self._name) == disk.identity(folder)
                disk.close(folder)
                if is_standing:
                    raise CorruptRecordError(f"a tenant's folder has no {TENANT}") from error
            except BaseException:
                disk.close(folder)
                raise
