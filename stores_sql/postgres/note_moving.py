"""Export and import of notes, with their vectors."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import (
    ARRAY,
    BigInteger,
    LargeBinary,
    Text,
    and_,
    column,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or

from stores_core.codec import encode_json
from stores_core.embedding import Vector
from stores_core.limits import PAGE_BYTES
from stores_core.memory import StoredMemory
from stores_core.moving import (
    ExportMemoriesRequest,
    ExportMemoriesResponse,
    ImportMemoriesRequest,
    ImportMemoriesResponse,
    MemoryRecord,
)
from stores_core.values import micros
from stores_sql.parameters import fixed, given
from stores_sql.postgres.embedding import (
    Lacking,
    active,
    enter_embedder,
    find_embedder,
    keep_vectors,
    set_active,
    vector_from_array,
)
from stores_sql.postgres.namespaces import (
    Namespace,
    enter_namespace,
    leave_if_empty,
    raise_version_floor,
    remove_filters,
    standing,
)
from stores_sql.postgres.notes import BEFORE_ALL, COLUMNS, Note, digests_of, folded_note
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import TENANT, Tenant
from stores_sql.postgres.tables import (
    embedders,
    namespaces,
    note_filters,
    notes,
    tenant_states,
    vectors,
)

_VERSION_FLOOR = Statement(
    select(tenant_states.c.version_floor).where(tenant_states.c.tenant == TENANT)
)


def _exporting() -> Statement:
    order = (namespaces.c.name, notes.c.created, notes.c.number)
    taken = (
        select(
            namespaces.c.name,
            *COLUMNS,
            vectors.c.vector,
            (
                func.octet_length(notes.c.key)
                + func.octet_length(notes.c.metadata)
                + func.octet_length(notes.c.value)
            ).label("size"),
        )
        .select_from(
            namespaces.join(
                notes,
                and_(
                    notes.c.tenant == namespaces.c.tenant,
                    notes.c.namespace == namespaces.c.number,
                ),
            ).outerjoin(
                vectors,
                and_(
                    vectors.c.tenant == notes.c.tenant,
                    vectors.c.namespace == notes.c.namespace,
                    vectors.c.embedder == given("embedder"),
                    vectors.c.note == notes.c.number,
                ),
            )
        )
        .where(
            namespaces.c.tenant == TENANT,
            namespaces.c.name >= given("namespace"),
            tuple_(*order) > tuple_(given("namespace"), given("created"), given("number")),
        )
        .order_by(*order)
        .limit(given("most", BigInteger))
        .subquery("taken")
    )
    in_order = (taken.c["name"], taken.c.created, taken.c.number)
    before = func.sum(taken.c.size).over(order_by=in_order, rows=(None, 0)) - taken.c.size
    summed = select(*taken.c, before.label("before")).subquery("summed")
    data = func.array_send(summed.c.vector, type_=LargeBinary)
    return Statement(
        select(data, summed.c["name"], *[summed.c[one.name] for one in COLUMNS])
        .where(summed.c.before <= fixed(PAGE_BYTES))
        .order_by(summed.c["name"], summed.c.created, summed.c.number)
    )


_EXPORT = _exporting()


def _placing() -> Statement:
    """Writes notes as they are given, over those with the same keys."""
    columns = {
        "key": Text(collation="C"), "created": BigInteger(), "updated": BigInteger(),
        "version": BigInteger(), "folded": LargeBinary(), "metadata": Text(),
        "value": LargeBinary(),
    }  # fmt: skip
    placed = (
        func.unnest(*[given(f"{name}s", ARRAY(type)) for name, type in columns.items()])
        .table_valued(*[column(name, type) for name, type in columns.items()], with_ordinality="n")
        .render_derived()
    )
    written = insert_or(notes).from_select(
        ["tenant", "namespace", *columns],
        select(
            given("tenant", BigInteger),
            given("number", BigInteger),
            *[placed.c[name] for name in columns],
        ).order_by(placed.c.n),
    )
    changing = {
        name: written.excluded[name]
        for name in ("updated", "version", "folded", "metadata", "value")
    }
    return Statement(
        written.on_conflict_do_update(
            index_elements=[notes.c.tenant, notes.c.namespace, notes.c.key], set_=changing
        ).returning(notes.c.number, notes.c.key, notes.c.created)
    )


_PLACE = _placing()
_here = and_(namespaces.c.tenant == given("tenant"), namespaces.c.number == given("number"))
_next_change = namespaces.c.changes + fixed(1)
_COUNT = Statement(
    update(namespaces)
    .values(
        note_count=namespaces.c.note_count + given("new"),
        changes=_next_change,
        removed_at=_next_change,
    )
    .where(_here)
)
_DROP_VECTORS = Statement(
    delete(vectors).where(
        vectors.c.tenant == given("tenant"),
        vectors.c.namespace == given("number"),
        vectors.c.embedder.in_(
            select(embedders.c.number).where(embedders.c.tenant == given("tenant"))
        ),
        vectors.c.note == func.any(given("numbers", ARRAY(BigInteger))),
    )
)
_INSERT_FILTER = Statement(
    insert(note_filters), ["tenant", "namespace", "digest", "created", "note"]
)


async def export_memories(tenant: Tenant, request: ExportMemoriesRequest) -> ExportMemoriesResponse:
    name, created, number = _start_of(request.cursor)

    async def work(connection: Connection, _: int) -> ExportMemoriesResponse:
        info = await active(connection, tenant.name)
        embedder = await find_embedder(connection, tenant.name, info) if info else 0
        rows = await _EXPORT.all(
            connection,
            name=tenant.name, embedder=embedder, namespace=name, created=created, number=number,
            most=request.limit + 1,
        )  # fmt: skip
        records: list[MemoryRecord] = []
        position, last, size = "", "", 0
        for data, namespace, *columns in rows:
            note = Note._make(columns)
            size += note.size
            if len(records) == request.limit or (records and size > PAGE_BYTES):
                position = last
                break
            vector = None if data is None else vector_from_array(data).astype("<f4").tobytes()
            records.append(MemoryRecord(namespace=namespace, item=note.stored(), vector=vector))
            last = f"{note.created}:{note.number}:{namespace}"
        return ExportMemoriesResponse(
            memories=tuple(records),
            embedder=info,
            version_floor=await _VERSION_FLOOR.value(connection, name=tenant.name) or 0,
            next_cursor=position,
        )

    return await tenant.read(work)


def _start_of(position: str) -> tuple[str, int, int]:
    if not position:
        return "", *BEFORE_ALL
    created, number, name = position.split(":", 2)
    return name, int(created), int(number)


async def import_memories(tenant: Tenant, request: ImportMemoriesRequest) -> ImportMemoriesResponse:
    in_namespaces: dict[str, list[MemoryRecord]] = defaultdict(list)
    for record in request.memories:
        in_namespaces[record.namespace].append(record)

    async def work(connection: Connection, number: int) -> int:
        imported, placed = 0, list[tuple[Lacking, MemoryRecord]]()
        for name in sorted(in_namespaces):  # in one order, as whoever holds several takes them
            count, some = await _bring(connection, number, name, in_namespaces[name])
            imported += count
            placed += some
        await _bring_vectors(connection, tenant.name, number, request, placed)
        await raise_version_floor(connection, number, request.version_floor)
        return imported

    imported = await tenant.write(work)
    return ImportMemoriesResponse(imported=imported, kept=len(request.memories) - imported)


async def _bring(
    connection: Connection, tenant: int, name: str, records: Sequence[MemoryRecord]
) -> tuple[int, list[tuple[Lacking, MemoryRecord]]]:
    """How many notes of one namespace were newer than those here, and what stands of them now."""
    namespace = await enter_namespace(connection, tenant, name)
    old = await standing(connection, namespace, [record.item.key for record in records])
    versions = {key: note.version for key, note in old.items()}
    newer: dict[str, MemoryRecord] = {}
    count = 0
    for record in records:
        item = record.item
        if versions.get(item.key, 0) < item.version:
            versions[item.key] = item.version
            newer[item.key] = record
            count += 1
    if not newer:
        await leave_if_empty(connection, namespace, name)
        return 0, []
    replaced = {key: note for key, note in old.items() if key in newer}
    await remove_filters(connection, namespace, replaced.values())
    await _DROP_VECTORS.run(
        connection,
        tenant=tenant, number=namespace.number,
        numbers=[note.number for note in replaced.values()],
    )  # fmt: skip
    stored = await _place(connection, namespace, [record.item for record in newer.values()])
    await _COUNT.run(
        connection, tenant=tenant, number=namespace.number, new=len(newer) - len(replaced)
    )
    return count, [(Lacking(name, stored[key]), record) for key, record in newer.items()]


async def _place(
    connection: Connection, namespace: Namespace, items: Sequence[StoredMemory]
) -> Mapping[str, Note]:
    along = {"tenant": namespace.tenant, "number": namespace.number}
    rows = await _PLACE.all(
        connection,
        keys=[item.key for item in items],
        createds=[micros(item.created_at) for item in items],
        updateds=[micros(item.updated_at) for item in items],
        versions=[item.version for item in items],
        foldeds=[folded_note(item.key, item.value) for item in items],
        metadatas=[encode_json(item.metadata).decode() for item in items],
        values=[item.value.encode() for item in items],
        **along,
    )
    by_key = {item.key: item for item in items}
    filters: list[Any] = []
    stored: dict[str, Note] = {}
    for number, key, created in rows:
        item = by_key[key]
        stored[key] = Note(number, key, created, 0, item.version, "{}", b"")
        filters += [
            (namespace.tenant, namespace.number, digest, created, number)
            for digest in digests_of(item.metadata)
        ]
    if filters:
        await _INSERT_FILTER.many(connection, filters)
    return stored


async def _bring_vectors(
    connection: Connection,
    name: str,
    tenant: int,
    request: ImportMemoriesRequest,
    placed: Sequence[tuple[Lacking, MemoryRecord]],
) -> None:
    """Keep the vectors, where they are of the embedder in use, or the first ones."""
    info = request.embedder
    if info is None or not any(record.vector for record in request.memories):
        return
    standing_one = await active(connection, name)
    if standing_one not in (None, info):
        return
    embedder = await enter_embedder(connection, tenant, info)
    if standing_one is None:
        await set_active(connection, tenant, embedder)
    found: list[Lacking] = []
    made: list[Vector] = []
    for lack, record in placed:
        if record.vector is not None:
            found.append(lack)
            made.append(np.frombuffer(record.vector, dtype="<f4").astype(np.float32))
    if found:
        await keep_vectors(connection, tenant, embedder, found, made)
