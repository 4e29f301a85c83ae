"""The lock file: one process, and one writer in it, writes at a time.

SQLite has a lock of its own, but before 3.51.3 two connections that write and checkpoint at the
same instant can damage a WAL file. So every transaction that writes, and with it every checkpoint,
happens under this lock. It is taken with every version of SQLite, because processes with different
ones may share a file, and it hands over sooner than SQLite's own waiting does.
"""

import os
import sys
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from stores_sql.sqlite.failures import busy

_FIRST_PAUSE, _LONGEST_PAUSE = 0.000_2, 0.002

if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class LockFile:
    """A file beside the database that is locked and never written or removed.

    Opened twice, also in one process, the two exclude each other. The system drops the lock of a
    process that dies.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)
        _open_here.add(self)

    @contextmanager
    def held(self, timeout: float) -> Generator[None]:
        """Hold the lock. Raises StoreUnavailableError if others do for ``timeout`` seconds."""
        self._take(time.monotonic() + timeout)
        try:
            yield
        finally:
            _release(self._descriptor)

    def _take(self, deadline: float) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                _try(self._descriptor)
            except OSError:
                if time.monotonic() >= deadline:
                    raise busy() from None
                time.sleep(pause)
                pause = min(_LONGEST_PAUSE, 1.5 * pause)
            else:
                return

    def close(self) -> None:
        """Give the file up; once more is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _opened(path: Path) -> int:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)  # whatever the umask
    return descriptor


_open_here = weakref.WeakSet[LockFile]()


def _close_in_forked_child() -> None:
    # A child that kept the descriptor would go on holding the lock of a parent that died.
    for lock in list(_open_here):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_forked_child)
