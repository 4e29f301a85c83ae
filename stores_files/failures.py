"""What the system's errors mean to a caller: the one place that looks at them."""

import contextlib
import errno
from collections.abc import Generator

from stores_core.errors import CorruptRecordError, OutcomeUnknownError, StoreError
from stores_core.errors import StoreUnavailableError as Unavailable
from stores_files.disk import NotAFileError

_REASONS = {
    errno.ENOSPC: "there is no room left",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the file may not grow further",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "the folder or a file in it may not be opened",
    errno.EPERM: "the system does not allow it",
    errno.EMFILE: "this process has too many files open",
    errno.ENFILE: "the system has too many files open",
    errno.ENOMEM: "there is not enough memory",
    errno.EIO: "the disk cannot be read or written",
    errno.ENOENT: "a file or folder is gone",
}
_PLANTED = {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}


def meaning(error: OSError) -> StoreError:
    """The error of a read, or of a write of which nothing was applied."""
    if isinstance(error, NotAFileError) or error.errno in _PLANTED:
        return CorruptRecordError(
            "a link, or something else that is no file of ours, stands where one belongs; it was "
            "not followed; `verify` names it"
        )
    why = _REASONS.get(error.errno or 0, "the system refused")
    return Unavailable(f"{why} ({_code(error)}); nothing was applied")


def unknown(error: OSError) -> OutcomeUnknownError:
    """The error of a write that may have been applied."""
    return OutcomeUnknownError(
        f"the disk failed while it was written to ({_code(error)}); what was written may or may "
        "not be there"
    )


@contextlib.contextmanager
def nothing_applied() -> Generator[None]:
    """Turns the system's errors into ours, where none of the work counts once one came."""
    try:
        yield
    except OSError as error:
        raise meaning(error) from error


@contextlib.contextmanager
def perhaps_applied() -> Generator[None]:
    """The same for the last steps of a write, after which it counts."""
    try:
        yield
    except OSError as error:
        raise unknown(error) from error


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
