"""One more name for a file (a hard link), and what is done on a disk that gives none.

Files that would be shared are copies there: whole ones, or the beginning that somebody reads.
"""

import contextlib
import errno
import secrets

from stores_files.disk import Disk
from stores_files.places import NEW

_REFUSALS = {errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_READ = 1 << 22


def is_refused(error: OSError) -> bool:
    """Whether the disk gives this file no further name, or no file one."""
    return error.errno in _REFUSALS


def are_given(disk: Disk, folder: int) -> bool:
    """Whether files in a folder can have two names; found by trying."""
    first, second = (NEW + secrets.token_hex(8) for _ in range(2))
    disk.close(disk.make_file(folder, first))
    try:
        disk.link(folder, first, folder, second)
        disk.unlink(folder, second)
    except OSError as error:
        if not is_refused(error):
            raise
        return False
    finally:
        disk.unlink(folder, first)
    return True


def link_or_move(disk: Disk, folder: int, name: str, to: int, to_name: str) -> None:
    """One more name for a file; on a disk that gives none it is the only one."""
    try:
        disk.link(folder, name, to, to_name)
    except OSError as error:
        if not is_refused(error):
            raise
        disk.rename(folder, name, to, to_name)


def link_or_copy(
    disk: Disk, folder: int, name: str, to: int, to_name: str, length: int | None = None
) -> None:
    """One more name for a file; on a disk that gives none a copy of all, or so many bytes."""
    try:
        disk.link(folder, name, to, to_name)
    except OSError as error:
        if not is_refused(error):
            raise
        copy(disk, folder, name, to, to_name, length)


def copy(
    disk: Disk, folder: int, name: str, to: int, to_name: str, length: int | None = None
) -> None:
    """A file, or its first bytes, in a new one, on the disk for certain (its name is not)."""
    with (
        disk.opened(disk.open_file(folder, name)) as source,
        disk.opened(disk.make_file(to, to_name)) as target,
    ):
        try:
            end = disk.size(source) if length is None else length
            for offset in range(0, end, _READ):
                disk.write(target, offset, disk.read(source, offset, min(_READ, end - offset)))
            disk.sync(target)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.unlink(to, to_name)
            raise
