"""indexes of the newest grow at their right end, and stay a good third smaller

A new run has the least age, so in ascending order it came in at the left, where SQLite splits a
full page into halves that nothing fills any more. Read backwards, descending order is the same.
"""

from alembic.operations import Operations
from sqlalchemy import text

revision = "0002_from_0001"
down_revision = "0001"


def upgrade(op: Operations, schema: str | None) -> None:
    op.create_index("newest_runs", "runs", ["tenant", text("age DESC"), text("id DESC")])
    op.drop_index("runs_newest", "runs")
    op.create_index("newest_results", "results", ["tenant", text("age DESC"), text("ref DESC")])
    op.drop_index("results_newest", "results")


def downgrade(op: Operations, schema: str | None) -> None:
    op.create_index("runs_newest", "runs", ["tenant", "age", "id"])
    op.drop_index("newest_runs", "runs")
    op.create_index("results_newest", "results", ["tenant", "age", "ref"])
    op.drop_index("newest_results", "results")
