"""indexes of the newest grow at their right end, and stay a good third smaller

A new run has the least age, so in ascending order it came in at the left, where Postgres splits a
full page into halves that nothing fills any more. Read backwards, descending order is the same.
"""

from typing import Any

from alembic.operations import Operations
from sqlalchemy import text

revision = "0002_from_0001"
down_revision = "0001"
CONCURRENTLY = True


def upgrade(op: Operations, schema: str | None) -> None:
    _replace(op, schema, "runs", "runs_newest", "newest_runs", ["age DESC", "id DESC"])
    _replace(op, schema, "results", "results_newest", "newest_results", ["age DESC", "ref DESC"])


def downgrade(op: Operations, schema: str | None) -> None:
    _replace(op, schema, "runs", "newest_runs", "runs_newest", ["age", "id"])
    _replace(op, schema, "results", "newest_results", "results_newest", ["age", "ref"])


def _replace(
    op: Operations, schema: str | None, table: str, old: str, new: str, order: list[str]
) -> None:
    how: Any = {"schema": schema, "postgresql_concurrently": True}
    # One that an earlier try left half built is of no use.
    op.drop_index(new, table, if_exists=True, **how)
    op.create_index(new, table, ["tenant", *map(text, order)], **how)
    op.drop_index(old, table, if_exists=True, **how)
