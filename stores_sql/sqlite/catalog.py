"""What is listed newest first: pages by key, whole or along one filter.

The order is by age and then by id, which is newest first and then by id ascending. A position is
the text of where a page ended.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from sqlalchemy import delete, func, select

from stores_core.codec import decode_json, encode_json
from stores_sql.sqlite.statements import Connection, Row, Statement, given, inserting
from stores_sql.sqlite.tables import labels

Place = tuple[int, str]

_BEFORE_ALL: Place = (-(1 << 63), "")

_INSERT_LABEL = inserting(labels)
_of_label = (
    labels.c.tenant == given("tenant"),
    labels.c.store == given("store"),
    labels.c.key == given("key"),
    labels.c.value == given("value"),
)
_DELETE_LABEL = Statement(
    delete(labels).where(*_of_label, labels.c.age == given("age"), labels.c.id == given("id"))
)
_few = select(labels.c.id).where(*_of_label).limit(given("most")).subquery()
_COUNT_LABEL = Statement(select(func.count()).select_from(_few))


def place_of(position: str) -> Place:
    """The place behind which a page begins."""
    if not position:
        return _BEFORE_ALL
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
    rows: Iterable[Row],
    read: Callable[[Row], E],
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


def decode_labels(text: bytes) -> dict[str, str]:
    return {} if text == b"{}" else decode_json(text)


def enter_labels(
    connection: Connection,
    tenant: int,
    store: int,
    target: int,
    place: Place,
    values: Mapping[str, str],
) -> None:
    """Let what has this place be listed by these labels."""
    if values:
        _INSERT_LABEL.many(
            connection,
            [(tenant, store, key, value, *place, target) for key, value in values.items()],
        )


def remove_labels(
    connection: Connection, tenant: int, store: int, place: Place, values: Mapping[str, str]
) -> None:
    """The reverse of :func:`enter_labels`."""
    for key, value in values.items():
        _DELETE_LABEL.run(
            connection,
            tenant=tenant, store=store, key=key, value=value, age=place[0], id=place[1],
        )  # fmt: skip


def count_label(
    connection: Connection, tenant: int, store: int, label: tuple[str, str], most: int
) -> int:
    """How many bear a label, counted up to ``most``."""
    key, value = label
    counted: Any = _COUNT_LABEL.value(
        connection, tenant=tenant, store=store, key=key, value=value, most=most
    )
    return counted
