"""The sizes that are the same on every backend, and where a page ends."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from stores_core.errors import InvalidRequestError

MIB = 1024 * 1024
PAGE_ENTRIES = 1_000
PAGE_BYTES = 16 * MIB
LOAD_BYTES = 256 * MIB
QUERY_BYTES = 64 * 1024
SLICE_CHARACTERS = 1_000_000

READ_LIMIT = 100
LIST_LIMIT = 50
SEARCH_LIMIT = 100
SLICE_LIMIT = 4_000

FILTER_FACTOR, FILTER_SLACK = 10, 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one record and one batch may measure, in bytes of JSON; options raise them.

    ``max_entry_bytes`` holds for an entry, a note and a result, ``max_batch_entries`` and
    ``max_batch_bytes`` for one append or put.
    """

    max_entry_bytes: int = 32 * MIB
    max_batch_entries: int = 1_000
    max_batch_bytes: int = 32 * MIB

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            most = CEILINGS[field.name]
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidRequestError(
                    field=field.name, found=repr(value)[:40], allowed=f"an int from 1 to {most}"
                )


CEILINGS = {"max_entry_bytes": 64 * MIB, "max_batch_entries": 10_000, "max_batch_bytes": 128 * MIB}


def looked_at_most(limit: int) -> int:
    """How many entries a filtered page may look at (RUN-Q4)."""
    return FILTER_FACTOR * limit + FILTER_SLACK


def page_length(sizes: Iterable[int]) -> int:
    """How many of the next entries, of these sizes in bytes, one page takes (ALL-11).

    At most 1,000, and no more once 16 MiB are reached, but never none.
    """
    total = count = 0
    for size in sizes:
        total += size
        if (count and total > PAGE_BYTES) or count == PAGE_ENTRIES:
            break
        count += 1
    return count
