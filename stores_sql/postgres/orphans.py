"""Rows that belong to nothing: they take room, and neither a caller nor sweep would find them."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Table, exists, func, select

from stores_core.admin import Problem
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.tables import (
    RESULTS,
    RUNS,
    chunks,
    embedders,
    entries,
    labels,
    logs,
    namespaces,
    note_filters,
    notes,
    results,
    run_keys,
    run_ranges,
    runs,
    vectors,
)


def _count(
    source: Table,
    owner: Table,
    *owned: ColumnElement[bool],
    of: Sequence[ColumnElement[bool]] = (),
) -> Statement:
    """Counts a tenant's rows of ``source``, or those ``of`` a kind, that are not owned."""
    there = exists().where(owner.c.tenant == source.c.tenant, *owned)
    return Statement(
        select(func.count())
        .select_from(source)
        .where(source.c.tenant == given("tenant"), *of, ~there)
    )


def _note_of(table: Table) -> tuple[ColumnElement[bool], ...]:
    return notes.c.namespace == table.c.namespace, notes.c.number == table.c.note


_of_runs, _of_results = ([labels.c.store == fixed(store)] for store in (RUNS, RESULTS))
_range_of_log = run_ranges.c.log == logs.c.number
# Not those that a run writes to or that sweep will come to.
_forgotten = (logs.c.run == fixed(0), logs.c.staged.is_(None), ~logs.c.trimmable)
_namespace_of_note = namespaces.c.number == notes.c.namespace
_result_of_chunk = results.c.number == chunks.c.result
_of_label = results.c.ref == labels.c.id
_embedder_of_vector = embedders.c.number == vectors.c.embedder

ORPHANS = (
    ("runs", "keys of no run", _count(run_keys, runs, runs.c.number == run_keys.c.run)),
    ("runs", "ranges of no run", _count(run_ranges, runs, runs.c.number == run_ranges.c.run)),
    ("runs", "ranges of no log", _count(run_ranges, logs, logs.c.number == run_ranges.c.log)),
    ("runs", "logs of no run", _count(logs, run_ranges, _range_of_log, of=_forgotten)),
    ("runs", "entries of no log", _count(entries, logs, logs.c.number == entries.c.log)),
    ("runs", "labels of no run", _count(labels, runs, runs.c.id == labels.c.id, of=_of_runs)),
    ("memory", "notes of no namespace", _count(notes, namespaces, _namespace_of_note)),
    ("memory", "filters of no note", _count(note_filters, notes, *_note_of(note_filters))),
    ("memory", "vectors of no note", _count(vectors, notes, *_note_of(vectors))),
    ("memory", "vectors of no embedder", _count(vectors, embedders, _embedder_of_vector)),
    ("tool_results", "chunks of no result", _count(chunks, results, _result_of_chunk)),
    ("tool_results", "labels of no result", _count(labels, results, _of_label, of=_of_results)),
)


async def orphans(connection: Connection, tenant: int) -> list[Problem]:
    """What is kept for a tenant and belongs to nothing."""
    found: list[Problem] = []
    for store, what, count in ORPHANS:
        if number := await count.value(connection, tenant=tenant):
            found.append(Problem(store=store, id="", what=f"{number} {what}"))
    return found
