"""What is listed newest first: pages by key, whole or along one filter.

A filtered page is found by the server: it walks along the rarest filter given and sends what fits
the others, so what is looked at in vain does not travel.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
    Table,
    Text,
    func,
    or_,
    select,
    true,
    tuple_,
)

from stores_sql.catalog import Placed, position_of
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Row, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import labels

E = TypeVar("E", bound=Placed)

_with_label = (
    labels.c.tenant == TENANT,
    labels.c.store == given("store"),
    labels.c.key == given("key"),
    labels.c.value == given("value"),
)
# In the order of the index, so that it is followed: Postgres takes most labels for a few rows.
_few = (
    select(labels.c.age)
    .where(*_with_label)
    .order_by(labels.c.age, labels.c.id)
    .limit(given("most"))
).subquery()
_COUNT_LABEL = Statement(select(func.count(), func.coalesce(func.max(_few.c.age), fixed(0))))


def behind(age: ColumnElement[Any], id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Behind the place of ``age`` and ``id``, in the order of listings."""
    return tuple_(age, id) > tuple_(given("age"), given("id"))


async def rarest_label(
    connection: Connection, tenant: str, store: int, wanted: Mapping[str, str], most: int
) -> tuple[tuple[str, str], int]:
    """The label that the fewest bear, and how many do, counted up to ``most``.

    Of those that so many bear, it is the one whose count went back furthest.
    """
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for key, value in wanted.items():
        row = await _COUNT_LABEL.one(
            connection, name=tenant, store=store, key=key, value=value, most=most
        )
        count, oldest = row or (0, 0)
        counts[key, value] = count, -oldest
    rarest = min(counts, key=lambda label: counts[label])
    return rarest, counts[rarest][0]


def bears_all(store: int, place: Subquery, id: str) -> ColumnElement[bool]:
    """Whether what stands at this place bears all of the labels ``keys`` with ``values``."""
    keys = given("keys", ARRAY(Text))
    pairs = func.unnest(keys, given("values", ARRAY(Text))).table_valued("key", "value")
    wanted = pairs.render_derived("wanted")
    borne = (
        select(func.count())
        .select_from(labels.join(wanted, true()))
        .where(
            labels.c.tenant == place.c.tenant,
            labels.c.store == fixed(store),
            labels.c.key == wanted.c.key,
            labels.c.value == wanted.c.value,
            labels.c.age == place.c.age,
            labels.c.id == place.c[id],
        )
        .correlate(place)
        .scalar_subquery()
    )
    return borne == func.cardinality(keys)


def along_label(table: Table, id: str, columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """These columns of what bears a label, in order, for :func:`filtered`.

    The walk is limited before anything is joined to it, and each row is looked up by its key, with
    an OFFSET that keeps it so: left to its estimates Postgres reads both tables whole.
    """
    borne = (
        select(labels.c.tenant, labels.c.age, labels.c.id.label(id))
        .where(*_with_label, behind(labels.c.age, labels.c.id))
        .order_by(labels.c.age, labels.c.id)
        .limit(given("most") + fixed(1))
        .subquery("borne")
    )
    place = ("tenant", "age", id)
    row = (
        select(*(column for column in columns if column.name not in place))
        .where(*(table.c[name] == borne.c[name] for name in place))
        .offset(fixed(0))
        .lateral("row")
    )
    taken: list[ColumnElement[Any]] = [
        borne.c[c.name] if c.name in place else row.c[c.name] for c in columns
    ]
    rows: Select[Any] = select(borne.c.tenant, *taken).select_from(borne.join(row, true()))
    return rows.order_by(borne.c.age, borne.c[id])


def filtered(
    rows: Select[Any], id: str, keep: Callable[[Subquery], ColumnElement[bool]]
) -> Statement:
    """Of ``rows``, which end behind ``most`` of them, those to keep, for :func:`page_of`.

    ``rows`` have the columns ``tenant``, ``age`` and ``id`` too. The last one that is looked at
    comes whether it is kept or not, since a page may go on behind it.
    """
    walked = rows.limit(given("most") + fixed(1)).subquery("walked")
    order = walked.c.age, walked.c[id]
    numbered = select(
        *walked.c,
        func.row_number().over(order_by=order).label("nth"),
        func.lead(fixed(1)).over(order_by=order).label("following"),
    ).subquery("numbered")
    judged = select(*numbered.c, keep(numbered).label("kept")).subquery("judged")
    columns = [column for column in judged.c if column.name not in ("tenant", "following")]
    return Statement(
        select(*columns)
        .where(or_(judged.c.kept, judged.c.nth >= given("most"), judged.c.following.is_(None)))
        .order_by(judged.c.age, judged.c[id])
        .limit(given("limit", BigInteger) + fixed(2))
    )


def page_of(
    rows: Iterable[Row], read: Callable[[Row], E], limit: int, most: int
) -> tuple[list[E], str, int]:
    """What of the rows of :func:`filtered` is on the page, the position to go on from ("" at the
    end), how many were looked at: at most ``most``."""
    found: list[E] = []
    looked, before = 0, None
    for *columns, nth, kept in rows:
        if before is not None and (nth > most or len(found) == limit):
            return found, position_of(before.place), min(nth, most)
        looked, before = nth, read(columns)
        if kept:
            found.append(before)
    return found, "", looked
