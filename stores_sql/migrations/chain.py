"""The chain of revisions of one database, and the SQL of its steps, written by Alembic.

Every step is written down without a connection. What runs is what people were shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Dialect

from stores_core.errors import InvalidRequestError
from stores_core.revisions import Revision

_END = ";\n\n"


@dataclass(frozen=True, slots=True)
class Step:
    """From one revision to the next, or back to the one before.

    ``statements`` run in order, in one transaction with the change of the stored revision, or
    where ``concurrently`` each alone and that change last.
    """

    sentence: str
    start: Revision
    end: Revision
    statements: Sequence[str]
    concurrently: bool = False


class Chain:
    """The revisions in a folder, from the first to the last."""

    def __init__(self, folder: Path) -> None:
        scripts = ScriptDirectory(folder, version_locations=[folder])
        # One head and one base, or this raises: there are no branches.
        scripts.get_current_head()
        self._scripts = {
            _revision(script).number: script for script in reversed([*scripts.walk_revisions()])
        }

    @property
    def revisions(self) -> list[Revision]:
        return [_revision(script) for script in self._scripts.values()]

    def steps(
        self, start: Revision, end: int, dialect: Dialect, schema: str | None = None
    ) -> list[Step]:
        """The way from one revision to another, up or down. Raises InvalidRequestError."""
        last = max(self._scripts)
        if not (0 <= start.number <= last and 0 <= end <= last):
            raise InvalidRequestError(
                field="target",
                found=f"a way from revision {start.number} to {end}",
                allowed=f"revisions that this code knows: up to {last}",
            )
        up = [self._up(number, dialect, schema) for number in range(start.number + 1, end + 1)]
        down = [self._down(number, dialect, schema) for number in range(start.number, end, -1)]
        return up + down

    def _up(self, number: int, dialect: Dialect, schema: str | None) -> Step:
        script = self._scripts[number]
        return Step(
            sentence=f"{number:04d}: {script.doc}",
            start=self._at(number - 1),
            end=_revision(script),
            statements=_written(script, "upgrade", dialect, schema),
            concurrently=_is_concurrent(script),
        )

    def _down(self, number: int, dialect: Dialect, schema: str | None) -> Step:
        script = self._scripts[number]
        return Step(
            sentence=f"back from {number:04d}: {script.doc}",
            start=_revision(script),
            end=self._at(number - 1),
            statements=_written(script, "downgrade", dialect, schema),
            concurrently=_is_concurrent(script),
        )

    def _at(self, number: int) -> Revision:
        return _revision(self._scripts[number]) if number else NOTHING


NOTHING = Revision(0, 0)
"""Before the first revision."""


@cache
def chain_in(folder: Path) -> Chain:
    """The chain of a folder, read once."""
    return Chain(folder)


def _revision(script: Script) -> Revision:
    named = Revision.named(script.revision)
    if named is None:
        raise ValueError(f"a revision has the name {script.revision!r}")
    return named


def _is_concurrent(script: Script) -> bool:
    return getattr(script.module, "CONCURRENTLY", False)


def _written(script: Script, way: str, dialect: Dialect, schema: str | None) -> Sequence[str]:
    """The statements of an upgrade or downgrade."""
    written = _Statements()
    options = {"as_sql": True, "literal_binds": True, "output_buffer": written}
    context = MigrationContext.configure(dialect=dialect, opts=options)
    getattr(script.module, way)(Operations(context), schema)
    return written.texts


class _Statements:
    """Takes what Alembic writes, which is one statement at a time."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: Any) -> None:
        self.texts.append(str(text).removesuffix(_END))

    def flush(self) -> None:
        pass
