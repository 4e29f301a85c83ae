"""Folders that are held open between operations, each with what this process knows of it."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Generic, Protocol, TypeVar

from stores_core.errors import CorruptRecordError, StoreUnavailableError
from stores_files.disk import Disk
from stores_files.names import name_of
from stores_files.places import Place

HELD = 64
"""So many are held open."""


class Known(Protocol):
    """What is known of one folder. Whoever uses it holds its own lock and the folder's."""

    @property
    def id(self) -> str: ...
    def refresh(self) -> None:
        """Look at what others have changed. Raises CorruptRecordError, OSError."""
        ...

    def close(self) -> None: ...


K = TypeVar("K", bound=Known)


class _Held(Generic[K]):
    def __init__(self, disk: Disk, folder: int, known: K) -> None:
        self.disk, self.folder, self.known = disk, folder, known
        self.identity = disk.identity(folder)
        self.lock = threading.Lock()
        self.users, self.is_stale, self.is_settled = 0, False, False

    def close(self) -> None:
        self.known.close()
        self.disk.close(self.folder)


class HeldFolders(Generic[K]):
    """The folders inside ``within`` of one tenant that this process holds open.

    ``know(folder)`` begins to know one.
    """

    def __init__(
        self, disk: Disk, within: str, know: Callable[[int], K], lock_timeout: float
    ) -> None:
        self._disk, self._within, self._know = disk, within, know
        self._lock_timeout = lock_timeout
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[object, str], _Held[K]] = OrderedDict()

    @contextlib.contextmanager
    def entered(self, place: Place, id: str, *, alone: bool = False) -> Generator[K | None]:
        """What the folder of this id holds now, None where there is none; it stays so meanwhile.

        ``alone`` lets the caller write; else others may read at the same time.
        """
        with contextlib.ExitStack() as stack:
            yield self.enter(stack, place, id, alone=alone)

    def enter(
        self, stack: contextlib.ExitStack, place: Place, id: str, *, alone: bool = False
    ) -> K | None:
        """The same, until the stack is closed."""
        outer, name = place[self._within], name_of(id)
        while True:
            try:
                held = self._take(place, name)
            except FileNotFoundError:
                return None
            with contextlib.ExitStack() as tried:
                tried.callback(self._leave, held)
                patience = self._lock_timeout
                tried.enter_context(self._disk.locked(held.folder, patience, shared=not alone))
                if self._disk.identity_of(outer, name) != held.identity:
                    self._drop((place.identity, name), held)
                    continue  # removed since, or while we waited
                held.known.refresh()
                if held.known.id != id:
                    raise CorruptRecordError("a folder says that it belongs to another id")
                if alone and not held.is_settled:
                    # Whoever made it may have been killed before its names were on the disk.
                    self._disk.sync_folder(outer)
                    self._disk.sync_folder(held.folder)
                    held.is_settled = True
                stack.enter_context(tried.pop_all())
                return held.known

    def _take(self, place: Place, name: str) -> _Held[K]:
        """One more user holds the lock of it. Raises FileNotFoundError where there is none."""
        key = (place.identity, name)
        with self._lock:
            held = self._held.pop(key, None)
            if held is None:
                folder = self._disk.open_folder(place[self._within], name)
                held = _Held(self._disk, folder, self._know(folder))
            self._held[key] = held
            held.users += 1
            if len(self._held) > HELD:
                self._evict()
        if not held.lock.acquire(timeout=self._lock_timeout):
            self._left(held)
            raise StoreUnavailableError(
                f"another task was in the way for over {self._lock_timeout:g} s; "
                "nothing was applied"
            )
        return held

    def _evict(self) -> None:
        """Close those that were not used for longest and that nobody uses now."""
        idle = [key for key, held in self._held.items() if not held.users]
        for key in idle[: len(self._held) - HELD]:
            self._held.pop(key).close()

    def _leave(self, held: _Held[K]) -> None:
        held.lock.release()
        self._left(held)

    def _left(self, held: _Held[K]) -> None:
        with self._lock:
            held.users -= 1
            if held.is_stale and not held.users:
                held.close()

    def _let_go(self, held: _Held[K]) -> None:
        held.is_stale = True
        if not held.users:
            held.close()

    def forget(self, place: Place, id: str) -> None:
        """It is gone: its files are closed as soon as nobody uses them."""
        self._drop((place.identity, name_of(id)))

    def _drop(self, key: tuple[object, str], only: _Held[K] | None = None) -> None:
        with self._lock:
            held = self._held.get(key)
            if held is not None and only in (None, held):
                self._let_go(self._held.pop(key))

    def close(self) -> None:
        with self._lock:
            while self._held:
                self._let_go(self._held.popitem()[1])
