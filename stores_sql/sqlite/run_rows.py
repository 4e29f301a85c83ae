"""Rows of runs: reading a header, entering a run and taking it away, its keys."""

from collections.abc import Iterable, Mapping

from sqlalchemy import delete, select, update

from stores_core.keys import KEYS_KEPT
from stores_core.moving import KeyRecord
from stores_sql.catalog import encode_labels
from stores_sql.headers import NewRun, StoredRun, key_record
from stores_sql.parameters import given
from stores_sql.sqlite.catalog import enter_labels, remove_labels
from stores_sql.sqlite.logs import View, leave
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.tables import EVENTS, MESSAGES, RUNS, run_keys, runs

HEADER = [column for column in runs.columns if column.name != "tenant"]
"""What a statement selects for :class:`StoredRun`."""

_FIND = Statement(select(*HEADER).where(runs.c.tenant == given("tenant"), runs.c.id == given("id")))
_INSERT = inserting(runs, numbered=True)
_DELETE = Statement(delete(runs).where(runs.c.number == given("run")))
_GROW = Statement(
    update(runs)
    .values(
        {name: given(name) for name in (
            "updated", "message_count", "message_log", "message_start",
            "event_count", "event_log", "event_start", "key_count", "imported",
        )}
    )
    .where(runs.c.number == given("run"))
)  # fmt: skip
_SET_LABELS = Statement(
    update(runs)
    .values(labels=given("labels"), updated=given("updated"), imported=given("imported"))
    .where(runs.c.number == given("run"))
)
_KEY = Statement(
    select(run_keys.c.digest, run_keys.c.message_count, run_keys.c.event_count).where(
        run_keys.c.run == given("run"), run_keys.c.key == given("key")
    )
)
_KEYS = Statement(
    select(run_keys.c.key, run_keys.c.digest, run_keys.c.message_count, run_keys.c.event_count)
    .where(run_keys.c.run == given("run"))
    .order_by(run_keys.c.number)
)
_FREE_SLOT = Statement(
    delete(run_keys).where(run_keys.c.run == given("run"), run_keys.c.slot == given("slot"))
)
_INSERT_KEY = inserting(run_keys)
_DELETE_KEYS = Statement(delete(run_keys).where(run_keys.c.run == given("run")))


def messages_of(run: StoredRun, tenant: int) -> View:
    return View(tenant, run.number, MESSAGES, run.message_count, run.message_log, run.message_start)


def events_of(run: StoredRun, tenant: int) -> View:
    return View(tenant, run.number, EVENTS, run.event_count, run.event_log, run.event_start)


def find(connection: Connection, tenant: int, run_id: str) -> StoredRun | None:
    row = _FIND.one(connection, tenant=tenant, id=run_id)
    return None if row is None else StoredRun._make(row)


def enter(connection: Connection, tenant: int, new: NewRun, counts: tuple[int, int]) -> int:
    """Put a run with so many messages and events; its number, for the ranges to come."""
    number = _INSERT.number(
        connection,
        tenant=tenant, id=new.id, age=-new.created, updated=new.updated,
        parent=new.parent, fork_point=new.fork_point,
        message_count=counts[0], message_log=0, message_start=0,
        event_count=counts[1], event_log=0, event_start=0,
        key_count=0, imported=int(new.imported), labels=encode_labels(new.labels),
    )  # fmt: skip
    enter_labels(connection, tenant, RUNS, number, (-new.created, new.id), new.labels)
    return number


def grow(
    connection: Connection,
    run: int,
    messages: View,
    events: View,
    *,
    updated: int,
    key_count: int,
    imported: bool,
) -> None:
    """Write back what appending, or joining ranges, changed."""
    _GROW.run(
        connection,
        run=run, updated=updated, key_count=key_count, imported=int(imported),
        message_count=messages.count, message_log=messages.log, message_start=messages.start,
        event_count=events.count, event_log=events.log, event_start=events.start,
    )  # fmt: skip


def relabel(
    connection: Connection, tenant: int, run: StoredRun, labels: Mapping[str, str], updated: int
) -> None:
    """Give a run other labels."""
    remove_labels(connection, tenant, RUNS, run.place, run.named())
    enter_labels(connection, tenant, RUNS, run.number, run.place, labels)
    _SET_LABELS.run(
        connection, run=run.number, labels=encode_labels(labels), updated=updated, imported=0
    )


def take_away(connection: Connection, tenant: int, run: StoredRun) -> list[int]:
    """Take a run away; the logs that it read, to be freed."""
    remove_labels(connection, tenant, RUNS, run.place, run.named())
    _DELETE_KEYS.run(connection, run=run.number)
    _DELETE.run(connection, run=run.number)
    return leave(connection, run.number)


def known_key(connection: Connection, run: int, key: str) -> KeyRecord | None:
    """What this key stood for, if it is one of the run's latest."""
    row = _KEY.one(connection, run=run, key=key)
    return None if row is None else key_record(key, *row)


def keys_of(connection: Connection, run: int) -> list[KeyRecord]:
    """The live keys, oldest first."""
    return [key_record(*row) for row in _KEYS.all(connection, run=run)]


def keep_keys(connection: Connection, run: int, key_count: int, keys: Iterable[KeyRecord]) -> int:
    """Remember more keys in place of the oldest; how many the run has seen now."""
    for key in keys:
        slot = key_count % KEYS_KEPT
        if key_count >= KEYS_KEPT:
            _FREE_SLOT.run(connection, run=run, slot=slot)
        _INSERT_KEY.run(
            connection,
            run=run, slot=slot, number=key_count, key=key.key, digest=key.digest,
            message_count=key.message_count, event_count=key.event_count,
        )  # fmt: skip
        key_count += 1
    return key_count
