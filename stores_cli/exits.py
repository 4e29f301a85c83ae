"""Exit codes, and which error ends with which."""

from enum import IntEnum

from stores_core.errors import (
    InvalidRequestError,
    SchemaVersionError,
    StoreError,
    StoreUnavailableError,
)
from stores_core.revisions import State


class Exit(IntEnum):
    """How a command ends."""

    FINE = 0
    """Done, and nothing is wrong."""

    FOUND = 1
    """It found something (a difference, damage, nothing there) or failed in what it did."""

    UNUSABLE = 2
    """It could not start: bad usage, a bad URL, a backend that cannot be reached or has nothing."""

    INTERRUPTED = 130
    """Stopped by Ctrl-C. What was done stays done; the same command goes on from there."""


HELP = "Exit codes: 0 fine, 1 found something or failed, 2 bad usage or unreachable, 130 stopped."


def code_of(error: StoreError) -> Exit:
    """The code that a command ends with when this error stops it."""
    if isinstance(error, InvalidRequestError | StoreUnavailableError):
        return Exit.UNUSABLE
    if isinstance(error, SchemaVersionError) and error.state == State.ABSENT:
        return Exit.UNUSABLE
    return Exit.FOUND
