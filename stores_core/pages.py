"""What every backend computes alike: positions of a page, of a load, its size; pages of names."""

from collections.abc import Iterable, Sequence

from stores_core.errors import InvalidRequestError, RecordTooLargeError
from stores_core.limits import LOAD_BYTES
from stores_core.runs import LoadRunRequest


def check_start(start: int, count: int) -> None:
    """Refuse a ``start`` beyond the log's length (RUN-L3)."""
    if start > count:
        raise InvalidRequestError(
            field="start",
            found=f"{start}, beyond the {count} entries of the run that bears this id now",
            allowed=f"0 to {count}; after a delete and a new create, start at 0",
        )


def load_starts(request: LoadRunRequest, messages: int, events: int) -> tuple[int, int]:
    """The first positions that a load of a run with these counts gives (RUN-L2)."""
    last_messages = request.last_messages
    last_events = request.last_events
    if last_events is None:
        last_events = events if last_messages is None else 0
    if last_messages is None:
        last_messages = messages
    return max(0, messages - last_messages), max(0, events - last_events)


def check_load(sizes: Iterable[int]) -> None:
    """Refuse a load above 256 MiB (ALL-11)."""
    total = sum(sizes)
    if total > LOAD_BYTES:
        raise RecordTooLargeError(
            field="run_id",
            found=f"a run of {total} bytes",
            allowed=f"{LOAD_BYTES} in one load; page through it with read_messages and "
            "read_events, or load the newest with last_messages",
        )


def last_name(cursor: str) -> str | None:
    """The name behind which a page of names begins; None where it is the first page.

    A tenant or namespace may be "", so a position is the name with a sign before it.
    """
    return cursor[1:] if cursor else None


def names_page(names: Sequence[str], limit: int) -> tuple[Sequence[str], str]:
    """The first ``limit`` names, and the position to go on from: "" where there are no more."""
    page = names[:limit]
    return page, f":{page[-1]}" if len(page) < len(names) else ""
