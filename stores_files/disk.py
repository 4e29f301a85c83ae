"""Every call that touches the disk, in one thin place, so that a recorder can stand in for it.

Files and folders are reached from an open folder by one name at a time, and no name is followed
where it is a symbolic link: so nothing that was planted inside the root leads out of it. Modes are
set whatever the umask is. Reads and writes go on until all is done: the system may stop short.
"""

import contextlib
import mmap
import os
import stat
import sys
import time
from collections.abc import Generator

from stores_core.errors import StoreUnavailableError

FOLDER_MODE, FILE_MODE = 0o700, 0o600

if sys.platform == "win32":  # stores_files.storage refuses there
    _FOLDER = _FILE = 0
else:
    import fcntl

    _FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    _FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe planted here must not hang us
_FIRST_WAIT, _LONGEST_WAIT = 0.000_2, 0.02


class NotAFileError(OSError):
    """Something else stands where a file of ours belongs."""


class Disk:
    """The calls themselves. What they raise is OSError; stores_files.failures says what it means.

    A folder is an open descriptor of it, a file likewise.
    """

    # Folders

    def open_root(self, path: str) -> int:
        """The folder that the host named; a link to a folder is the host's own choice."""
        return os.open(path, _FOLDER & ~os.O_NOFOLLOW)

    def open_folder(self, folder: int, name: str) -> int:
        return os.open(name, _FOLDER, dir_fd=folder)

    def make_folder(self, folder: int, name: str) -> None:
        """Raises FileExistsError where anything bears the name."""
        os.mkdir(name, FOLDER_MODE, dir_fd=folder)
        os.chmod(name, FOLDER_MODE, dir_fd=folder)

    def names(self, folder: int) -> list[str]:
        """What a folder holds, in no order."""
        with self.opened_anew(folder) as listed:
            return os.listdir(listed)  # noqa: PTH208 - a descriptor is no path

    def rename(self, folder: int, name: str, to: int, to_name: str) -> None:
        """Move a file over another, or a folder to a name that is free or an empty folder's."""
        os.rename(name, to_name, src_dir_fd=folder, dst_dir_fd=to)

    def link(self, folder: int, name: str, to: int, to_name: str) -> None:
        """One more name for a file. Raises FileExistsError."""
        os.link(name, to_name, src_dir_fd=folder, dst_dir_fd=to, follow_symlinks=False)

    def unlink(self, folder: int, name: str) -> None:
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, folder: int, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(name, dir_fd=folder)

    def sync_folder(self, folder: int) -> None:
        """Let the names in a folder survive a crash of the machine."""
        os.fsync(folder)

    # Files

    def open_file(self, folder: int, name: str) -> int:
        """Open for reading and writing. Raises FileNotFoundError, NotAFileError."""
        return self._opened(os.open(name, _FILE | os.O_RDWR, dir_fd=folder))

    def make_file(self, folder: int, name: str) -> int:
        """Make a file that is not there. Raises FileExistsError."""
        file = os.open(name, _FILE | os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE, dir_fd=folder)
        os.fchmod(file, FILE_MODE)
        return file

    def _opened(self, file: int) -> int:
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        raise NotAFileError("no regular file")

    def read(self, file: int, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset`` on; fewer only where the file ends."""
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(file, length, offset)
            if not part:
                break
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def mapped(self, file: int, length: int) -> mmap.mmap | bytearray:
        """The first bytes of a file, which has as many, as memory that is read where it is used.

        What is changed there stays in this process.
        """
        return mmap.mmap(
            file, length, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )

    def write(self, file: int, offset: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(file, view, offset)
            view, offset = view[written:], offset + written

    def truncate(self, file: int, length: int) -> None:
        os.ftruncate(file, length)

    def cut(self, folder: int, name: str, length: int) -> None:
        """Shorten a file for good."""
        with self.opened(self.open_file(folder, name)) as file:
            self.truncate(file, length)
            self.sync(file)

    def sync(self, file: int) -> None:
        """Let the contents of a file survive a crash of the machine."""
        if sys.platform == "darwin":
            # There fsync leaves the data in the drive's own cache.
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(file)

    def size(self, file: int) -> int:
        return os.fstat(file).st_size

    def links(self, file: int) -> int:
        """How many names a file has."""
        return os.fstat(file).st_nlink

    def mode(self, file: int) -> int:
        """The bits that say who may do what."""
        return stat.S_IMODE(os.fstat(file).st_mode)

    def identity(self, folder: int) -> tuple[int, int, int]:
        """Equal to :meth:`identity_of` the folder's name, as long as that is still its name."""
        found = os.fstat(folder)
        return found.st_dev, found.st_ino, 0

    def identity_of(self, folder: int, name: str) -> tuple[int, int, int] | None:
        """What bears a name now: another one after each replacement. None where nothing does."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino, 0 if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns

    def size_of(self, folder: int, name: str) -> int:
        """The size of what bears the name. Raises FileNotFoundError."""
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size

    def links_of(self, folder: int, name: str) -> int:
        """How many names the file has that bears this one. Raises FileNotFoundError."""
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_nlink

    def age(self, folder: int, name: str) -> float:
        """Seconds since what bears the name was changed. Raises FileNotFoundError."""
        return time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime

    def close(self, file: int) -> None:
        os.close(file)

    @contextlib.contextmanager
    def opened(self, file: int) -> Generator[int]:
        """Closes a file or folder that was opened."""
        try:
            yield file
        finally:
            self.close(file)

    def opened_anew(self, folder: int) -> contextlib.AbstractContextManager[int]:
        """The same folder by a descriptor of its own, closed in the end.

        How far a listing has come, and a lock, belong to a descriptor: threads that share one miss
        names or meet them twice, and hold its lock together.
        """
        return self.opened(self.open_folder(folder, "."))

    # Locks

    def locked(
        self, file: int, patience: float, *, shared: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """Holds the lock of a file or folder, against other descriptors of it everywhere.

        Raises StoreUnavailableError after ``patience`` seconds. Locks of whole files (flock) belong
        to a descriptor: unlike record locks, they hold between threads, and closing another
        descriptor of the file does not drop them.
        """
        return _Lock(file, patience, shared=shared)


class _Lock:
    def __init__(self, file: int, patience: float, *, shared: bool) -> None:
        self._file, self._patience, self._shared = file, patience, shared

    def __enter__(self) -> None:
        kind = (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        try:
            fcntl.flock(self._file, kind)
        except BlockingIOError:
            self._wait(kind)

    def _wait(self, kind: int) -> None:
        end, wait = time.monotonic() + self._patience, _FIRST_WAIT
        while True:
            time.sleep(wait)
            try:
                fcntl.flock(self._file, kind)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise StoreUnavailableError(
                        f"another process or task held a lock for over {self._patience:g} s; "
                        "nothing was applied"
                    ) from None
                wait = min(2 * wait, _LONGEST_WAIT)

    def __exit__(self, *raised: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)


class UnsyncedDisk(Disk):
    """The same without waiting: a crash of the machine takes what the disk has not written yet."""

    def sync(self, file: int) -> None:
        pass

    def sync_folder(self, folder: int) -> None:
        pass
