"""What the system's errors mean to a caller: the one place that looks at them."""

import errno
from collections.abc import Callable

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


class _Turning:
    """Turns the system's errors into ours. Plain methods: each operation passes here."""

    def __init__(self, meaning: Callable[[OSError], StoreError]) -> None:
        self._meaning = meaning

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, OSError):
            raise self._meaning(error) from error


def nothing_applied() -> _Turning:
    """Turns the system's errors into ours, where none of the work counts once one came."""
    return _NOTHING


def perhaps_applied() -> _Turning:
    """The same for the last steps of a write, after which it counts."""
    return _PERHAPS


_NOTHING, _PERHAPS = _Turning(meaning), _Turning(unknown)


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
