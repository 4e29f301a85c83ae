"""Rows of runs: reading a header, entering a run and taking it away, appending, its keys.

What must happen together is one statement wherever it can be, so that it takes one round trip.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    JSON,
    BigInteger,
    Boolean,
    Text,
    and_,
    case,
    cast,
    delete,
    exists,
    false,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_not

from stores_core.keys import KEYS_KEPT
from stores_core.moving import KeyRecord
from stores_sql.catalog import encode_labels
from stores_sql.headers import NewRun, StoredRun, key_record
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Row, Statement, inserting
from stores_sql.postgres.storage import HELD_TENANT, TENANT
from stores_sql.postgres.tables import (
    NUMBERS,
    RUNS,
    entries,
    labels,
    logs,
    run_keys,
    run_ranges,
    runs,
)

HEADER = [runs.c[name] for name in StoredRun._fields]
"""What a statement selects for :class:`StoredRun`."""

_TRUE, _FALSE = literal_column("true", Boolean), literal_column("false", Boolean)

_named = (runs.c.tenant == TENANT, runs.c.id == given("id"))
_in_tenant = (runs.c.tenant == given("tenant"), runs.c.id == given("id"))
FIND = Statement(select(*HEADER).where(*_named))
FIND_IN = Statement(select(*HEADER).where(*_in_tenant))
HOLD = Statement(select(*HEADER).where(*_in_tenant).with_for_update())
"""Nobody appends to the run, forks it or takes it away until the transaction ends."""

HOLD_LABELS = Statement(select(*HEADER).where(*_in_tenant).with_for_update(key_share=True))
"""Nobody appends to the run or takes it away; it may be forked."""


def labels_in(text: Any) -> Any:
    """Rows of ``key`` and ``value`` for labels given as JSON text."""
    return func.json_each_text(cast(text, JSON)).table_valued("key", "value", name="named")


def entering(source: CTE) -> tuple[CTE, list[CTE]]:
    """Put the run that ``source`` gives, unless its id is taken: the row, and what goes with it.

    ``source`` has the run's columns but for its logs, and a new ``number``. Where it is ``full``,
    the run has as many ranges as it may have, and gets logs of its own only once they are joined.
    """
    own = case((source.c.full, fixed(0)), else_=source.c.number)
    filled = {
        **{name: source.c[name] for name in StoredRun._fields if name in source.c},
        "tenant": source.c.tenant,
        "message_log": fixed(2) * own,
        "message_start": source.c.message_count,
        "event_log": case((source.c.full, fixed(0)), else_=fixed(2) * own + fixed(1)),
        "event_start": source.c.event_count,
    }
    row = (
        insert_or_not(runs)
        .from_select(list(filled), select(*filled.values()))
        .on_conflict_do_nothing()
        .returning(*runs.c)
        .cte("entered")
    )
    own_logs = (
        select(row.c.tenant, log, given(id, Text), row.c.number, _TRUE, _FALSE).where(
            log > fixed(0)
        )
        for log, id in ((row.c.message_log, "messages_id"), (row.c.event_log, "events_id"))
    )
    made = insert(logs).from_select(
        ["tenant", "number", "id", "run", "written_here", "trimmable"], union_all(*own_logs)
    )
    each = labels_in(row.c.labels)
    labelled = insert(labels).from_select(
        ["tenant", "store", "key", "value", "age", "id"],
        select(row.c.tenant, fixed(RUNS), each.c.key, each.c.value, row.c.age, row.c.id).join_from(
            row, each, true()
        ),
    )
    return row, [made.cte("made"), labelled.cte("labelled")]


def _enter() -> Statement:
    holder = HELD_TENANT.cte("holder")
    counts = ("age", "updated", "fork_point", "message_count", "event_count", "key_count")
    source = select(
        holder.c.number.label("tenant"),
        NUMBERS.next_value().label("number"),
        *(given(name, Text).label(name) for name in ("id", "parent", "labels")),
        *(given(name, BigInteger).label(name) for name in counts),
        *(given(name, Boolean).label(name) for name in ("imported", "full")),
    ).cte("source")
    row, others = entering(source)
    return Statement(
        select(holder.c.number, row.c.number)
        .select_from(holder.outerjoin(row, true()))
        .add_cte(*others)
    )


_ENTER = _enter()


def log_ids() -> dict[str, str]:
    """Ids for the logs of a new run, which no other storage has."""
    return {"messages_id": secrets.token_hex(16), "events_id": secrets.token_hex(16)}


async def enter(
    connection: Connection,
    tenant: str,
    new: NewRun,
    counts: tuple[int, int] = (0, 0),
    *,
    key_count: int = 0,
    full: bool = False,
) -> Row | None:
    """Put a run with so many messages and events, unless its id is taken.

    The numbers of the tenant and of the run, or None for it; no row where the tenant has none yet.
    """
    return await _ENTER.one(
        connection,
        name=tenant, id=new.id, parent=new.parent, labels=encode_labels(new.labels).decode(),
        age=-new.created, updated=new.updated, fork_point=new.fork_point,
        message_count=counts[0], event_count=counts[1], key_count=key_count,
        imported=new.imported, full=full, **log_ids(),
    )  # fmt: skip


_GROWN = (
    "tenant", "number", "key_count", "message_count", "message_log", "message_start",
    "event_count", "event_log", "event_start",
)  # fmt: skip


def _bodies(name: str) -> Any:
    given_bodies = given(name, ARRAY(Text))
    unnested = func.unnest(given_bodies).table_valued("body", with_ordinality="nth")
    return unnested.render_derived(f"{name}_in")


def _appending(*, keyed: bool) -> Statement:
    """Write a batch where the run is there, has the lengths expected and does not know the key.

    The row's own lock orders writers and hands out positions. A key that another writer is just
    bringing ends in a unique violation, and so nothing is written.
    """
    added = {"message": given("messages_more"), "event": given("events_more")}
    changes: dict[str, Any] = {
        "updated": given("updated"),
        "imported": false(),
        **{f"{kind}_count": runs.c[f"{kind}_count"] + more for kind, more in added.items()},
    }
    fitting = [*_named, runs.c.message_log > fixed(0)]
    for kind in added:
        expected = given(f"expected_{kind}s", BigInteger)
        fitting.append(or_(expected.is_(None), runs.c[f"{kind}_count"] == expected))
    if keyed:
        changes["key_count"] = runs.c.key_count + fixed(1)
        fitting.append(
            ~exists().where(
                run_keys.c.tenant == runs.c.tenant,
                run_keys.c.run == runs.c.number,
                run_keys.c.key == given("key"),
            )
        )
    returned = (runs.c[name] for name in _GROWN)
    grown = update(runs).values(changes).where(*fitting).returning(*returned).cte("grown")
    written: list[Any] = []
    for kind, more in added.items():
        bodies = _bodies(f"{kind}s")
        begin = grown.c[f"{kind}_count"] - grown.c[f"{kind}_start"] - more
        position = begin + bodies.c.nth - fixed(1)
        columns = grown.c.tenant, grown.c[f"{kind}_log"], position, bodies.c.body
        written.append(select(*columns).join_from(grown, bodies, true()))
    into = ["tenant", "log", "position", "body"]
    others = [insert(entries).from_select(into, union_all(*written)).cte("written")]
    if keyed:
        others.append(_remembering(grown))
    return Statement(select(grown.c.message_count, grown.c.event_count).add_cte(*others))


def _remembering(grown: CTE) -> CTE:
    number = grown.c.key_count - fixed(1)
    slot = number % fixed(KEYS_KEPT)
    remembered = insert_or_not(run_keys).from_select(
        [column.name for column in run_keys.c],
        select(
            grown.c.tenant, grown.c.number, slot, number, given("key", Text), given("digest", Text),
            grown.c.message_count, grown.c.event_count,
        ),
    )  # fmt: skip
    changed = ("number", "key", "digest", "message_count", "event_count")
    return remembered.on_conflict_do_update(
        index_elements=["tenant", "run", "slot"],
        set_={name: remembered.excluded[name] for name in changed},
    ).cte("remembered")


APPEND, APPEND_KEYED = _appending(keyed=False), _appending(keyed=True)

_KEY = (run_keys.c.key, run_keys.c.digest, run_keys.c.message_count, run_keys.c.event_count)
_with_key = and_(
    run_keys.c.tenant == runs.c.tenant,
    run_keys.c.run == runs.c.number,
    run_keys.c.key == given("key"),
)
_FIND_WITH_KEY = Statement(
    select(*HEADER, *_KEY).select_from(runs.outerjoin(run_keys, _with_key)).where(*_named)
)
_KEYS = Statement(
    select(run_keys.c.run, *_KEY)
    .where(
        run_keys.c.tenant == given("tenant"),
        run_keys.c.run == func.any(given("runs", ARRAY(BigInteger))),
    )
    .order_by(run_keys.c.run, run_keys.c.number)
)
_INSERT_KEY = inserting(run_keys)

_removed, _added = labels_in(given("removed", Text)), labels_in(given("added", Text))
_RELABEL = Statement(
    update(runs)
    .where(*_in_tenant)
    .values(labels=given("labels"), updated=given("updated"), imported=false())
    .add_cte(
        delete(labels)
        .where(
            labels.c.tenant == given("tenant"),
            labels.c.store == fixed(RUNS),
            labels.c.key == _removed.c.key,
            labels.c.value == _removed.c.value,
            labels.c.age == given("age"),
            labels.c.id == given("id"),
        )
        .cte("removing"),
        insert(labels)
        .from_select(
            ["tenant", "store", "key", "value", "age", "id"],
            select(
                given("tenant", BigInteger), fixed(RUNS), _added.c.key, _added.c.value,
                given("age", BigInteger), given("id", Text),
            ),
        )
        .cte("adding"),
    )
)  # fmt: skip


async def find(connection: Connection, tenant: int, run_id: str) -> StoredRun | None:
    row = await FIND_IN.one(connection, tenant=tenant, id=run_id)
    return None if row is None else StoredRun._make(row)


async def find_with_key(
    connection: Connection, tenant: str, run_id: str, key: str
) -> tuple[StoredRun | None, KeyRecord | None]:
    """A run, and what this key stood for, if it is one of the run's latest."""
    row = await _FIND_WITH_KEY.one(connection, name=tenant, id=run_id, key=key)
    if row is None:
        return None, None
    split = len(HEADER)
    known = None if row[split] is None else key_record(*row[split:])
    return StoredRun._make(row[:split]), known


async def keys_of(
    connection: Connection, tenant: int, numbers: Sequence[int]
) -> dict[int, list[KeyRecord]]:
    """The live keys of each of these runs, oldest first."""
    found: dict[int, list[KeyRecord]] = {number: [] for number in numbers}
    for row in await _KEYS.all(connection, tenant=tenant, runs=list(numbers)):
        found[row[0]].append(key_record(*row[1:]))
    return found


async def keep_keys(
    connection: Connection, tenant: int, run: int, keys: Iterable[KeyRecord]
) -> None:
    """Remember the keys of a new run, which are not more than are kept."""
    rows = [
        (tenant, run, n, n, key.key, key.digest, key.message_count, key.event_count)
        for n, key in enumerate(keys)
    ]
    await _INSERT_KEY.many(connection, rows)


async def relabel(
    connection: Connection, tenant: int, run: StoredRun, wanted: Mapping[str, str], updated: int
) -> None:
    """Give a run other labels. It is held."""
    old = run.named()
    await _RELABEL.run(
        connection,
        tenant=tenant, id=run.id, age=run.age, updated=updated, labels=_text_of(wanted.items()),
        removed=_text_of(old.items() - wanted.items()),
        added=_text_of(wanted.items() - old.items()),
    )  # fmt: skip


def _text_of(pairs: Iterable[tuple[str, str]]) -> str:
    return encode_labels(dict(pairs)).decode()


_of_run = (runs.c.tenant == given("tenant"), runs.c.id == given("id"))
_named_in = labels_in(given("labels", Text))
_TAKE_AWAY = Statement(
    delete(runs)
    .where(*_of_run)
    .add_cte(
        delete(run_keys)
        .where(run_keys.c.tenant == given("tenant"), run_keys.c.run == given("run"))
        .cte("keys"),
        delete(run_ranges)
        .where(run_ranges.c.tenant == given("tenant"), run_ranges.c.run == given("run"))
        .cte("ranges"),
        delete(labels)
        .where(
            labels.c.tenant == given("tenant"),
            labels.c.store == fixed(RUNS),
            labels.c.key == _named_in.c.key,
            labels.c.value == _named_in.c.value,
            labels.c.age == given("age"),
            labels.c.id == given("id"),
        )
        .cte("named_so"),
        update(logs)
        .where(
            logs.c.tenant == given("tenant"),
            logs.c.number == func.any(given("own", ARRAY(BigInteger))),
        )
        .values(run=fixed(0))
        .cte("owned"),
    )
)


async def take_away(connection: Connection, tenant: int, run: StoredRun) -> None:
    """Take away a run that is held. What it read is to be freed."""
    await _TAKE_AWAY.run(
        connection,
        tenant=tenant, id=run.id, run=run.number, age=run.age, labels=_text_of(run.named().items()),
        own=[run.message_log, run.event_log],
    )  # fmt: skip
