"""What is listed newest first: places in the order, and pages of it.

The order is by age and then by id, which is newest first and then by id ascending. A position is
the text of where a page ended.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from stores_core.codec import decode_json, encode_json

Place = tuple[int, str]

BEFORE_ALL: Place = (-(1 << 63), "")


def place_of(position: str) -> Place:
    """The place behind which a page begins."""
    if not position:
        return BEFORE_ALL
    age, _, id = position.partition(":")
    return int(age), id


def position_of(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


class Placed(Protocol):
    """A row that stands in such an order."""

    @property
    def place(self) -> Place: ...


E = TypeVar("E", bound=Placed)


def page(
    rows: Iterable[Sequence[Any]],
    read: Callable[[Sequence[Any]], E],
    limit: int,
    most: int,
    keep: Callable[[E], bool] | None = None,
) -> tuple[list[E], str, int]:
    """What of ``rows`` is on the page, the position to go on from ("" at the end), how many were
    looked at.

    At most ``limit`` are found and ``most`` looked at. ``rows`` are read one by one.
    """
    found: list[E] = []
    looked, item = 0, None
    for row in rows:
        if item is not None and (looked == most or len(found) == limit):
            return found, position_of(item.place), looked
        looked += 1
        item = read(row)
        if keep is None or keep(item):
            found.append(item)
    return found, "", looked


def encode_labels(values: Mapping[str, str]) -> bytes:
    return encode_json(dict(values))


def decode_labels(text: bytes | str) -> dict[str, str]:
    return {} if text in (b"{}", "{}") else decode_json(text)
