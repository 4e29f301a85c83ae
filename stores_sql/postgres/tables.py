"""Every table and index, with the query that each index serves.

Some conventions hold throughout. Every key and index begins with the tenant, so all tables can be
partitioned or distributed by it. A tenant, run, log, namespace, note or result is known inside by a
``number`` that is never given out again. Ids are text in the collation "C", which compares code
points. Times are microseconds since 1970. An ``age`` is the same with its sign turned, so that
ascending is newest first and a page goes on at ``(age, id) > ($1, $2)``. JSON and log entries are
text, exactly as the codec wrote it; what may hold NUL, which text here cannot, is UTF-8 in bytes.

The tables name no schema: statements are given one when they run.
"""

from typing import Any

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
    }
)

MESSAGES, EVENTS = 0, 1
RUNS, RESULTS = 0, 1

NUMBERS = Sequence("numbers", metadata=METADATA)
"""Numbers of runs and of logs that runs share: n gives a run n and the logs 2n and 2n + 1."""

STORED_PLAIN: list[Column[Any]] = []
"""Columns whose long values are kept out of line and not compressed: Postgres's own compression
costs more time than it saves, and a part of such a value is read without the rest."""


def _number() -> Column[int]:
    return Column("number", BigInteger, Identity(), nullable=False)


def _int(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, BigInteger, nullable=nullable, autoincrement=False)


def _small(name: str) -> Column[int]:
    return Column(name, SmallInteger, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _id(name: str) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=False)


def _json(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _plain(column: Column[Any]) -> Column[Any]:
    STORED_PLAIN.append(column)
    return column


storage = Table("storage", METADATA, _id("identity"), PrimaryKeyConstraint("identity"))
"""One row: what cursors of this storage are bound to."""

tenants = Table(
    "tenants",
    METADATA,
    _number(),
    _id("name"),
    PrimaryKeyConstraint("name"),  # every operation, to find its tenant; list_tenants
    UniqueConstraint("number"),
)
"""Rows never change. Whoever brings something new into being locks the row FOR KEY SHARE, so that
erasing a tenant, which locks it FOR UPDATE, misses nothing."""

tenant_states = Table(
    "tenant_states",
    METADATA,
    _int("tenant"),
    _int("version_floor"),
    _int("embedder", nullable=True),
    _int("result_count"),
    _int("result_bytes"),
    PrimaryKeyConstraint("tenant"),
    postgresql_with={"fillfactor": 50},
)
"""``embedder`` is the one whose vectors are in use, ``version_floor`` the highest version of a
deleted note; the sums over results are what retention asks for."""

runs = Table(
    "runs",
    METADATA,
    _int("tenant"),
    _id("id"),
    _int("number"),
    _int("age"),
    _int("updated"),
    _id("parent"),
    _int("fork_point"),
    _int("message_count"),
    _int("message_log"),
    _int("message_start"),
    _int("event_count"),
    _int("event_log"),
    _int("event_start"),
    _int("key_count"),
    _flag("imported"),
    _json("labels"),
    PrimaryKeyConstraint("tenant", "id"),  # every operation that names a run
    postgresql_with={"fillfactor": 70},
)
"""Headers. A run's own logs are ``message_log`` and ``event_log``, and what it wrote there begins
at ``message_start`` and ``event_start`` of its positions. They are 0 where it may not write before
its ranges are joined. No index has ``updated`` or a count, so an append changes the row in place.
"""

# Descending and read backwards, since a new run has the least age: so they grow at their right end,
# where Postgres fills a page before it begins another.
Index("newest_runs", runs.c.tenant, runs.c.age.desc(), runs.c.id.desc())  # list_runs, export_runs
Index(  # list_runs by parent
    "runs_of_parent",
    runs.c.tenant,
    runs.c.parent,
    runs.c.age,
    runs.c.id,
    postgresql_where=runs.c.parent != "",
)

run_keys = Table(
    "run_keys",
    METADATA,
    _int("tenant"),
    _int("run"),
    _small("slot"),
    _int("number"),
    _id("key"),
    _id("digest"),
    _int("message_count"),
    _int("event_count"),
    PrimaryKeyConstraint("tenant", "run", "slot"),  # a new key takes the place of the 128th before
    UniqueConstraint("tenant", "run", "key"),  # append with a key, also when both race
)
"""The latest keyed batches of each run, as a ring: ``slot`` is ``number`` modulo its size."""

logs = Table(
    "logs",
    METADATA,
    _int("tenant"),
    _int("number"),
    _id("id"),
    _int("run"),
    _flag("written_here"),
    _int("staged", nullable=True),
    _flag("trimmable"),
    PrimaryKeyConstraint("tenant", "number"),
    UniqueConstraint("tenant", "id"),  # export_entries, import_entries, import_run
)
"""``run`` is the run that writes to the log as its own (0: none), and needs all of it. ``staged``
is when an import brought a log that no run refers to yet, ``trimmable`` says that it may hold more
than anyone needs. Whoever shortens a log, brings entries of it from elsewhere or refers to one that
no run at hand keeps alive locks its row."""

Index("logs_staged", logs.c.tenant, logs.c.staged, postgresql_where=logs.c.staged.is_not(None))
Index("logs_trimmable", logs.c.tenant, logs.c.number, postgresql_where=logs.c.trimmable)  # sweep

entries = Table(
    "entries",
    METADATA,
    _int("tenant"),
    _int("log"),
    _int("position"),
    _plain(_json("body")),
    PrimaryKeyConstraint("tenant", "log", "position"),
)
"""The entries of all logs."""

run_ranges = Table(
    "run_ranges",
    METADATA,
    _int("tenant"),
    _int("run"),
    _small("kind"),
    _int("start"),
    _int("log"),
    _int("length"),
    PrimaryKeyConstraint("tenant", "run", "kind", "start"),  # reading a run, forking it
)
"""What a run reads before its own log: from its position ``start`` on, the first ``length`` entries
of ``log``. What it reads of its own logs stands in its header."""

Index("run_ranges_of_log", run_ranges.c.tenant, run_ranges.c.log, run_ranges.c.length)

labels = Table(
    "labels",
    METADATA,
    _int("tenant"),
    _small("store"),
    _id("key"),
    _id("value"),
    _int("age"),
    _id("id"),
    PrimaryKeyConstraint("tenant", "store", "key", "value", "age", "id"),  # listings by label
)
"""The labels of runs and of results (``store``)."""

namespaces = Table(
    "namespaces",
    METADATA,
    _int("tenant"),
    _number(),
    _id("name"),
    _int("note_count"),
    _int("changes"),
    _int("removed_at"),
    PrimaryKeyConstraint("tenant", "name"),  # every operation on notes; list_namespaces
    postgresql_with={"fillfactor": 50},
)
"""Namespaces that hold notes. ``changes`` counts the changes of vectors and ``removed_at`` is the
count at the latest removal: by these a client sees whether what it holds of them still stands."""

notes = Table(
    "notes",
    METADATA,
    _int("tenant"),
    _int("namespace"),
    _number(),
    _id("key"),
    _int("created"),
    _int("updated"),
    _int("version"),
    _plain(_bytes("folded")),
    _plain(_json("metadata")),
    _plain(_bytes("value")),
    PrimaryKeyConstraint("tenant", "namespace", "number"),  # by vector, by filter
    UniqueConstraint("tenant", "namespace", "key"),  # every operation that names a note
)
"""Notes; ``number`` is their order of arrival. ``folded`` is the case-folded key and value in
UTF-8 with a byte between them that UTF-8 does not have, so that no query matches across."""

Index(  # list and substring
    "notes_oldest", notes.c.tenant, notes.c.namespace, notes.c.created, notes.c.number
)

note_filters = Table(
    "note_filters",
    METADATA,
    _int("tenant"),
    _int("namespace"),
    _bytes("digest"),
    _int("created"),
    _int("note"),
    PrimaryKeyConstraint("tenant", "namespace", "digest", "created", "note"),  # where
)
"""The digests of each note's metadata."""

embedders = Table(
    "embedders",
    METADATA,
    _int("tenant"),
    _number(),
    _id("name"),
    _int("dimensions"),
    PrimaryKeyConstraint("tenant", "name", "dimensions"),  # put and recall with an embedder
)
"""Each is a generation of vectors. Its number is the only one, whatever the tenant."""

vectors = Table(
    "vectors",
    METADATA,
    _int("tenant"),
    _int("namespace"),
    _int("embedder"),
    _int("note"),
    _plain(Column("vector", ARRAY(REAL), nullable=False)),
    PrimaryKeyConstraint("tenant", "namespace", "embedder", "note"),  # recall; which notes lack one
)
"""float32 vectors, each of the version that its note has now. They are arrays, which need no
extension."""

results = Table(
    "results",
    METADATA,
    _int("tenant"),
    _id("ref"),
    _number(),
    _int("age"),
    _int("bytes"),
    _int("characters"),
    _json("labels"),
    _plain(_json("rest")),
    PrimaryKeyConstraint("tenant", "ref"),  # every operation that names a result
)
"""Tool results without their text; ``rest`` is what ``tool_text.split`` leaves of one."""

Index(  # listing, retention
    "newest_results", results.c.tenant, results.c.age.desc(), results.c.ref.desc()
)

chunks = Table(
    "chunks",
    METADATA,
    _int("tenant"),
    _int("result"),
    _int("position"),
    _plain(_bytes("text")),
    PrimaryKeyConstraint("tenant", "result", "position"),
)
"""The texts of all results in chunks of an equal number of characters, in UTF-8."""
