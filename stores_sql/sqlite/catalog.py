"""The labels by which runs and results are listed."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select

from stores_sql.catalog import Place
from stores_sql.parameters import given
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.tables import labels

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
