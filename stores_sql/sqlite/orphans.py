"""Rows that belong to nothing: they take room, and neither a caller nor sweep would find them."""

from sqlalchemy import ColumnElement, Table, exists, func, select

from stores_core.admin import Problem
from stores_sql.parameters import fixed
from stores_sql.sqlite.statements import Connection, Statement
from stores_sql.sqlite.tables import (
    CHUNK_SPAN,
    ENTRY_SPAN,
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
    tenants,
    vectors,
)


def _count(
    source: Table,
    owner: Table,
    number: ColumnElement[int],
    *of: ColumnElement[bool],
    owners: str = "number",
) -> Statement:
    """Counts the rows of ``source``, or those ``of`` a kind, whose owner is not there.

    ``number`` is where the owner is named, which it knows as its own column ``owners``.
    """
    owned = exists().where(owner.c[owners] == number)
    return Statement(select(func.count()).select_from(source).where(*of, ~owned))


# Whole numbers, which SQLite divides without a rest. SQLAlchemy's // writes FLOOR, which not every
# SQLite has.
_log = entries.c.place.op("/")(fixed(ENTRY_SPAN))
_result = chunks.c.place.op("/")(fixed(CHUNK_SPAN))
# Not those that sweep will come to.
_forgotten = (logs.c.staged.is_(None), logs.c.trimmable == fixed(0))
_of_run, _of_result = (labels.c.store == fixed(store) for store in (RUNS, RESULTS))

ORPHANS = (
    ("runs", "keys of no run", _count(run_keys, runs, run_keys.c.run)),
    ("runs", "ranges of no run", _count(run_ranges, runs, run_ranges.c.run)),
    ("runs", "ranges of no log", _count(run_ranges, logs, run_ranges.c.log)),
    ("runs", "logs of no run", _count(logs, run_ranges, logs.c.number, *_forgotten, owners="log")),
    ("runs", "entries of no log", _count(entries, logs, _log)),
    ("runs", "labels of no run", _count(labels, runs, labels.c.target, _of_run)),
    ("runs", "runs of no tenant", _count(runs, tenants, runs.c.tenant)),
    ("runs", "logs of no tenant", _count(logs, tenants, logs.c.tenant)),
    ("memory", "notes of no namespace", _count(notes, namespaces, notes.c.namespace)),
    ("memory", "filters of no note", _count(note_filters, notes, note_filters.c.note)),
    ("memory", "vectors of no note", _count(vectors, notes, vectors.c.note)),
    ("memory", "vectors of no embedder", _count(vectors, embedders, vectors.c.embedder)),
    ("memory", "namespaces of no tenant", _count(namespaces, tenants, namespaces.c.tenant)),
    ("memory", "embedders of no tenant", _count(embedders, tenants, embedders.c.tenant)),
    ("tool_results", "chunks of no result", _count(chunks, results, _result)),
    ("tool_results", "labels of no result", _count(labels, results, labels.c.target, _of_result)),
    ("tool_results", "results of no tenant", _count(results, tenants, results.c.tenant)),
)


def orphans(connection: Connection, _: int) -> list[Problem]:
    """What the file holds that belongs to nothing, of whichever tenant it was."""
    found: list[Problem] = []
    for store, what, count in ORPHANS:
        if number := count.value(connection):
            found.append(Problem(store=store, id="", what=f"{number} {what}"))
    return found
