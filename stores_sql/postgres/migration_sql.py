"""The steps of a migration as a script for psql, where only DBAs may change tables."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stores_sql.postgres.revision_table import NAME, changes, lock_of, quoted

if TYPE_CHECKING:
    from stores_sql.migrations.chain import Step

_HEAD = """\
-- agent-stores, schema {schema}: from revision {start} to {end}.
-- Run it with psql -X -v ON_ERROR_STOP=1 as the role that owns the schema. It stops where the
-- schema is not of the revision that a step begins at.
"""
_CHECK = """\
DO $check$
BEGIN
    IF (SELECT string_agg(version_num, ' and ') FROM {quoted}.{table})
        IS DISTINCT FROM '{start}' THEN
        RAISE EXCEPTION 'the schema {schema} is not of revision {start}';
    END IF;
END
$check$;
"""


def script(steps: "Sequence[Step]", schema: str) -> str:
    """The whole script; empty where there is nothing to do."""
    if not steps:
        return ""
    start, end = steps[0].start, steps[-1].end
    parts = [_HEAD.format(schema=schema, start=start, end=end)]
    if start.number == 0:
        parts.append(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n")
    for step in steps:
        parts.append(f"-- {step.sentence}\n")
        parts += _step(step, schema)
    return "\n".join(parts)


def _step(step: "Step", schema: str) -> Iterator[str]:
    there = step.start if step.start.number else None
    check = (
        _CHECK.format(schema=schema, quoted=quoted(schema), table=NAME, start=step.start)
        if there
        else ""
    )
    texts = [f"{text};\n" for text in step.statements]
    if step.concurrently:
        yield check
        yield from texts
    yield "BEGIN;"
    yield "SET LOCAL lock_timeout = '5s';"
    yield f"SELECT pg_advisory_xact_lock({lock_of(schema)});\n"
    yield check
    if not step.concurrently:
        yield from texts
    for text in changes(schema, there, step.end):
        yield f"{text};\n"
    yield "COMMIT;\n"
