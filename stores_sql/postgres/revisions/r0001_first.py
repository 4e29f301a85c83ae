"""tables and indexes of the first version"""

from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.BigInteger, sa.Identity(), nullable=False)


def _int(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, autoincrement=False)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.SmallInteger, nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def _id(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def _json(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def upgrade(op: Operations, schema: str | None) -> None:
    quoted = op.get_context().dialect.identifier_preparer.quote(schema or "public")
    op.execute(sa.schema.CreateSequence(sa.Sequence("numbers", schema=schema)))
    op.create_table(
        "chunks",
        _int("tenant"),
        _int("result"),
        _int("position"),
        _bytes("text"),
        sa.PrimaryKeyConstraint("tenant", "result", "position", name="chunks_pkey"),
        schema=schema,
    )
    op.create_table(
        "embedders",
        _int("tenant"),
        _number(),
        _id("name"),
        _int("dimensions"),
        sa.PrimaryKeyConstraint("tenant", "name", "dimensions", name="embedders_pkey"),
        schema=schema,
    )
    op.create_table(
        "entries",
        _int("tenant"),
        _int("log"),
        _int("position"),
        _json("body"),
        sa.PrimaryKeyConstraint("tenant", "log", "position", name="entries_pkey"),
        schema=schema,
    )
    op.create_table(
        "labels",
        _int("tenant"),
        _small("store"),
        _id("key"),
        _id("value"),
        _int("age"),
        _id("id"),
        sa.PrimaryKeyConstraint("tenant", "store", "key", "value", "age", "id", name="labels_pkey"),
        schema=schema,
    )
    op.create_table(
        "logs",
        _int("tenant"),
        _int("number"),
        _id("id"),
        _int("run"),
        _flag("written_here"),
        _int("staged", nullable=True),
        _flag("trimmable"),
        sa.PrimaryKeyConstraint("tenant", "number", name="logs_pkey"),
        sa.UniqueConstraint("tenant", "id", name="logs_tenant_id_key"),
        schema=schema,
    )
    op.create_table(
        "namespaces",
        _int("tenant"),
        _number(),
        _id("name"),
        _int("note_count"),
        _int("changes"),
        _int("removed_at"),
        sa.PrimaryKeyConstraint("tenant", "name", name="namespaces_pkey"),
        schema=schema,
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "note_filters",
        _int("tenant"),
        _int("namespace"),
        _bytes("digest"),
        _int("created"),
        _int("note"),
        sa.PrimaryKeyConstraint(
            "tenant", "namespace", "digest", "created", "note", name="note_filters_pkey"
        ),
        schema=schema,
    )
    op.create_table(
        "notes",
        _int("tenant"),
        _int("namespace"),
        _number(),
        _id("key"),
        _int("created"),
        _int("updated"),
        _int("version"),
        _bytes("folded"),
        _json("metadata"),
        _bytes("value"),
        sa.PrimaryKeyConstraint("tenant", "namespace", "number", name="notes_pkey"),
        sa.UniqueConstraint("tenant", "namespace", "key", name="notes_tenant_namespace_key_key"),
        schema=schema,
    )
    op.create_table(
        "results",
        _int("tenant"),
        _id("ref"),
        _number(),
        _int("age"),
        _int("bytes"),
        _int("characters"),
        _json("labels"),
        _json("rest"),
        sa.PrimaryKeyConstraint("tenant", "ref", name="results_pkey"),
        schema=schema,
    )
    op.create_table(
        "run_keys",
        _int("tenant"),
        _int("run"),
        _small("slot"),
        _int("number"),
        _id("key"),
        _id("digest"),
        _int("message_count"),
        _int("event_count"),
        sa.PrimaryKeyConstraint("tenant", "run", "slot", name="run_keys_pkey"),
        sa.UniqueConstraint("tenant", "run", "key", name="run_keys_tenant_run_key_key"),
        schema=schema,
    )
    op.create_table(
        "run_ranges",
        _int("tenant"),
        _int("run"),
        _small("kind"),
        _int("start"),
        _int("log"),
        _int("length"),
        sa.PrimaryKeyConstraint("tenant", "run", "kind", "start", name="run_ranges_pkey"),
        schema=schema,
    )
    op.create_table(
        "runs",
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
        sa.PrimaryKeyConstraint("tenant", "id", name="runs_pkey"),
        schema=schema,
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "storage",
        _id("identity"),
        sa.PrimaryKeyConstraint("identity", name="storage_pkey"),
        schema=schema,
    )
    op.create_table(
        "tenant_states",
        _int("tenant"),
        _int("version_floor"),
        _int("embedder", nullable=True),
        _int("result_count"),
        _int("result_bytes"),
        sa.PrimaryKeyConstraint("tenant", name="tenant_states_pkey"),
        schema=schema,
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "tenants",
        _number(),
        _id("name"),
        sa.PrimaryKeyConstraint("name", name="tenants_pkey"),
        sa.UniqueConstraint("number", name="tenants_number_key"),
        schema=schema,
    )
    op.create_table(
        "vectors",
        _int("tenant"),
        _int("namespace"),
        _int("embedder"),
        _int("note"),
        sa.Column("vector", sa.ARRAY(sa.REAL), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "namespace", "embedder", "note", name="vectors_pkey"),
        schema=schema,
    )
    op.create_index(
        "logs_staged",
        "logs",
        ["tenant", "staged"],
        schema=schema,
        postgresql_where=sa.text("staged IS NOT NULL"),
    )
    op.create_index(
        "logs_trimmable",
        "logs",
        ["tenant", "number"],
        schema=schema,
        postgresql_where=sa.text("trimmable"),
    )
    op.create_index(
        "notes_oldest", "notes", ["tenant", "namespace", "created", "number"], schema=schema
    )
    op.create_index("results_newest", "results", ["tenant", "age", "ref"], schema=schema)
    op.create_index("run_ranges_of_log", "run_ranges", ["tenant", "log", "length"], schema=schema)
    op.create_index("runs_newest", "runs", ["tenant", "age", "id"], schema=schema)
    op.create_index(
        "runs_of_parent",
        "runs",
        ["tenant", "parent", "age", "id"],
        schema=schema,
        postgresql_where=sa.text("parent != ''"),
    )
    for table, column in (
        ("entries", "body"),
        ("notes", "folded"),
        ("notes", "metadata"),
        ("notes", "value"),
        ("vectors", "vector"),
        ("results", "rest"),
        ("chunks", "text"),
    ):
        op.execute(f"ALTER TABLE {quoted}.{table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
    identity = "replace(gen_random_uuid()::text, '-', '')"
    op.execute(f"INSERT INTO {quoted}.storage (identity) SELECT {identity}")


def downgrade(op: Operations, schema: str | None) -> None:
    raise NotImplementedError("there is nothing before the first revision")
