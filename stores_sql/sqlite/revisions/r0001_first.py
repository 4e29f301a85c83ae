"""tables and indexes of the first version"""

from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None


def _rowid(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=True)


def _int(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=nullable)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def upgrade(op: Operations, schema: str | None) -> None:
    op.create_table("chunks", _rowid("place"), _text("text"))
    op.create_table(
        "embedders",
        _rowid("number"),
        _int("tenant"),
        _text("name"),
        _int("dimensions"),
        sa.UniqueConstraint("tenant", "name", "dimensions"),
        sqlite_autoincrement=True,
    )
    op.create_table("entries", _rowid("place"), _bytes("body"))
    op.create_table(
        "labels",
        _int("tenant"),
        _int("store"),
        _text("key"),
        _text("value"),
        _int("age"),
        _text("id"),
        _int("target"),
        sa.PrimaryKeyConstraint("tenant", "store", "key", "value", "age", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "logs",
        _rowid("number"),
        _int("tenant"),
        _text("id"),
        _int("written_here"),
        _int("staged", nullable=True),
        _int("trimmable"),
        sa.UniqueConstraint("tenant", "id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "namespaces",
        _rowid("number"),
        _int("tenant"),
        _text("name"),
        _int("note_count"),
        _int("changes"),
        _int("removed_at"),
        sa.UniqueConstraint("tenant", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "note_filters",
        _int("namespace"),
        _bytes("digest"),
        _int("created"),
        _int("note"),
        sa.PrimaryKeyConstraint("namespace", "digest", "created", "note"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "notes",
        _rowid("number"),
        _int("namespace"),
        _text("key"),
        _int("created"),
        _int("updated"),
        _int("version"),
        _bytes("folded"),
        _bytes("metadata"),
        _text("value"),
        sa.UniqueConstraint("namespace", "key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "results",
        _rowid("number"),
        _int("tenant"),
        _text("ref"),
        _int("age"),
        _int("bytes"),
        _int("characters"),
        _bytes("labels"),
        _bytes("rest"),
        sa.UniqueConstraint("tenant", "ref"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "run_keys",
        _int("run"),
        _int("slot"),
        _int("number"),
        _text("key"),
        _text("digest"),
        _int("message_count"),
        _int("event_count"),
        sa.PrimaryKeyConstraint("run", "slot"),
        sa.UniqueConstraint("run", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_ranges",
        _int("run"),
        _int("kind"),
        _int("start"),
        _int("log"),
        _int("length"),
        sa.PrimaryKeyConstraint("run", "kind", "start"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        _rowid("number"),
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
        sa.UniqueConstraint("tenant", "id"),
        sqlite_autoincrement=True,
    )
    op.create_table("storage", _text("identity"))
    op.create_table(
        "tenants",
        _rowid("number"),
        _text("name"),
        _int("version_floor"),
        _int("embedder", nullable=True),
        _int("result_count"),
        _int("result_bytes"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "vectors",
        _rowid("number"),
        _int("namespace"),
        _int("embedder"),
        _int("change"),
        _int("note"),
        _bytes("vector"),
        sa.UniqueConstraint("namespace", "embedder", "change"),
        sa.UniqueConstraint("note", "embedder"),
    )
    op.create_index(
        "logs_staged", "logs", ["tenant", "staged"], sqlite_where=sa.text("staged IS NOT NULL")
    )
    op.create_index(
        "logs_trimmable", "logs", ["tenant", "number"], sqlite_where=sa.text("trimmable = 1")
    )
    op.create_index("notes_oldest", "notes", ["namespace", "created", "number"])
    op.create_index("results_newest", "results", ["tenant", "age", "ref"])
    op.create_index("run_ranges_of_log", "run_ranges", ["log", "length"])
    op.create_index("runs_newest", "runs", ["tenant", "age", "id"])
    op.create_index(
        "runs_of_parent",
        "runs",
        ["tenant", "parent", "age", "id"],
        sqlite_where=sa.text("parent != ''"),
    )
    op.execute("INSERT INTO storage (identity) VALUES (lower(hex(randomblob(16))))")
    op.execute("PRAGMA application_id = 1095980114")


def downgrade(op: Operations, schema: str | None) -> None:
    raise NotImplementedError("there is nothing before the first revision")
