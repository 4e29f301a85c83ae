"""Every table and index, with the query that each index serves.

Some conventions hold throughout. A tenant, run, log, namespace, note or result is known inside by
a ``number`` that is never given out again; only the tables with a ``tenant`` column are searched by
what a caller names, and each of their keys begins with the tenant. Times are microseconds since
1970. An ``age`` is the same with its sign turned, so that ascending is newest first and a page goes
on at ``(age, id) > (?, ?)``. JSON and log entries are bytes, exactly as the codec wrote them.
"""

from typing import Any

from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

ENTRY_SPAN = 1 << 32
"""Entries of log n have the places from n * ENTRY_SPAN on, so that a log lies in one piece."""

CHUNK_SPAN = 1 << 20
"""Chunks of result n have the places from n * CHUNK_SPAN on."""

OPEN = ENTRY_SPAN
"""The length of the range in which a run still writes: all that its log will ever hold."""

MESSAGES, EVENTS = 0, 1
RUNS, RESULTS = 0, 1


def _number() -> Column[int]:
    return Column("number", Integer, primary_key=True)


def _int(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Integer, nullable=nullable)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


storage = Table("storage", METADATA, _text("identity"))
"""One row: what cursors of this file are bound to."""

tenants = Table(
    "tenants",
    METADATA,
    _number(),
    _text("name"),
    _int("version_floor"),
    _int("embedder", nullable=True),
    _int("result_count"),
    _int("result_bytes"),
    UniqueConstraint("name"),  # every operation, to find its tenant; list_tenants
    sqlite_autoincrement=True,
)
"""``embedder`` is the one whose vectors are in use, ``version_floor`` the highest version of a
deleted note; the sums over results are what retention asks for."""

runs = Table(
    "runs",
    METADATA,
    _number(),
    _int("tenant"),
    _text("id"),
    _int("age"),
    _int("updated"),
    _text("parent"),
    _int("fork_point"),
    _int("message_count"),
    _int("message_log"),
    _int("message_start"),
    _int("event_count"),
    _int("event_log"),
    _int("event_start"),
    _int("key_count"),
    _int("imported"),
    _bytes("labels"),
    UniqueConstraint("tenant", "id"),  # every operation that names a run
    sqlite_autoincrement=True,
)
"""Headers. A run's own logs are ``message_log`` and ``event_log`` (0: none yet), and what it wrote
there begins at ``message_start`` and ``event_start`` of its positions. No index has ``updated`` or
a count, so an append changes the row in place."""

# Descending and read backwards, since a new run has the least age: so they grow at their right end,
# where SQLite fills a page before it begins another.
Index("newest_runs", runs.c.tenant, runs.c.age.desc(), runs.c.id.desc())  # list_runs, export_runs
Index(  # list_runs by parent
    "runs_of_parent",
    runs.c.tenant,
    runs.c.parent,
    runs.c.age,
    runs.c.id,
    sqlite_where=runs.c.parent != "",
)

run_keys = Table(
    "run_keys",
    METADATA,
    _int("run"),
    _int("slot"),
    _int("number"),
    _text("key"),
    _text("digest"),
    _int("message_count"),
    _int("event_count"),
    PrimaryKeyConstraint("run", "slot"),  # a new key takes the place of the 128th before it
    UniqueConstraint("run", "key"),  # append with a key
    sqlite_with_rowid=False,
)
"""The latest keyed batches of each run, as a ring: ``slot`` is ``number`` modulo its size."""

logs = Table(
    "logs",
    METADATA,
    _number(),
    _int("tenant"),
    _text("id"),
    _int("written_here"),
    _int("staged", nullable=True),
    _int("trimmable"),
    UniqueConstraint("tenant", "id"),  # export_entries, import_entries, import_run
    sqlite_autoincrement=True,
)
"""``staged`` is when an import brought a log that no run refers to yet, ``trimmable`` says that it
may hold more than anyone needs."""

Index("logs_staged", logs.c.tenant, logs.c.staged, sqlite_where=logs.c.staged.is_not(None))  # sweep
Index("logs_trimmable", logs.c.tenant, logs.c.number, sqlite_where=logs.c.trimmable == 1)  # sweep

entries = Table("entries", METADATA, Column("place", Integer, primary_key=True), _bytes("body"))
"""The entries of all logs, each log in one piece."""

run_ranges = Table(
    "run_ranges",
    METADATA,
    _int("run"),
    _int("kind"),
    _int("start"),
    _int("log"),
    _int("length"),
    PrimaryKeyConstraint("run", "kind", "start"),  # reading a run, forking it
    sqlite_with_rowid=False,
)
"""What a run reads as one log: from its position ``start`` on, the first ``length`` entries of
``log``. The last range is OPEN where the run writes to that log itself."""

Index("run_ranges_of_log", run_ranges.c.log, run_ranges.c.length)  # how much of a log is needed

labels = Table(
    "labels",
    METADATA,
    _int("tenant"),
    _int("store"),
    _text("key"),
    _text("value"),
    _int("age"),
    _text("id"),
    _int("target"),
    PrimaryKeyConstraint("tenant", "store", "key", "value", "age", "id"),  # listings by label
    sqlite_with_rowid=False,
)
"""The labels of runs and of results (``store``), ``target`` being the number of the labelled."""

namespaces = Table(
    "namespaces",
    METADATA,
    _number(),
    _int("tenant"),
    _text("name"),
    _int("note_count"),
    _int("changes"),
    _int("removed_at"),
    UniqueConstraint("tenant", "name"),  # every operation on notes; list_namespaces
    sqlite_autoincrement=True,
)
"""Namespaces that hold notes. ``changes`` counts the changes of vectors and ``removed_at`` is the
count at the latest removal: by these a client sees whether the vectors that it holds still stand.
"""

notes = Table(
    "notes",
    METADATA,
    _number(),
    _int("namespace"),
    _text("key"),
    _int("created"),
    _int("updated"),
    _int("version"),
    _bytes("folded"),
    _bytes("metadata"),
    _text("value"),
    UniqueConstraint("namespace", "key"),  # every operation that names a note
    sqlite_autoincrement=True,
)
"""Notes; ``number`` is their order of arrival. ``folded`` is the case-folded key and value in
UTF-8 with a byte between them that UTF-8 does not have, so that no query matches across."""

Index("notes_oldest", notes.c.namespace, notes.c.created, notes.c.number)  # list and substring

note_filters = Table(
    "note_filters",
    METADATA,
    _int("namespace"),
    _bytes("digest"),
    _int("created"),
    _int("note"),
    PrimaryKeyConstraint("namespace", "digest", "created", "note"),  # where
    sqlite_with_rowid=False,
)
"""The digests of each note's metadata."""

embedders = Table(
    "embedders",
    METADATA,
    _number(),
    _int("tenant"),
    _text("name"),
    _int("dimensions"),
    UniqueConstraint("tenant", "name", "dimensions"),  # put and recall with an embedder
    sqlite_autoincrement=True,
)

vectors = Table(
    "vectors",
    METADATA,
    _number(),
    _int("namespace"),
    _int("embedder"),
    _int("change"),
    _int("note"),
    _bytes("vector"),
    UniqueConstraint("namespace", "embedder", "change"),  # recall: what is new to a client
    UniqueConstraint("note", "embedder"),  # a note that changes or goes; which notes lack one
)
"""Little-endian float32 vectors, each of the version that its note has now."""

results = Table(
    "results",
    METADATA,
    _number(),
    _int("tenant"),
    _text("ref"),
    _int("age"),
    _int("bytes"),
    _int("characters"),
    _bytes("labels"),
    _bytes("rest"),
    UniqueConstraint("tenant", "ref"),  # every operation that names a result
    sqlite_autoincrement=True,
)
"""Tool results without their text; ``rest`` is what ``tool_text.split`` leaves of one."""

Index(  # listing, retention
    "newest_results", results.c.tenant, results.c.age.desc(), results.c.ref.desc()
)

chunks = Table("chunks", METADATA, Column("place", Integer, primary_key=True), _text("text"))
"""The texts of all results in chunks of an equal number of characters."""
