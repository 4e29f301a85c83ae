"""Rows of tool results: putting, finding and removing them, and what retention gives up."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    LargeBinary,
    Text,
    column,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or

from stores_core.errors import CorruptRecordError, StoreUnavailableError
from stores_core.retention import Retention
from stores_core.tool_results import ToolResult
from stores_core.tool_text import join
from stores_core.values import micros
from stores_sql.catalog import encode_labels
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import HELD_TENANT, TENANT, TRIES
from stores_sql.postgres.tables import RESULTS, chunks, labels, results, tenant_states
from stores_sql.results import NewResult, StoredResult

CHUNK_CHARACTERS = 1 << 16

LOOKED_AT_ONCE = 100
"""So many results are given up in one step of retention."""

INFO = (
    results.c.number, results.c.ref, results.c.age, results.c.bytes, results.c.characters,
    results.c.labels,
)  # fmt: skip
_named = (results.c.tenant == TENANT, results.c.ref == given("ref"))
_pieces = (
    select(chunks.c.text)
    .where(chunks.c.tenant == results.c.tenant, chunks.c.result == results.c.number)
    .order_by(chunks.c.position)
)
_slice = _pieces.where(chunks.c.position >= given("first"), chunks.c.position <= given("last"))


def _as_array(rows: Any) -> Any:
    return func.array(rows.scalar_subquery(), type_=ARRAY(LargeBinary))


_SLICE = Statement(select(results.c.characters, _as_array(_slice)).where(*_named))
_WHOLE = Statement(select(_as_array(_pieces), results.c.rest).where(*_named))
_TEXT = Statement(select(_as_array(_pieces)).where(*_named))
_HOLD = Statement(
    select(*INFO)
    .where(results.c.tenant == given("tenant"), results.c.ref == given("ref"))
    .with_for_update()
)
_OLDEST = Statement(
    select(*INFO)
    .where(results.c.tenant == given("tenant"))
    .order_by(results.c.age.desc(), results.c.ref.desc())
    .limit(given("most", BigInteger))
    .with_for_update(skip_locked=True)
)
_oldest_age = select(func.max(results.c.age)).where(results.c.tenant == TENANT).scalar_subquery()
_KEPT = Statement(
    select(tenant_states.c.result_count, tenant_states.c.result_bytes, _oldest_age).where(
        tenant_states.c.tenant == TENANT
    )
)
_HOLD_COUNTS = Statement(
    select(tenant_states.c.result_count, tenant_states.c.result_bytes)
    .where(tenant_states.c.tenant == given("tenant"))
    .with_for_update(key_share=True)
)


def parameters(new: NewResult) -> dict[str, Any]:
    """The parameters of a put."""
    starts = range(0, len(new.text), CHUNK_CHARACTERS)
    return {
        "ref": new.ref,
        "age": -new.created,
        "size": new.bytes,
        "characters": len(new.text),
        "labels": encode_labels(new.labels).decode(),
        "rest": new.rest.decode(),
        "texts": [new.text[start : start + CHUNK_CHARACTERS].encode() for start in starts],
        "keys": list(new.labels),
        "values": list(new.labels.values()),
    }


def _putting(*, replacing: bool) -> Statement:
    """Puts a result, and its text with it: one row, or none where its ref is taken.

    ``replacing`` it takes over the row of its ref, which keeps standing for whoever waits for it.
    """
    held = HELD_TENANT.cte("held")
    given_row = (
        given("ref", Text), given("age", BigInteger), given("size", BigInteger),
        given("characters", BigInteger), given("labels", Text), given("rest", Text),
    )  # fmt: skip
    row = insert_or(results).from_select(
        ["tenant", "ref", "age", "bytes", "characters", "labels", "rest"],
        select(held.c.number, *given_row),
    )
    if replacing:
        changed = ("number", "age", "bytes", "characters", "labels", "rest")
        row = row.on_conflict_do_update(
            constraint=results.primary_key, set_={name: row.excluded[name] for name in changed}
        )
    else:
        row = row.on_conflict_do_nothing()
    made = row.returning(results.c.tenant, results.c.number, results.c.ref, results.c.age).cte(
        "made"
    )
    piece = (
        func.unnest(given("texts", ARRAY(LargeBinary)))
        .table_valued(column("text", LargeBinary), with_ordinality="nth")
        .render_derived()
    )
    chunked = insert(chunks).from_select(
        ["tenant", "result", "position", "text"],
        select(made.c.tenant, made.c.number, piece.c.nth - fixed(1), piece.c.text),
    )
    named = (
        func.unnest(given("keys", ARRAY(Text)), given("values", ARRAY(Text)))
        .table_valued(column("key", Text), column("value", Text))
        .render_derived()
    )
    labelled = insert(labels).from_select(
        ["tenant", "store", "key", "value", "age", "id"],
        select(made.c.tenant, fixed(RESULTS), named.c.key, named.c.value, made.c.age, made.c.ref),
    )
    counted = (
        update(tenant_states)
        .values(
            result_count=tenant_states.c.result_count + given("more", BigInteger),
            result_bytes=tenant_states.c.result_bytes + given("growth", BigInteger),
        )
        .where(tenant_states.c.tenant == made.c.tenant)
    )
    return Statement(
        select(made.c.number).add_cte(
            chunked.cte("chunked"), labelled.cte("labelled"), counted.cte("counted")
        )
    )


def _removing() -> Statement:
    numbers = given("numbers", ARRAY(BigInteger))
    gone = (
        delete(results)
        .where(
            results.c.tenant == given("tenant"),
            results.c.ref == func.any(given("refs", ARRAY(Text))),
        )
        .returning(results.c.bytes)
        .cte("gone")
    )
    without = delete(chunks).where(
        chunks.c.tenant == given("tenant"), chunks.c.result == func.any(numbers)
    )
    named = (
        func.unnest(
            given("keys", ARRAY(Text)),
            given("values", ARRAY(Text)),
            given("ages", ARRAY(BigInteger)),
            given("ids", ARRAY(Text)),
        )
        .table_valued(
            column("key", Text), column("value", Text), column("age", BigInteger),
            column("id", Text),
        )
        .render_derived()
    )  # fmt: skip
    unlabelled = delete(labels).where(
        labels.c.tenant == given("tenant"),
        labels.c.store == fixed(RESULTS),
        tuple_(labels.c.key, labels.c.value, labels.c.age, labels.c.id).in_(select(*named.c)),
    )
    count = select(func.count()).select_from(gone).scalar_subquery()
    size = func.coalesce(select(func.sum(gone.c.bytes)).scalar_subquery(), fixed(0))
    return Statement(
        update(tenant_states)
        .values(
            result_count=tenant_states.c.result_count - count,
            result_bytes=tenant_states.c.result_bytes - size,
        )
        .where(tenant_states.c.tenant == given("tenant"))
        .add_cte(without.cte("without"), unlabelled.cte("unlabelled"))
    )


_PUT = _putting(replacing=False)
_REPLACE = _putting(replacing=True)
_REMOVE = _removing()


async def put(connection: Connection, tenant: str, new: Mapping[str, Any]) -> bool:
    """Put a result by one statement; False where its ref is taken, or there is no such tenant."""
    number = await _PUT.value(connection, name=tenant, more=1, growth=new["size"], **new)
    return number is not None


async def put_in_place(
    connection: Connection, tenant: int, name: str, new: Mapping[str, Any]
) -> None:
    """Put a result in place of the one of that ref."""
    for _ in range(TRIES):
        standing = await hold(connection, tenant, new["ref"])
        if standing is not None:
            await _remove(connection, tenant, [standing], refs=[])
            growth = new["size"] - standing.size
            await _REPLACE.value(connection, name=name, more=0, growth=growth, **new)
            return
        if await put(connection, name, new):
            return
    raise StoreUnavailableError("the ref is put and deleted again and again; nothing was applied")


async def hold(connection: Connection, tenant: int, ref: str) -> StoredResult | None:
    """The result of that ref, held until the end of the transaction."""
    row = await _HOLD.one(connection, tenant=tenant, ref=ref)
    return None if row is None else StoredResult._make(row)


async def remove(connection: Connection, tenant: int, gone: Sequence[StoredResult]) -> None:
    """Take results away, which are held."""
    await _remove(connection, tenant, gone, refs=[one.ref for one in gone])


async def _remove(
    connection: Connection, tenant: int, gone: Sequence[StoredResult], refs: Sequence[str]
) -> None:
    """Take away what belongs to results, and the rows of ``refs`` themselves."""
    named = [(*label, one.age, one.ref) for one in gone for label in one.named().items()]
    await _REMOVE.run(
        connection,
        tenant=tenant,
        refs=list(refs),
        numbers=[one.number for one in gone],
        keys=[key for key, _, _, _ in named],
        values=[value for _, value, _, _ in named],
        ages=[age for _, _, age, _ in named],
        ids=[ref for _, _, _, ref in named],
    )


async def slice_of(
    connection: Connection, tenant: str, ref: str, first: int, last: int
) -> tuple[str, int] | None:
    """The text of the chunks from ``first`` to ``last``, and how long all of it is."""
    row = await _SLICE.one(connection, name=tenant, ref=ref, first=first, last=last)
    return None if row is None else (_text(row[1], ref), row[0])


async def text_of(connection: Connection, tenant: str, ref: str) -> str | None:
    """The whole text."""
    row = await _TEXT.one(connection, name=tenant, ref=ref)
    return None if row is None else _text(row[0], ref)


async def result_of(connection: Connection, tenant: str, ref: str) -> ToolResult | None:
    """The whole result. Raises CorruptRecordError."""
    row = await _WHOLE.one(connection, name=tenant, ref=ref)
    return None if row is None else join(_text(row[0], ref), row[1].encode(), ref=ref)


def _text(pieces: Sequence[bytes], ref: str) -> str:
    try:
        return b"".join(pieces).decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(store="tool_results", id=ref) from error


async def is_surplus(
    connection: Connection, tenant: str, retention: Retention, now: datetime
) -> bool:
    """Whether there is something that retention gives up."""
    row = await _KEPT.one(connection, name=tenant)
    if row is None or row[0] <= 1:
        return False
    return _is_given_up(retention, now, *row)


async def retain(
    connection: Connection,
    tenant: int,
    retention: Retention,
    now: datetime,
    budget: int | None = None,
) -> int:
    """Give up what retention does not keep; how many."""
    freed = 0
    if not retention.is_set():
        return freed
    # One at a time, or two would each give up as many as there are too many.
    count, size = await _HOLD_COUNTS.one(connection, tenant=tenant) or (0, 0)
    while budget is None or freed < budget:
        most = LOOKED_AT_ONCE if budget is None else min(LOOKED_AT_ONCE, budget - freed)
        rows = await _OLDEST.all(connection, tenant=tenant, most=most)
        gone: list[StoredResult] = []
        for oldest in map(StoredResult._make, rows):
            if count <= 1 or not _is_given_up(retention, now, count, size, oldest.age):
                break
            gone.append(oldest)
            count, size = count - 1, size - oldest.size
        if gone:
            await remove(connection, tenant, gone)
        freed += len(gone)
        if len(gone) < most:
            break
    return freed


def _is_given_up(
    retention: Retention, now: datetime, count: int, size: int, age: int | None
) -> bool:
    """Whether the oldest result goes, of so many that take so many bytes."""
    if age is not None and retention.age:
        horizon = micros(now) - timedelta(seconds=retention.age) // timedelta(microseconds=1)
        if -age < horizon:
            return True
    return bool(
        (retention.count and count > retention.count)
        or (retention.bytes and size > retention.bytes)
    )
