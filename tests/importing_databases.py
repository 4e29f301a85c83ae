"""What tests of imports out of databases share: an import done twice, and what it left."""

import sqlite3
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stores_cli.importing import Report, import_sessions
from stores_core import Backend, Run, open_backend


@asynccontextmanager
async def taken(place: str, **options: Any) -> AsyncGenerator[tuple[Backend, Report]]:
    async with open_backend("memory:") as backend:
        report = await import_sessions(backend, [place], **options)
        again = await import_sessions(backend, [place], **options)
        assert set(again.outcomes()) <= {"same"}
        yield backend, report


async def loaded(backend: Backend, run_id: str) -> Run:
    run = (await backend.runs.load_run(run_id=run_id)).run
    assert run is not None, run_id
    return run


def texts(run: Run) -> list[str | None]:
    return [message.text for message in run.messages]


def make(path: Path, *statements: str, rows: Iterable[tuple[str, tuple[Any, ...]]] = ()) -> str:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
        for statement, values in rows:
            connection.execute(statement, values)
    connection.close()
    return str(path)


class Trap:
    """Leaves a mark when something revives it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)
