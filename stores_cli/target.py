"""A backend that pieces are put into, many at a time."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from stores_cli.comparing import RESULT
from stores_cli.paging import PAGE
from stores_cli.transfer import Lengths, Piece, Record, Tally
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError
from stores_core.front import MovingFront
from stores_core.limits import MIB
from stores_core.moving import (
    ImportEntriesRequest,
    ImportMemoriesRequest,
    ImportOutcome,
    ImportRunRequest,
    ToolResultRecord,
)

WINDOW = 32
"""So many pieces are under way at once, since each waits for a disk or a network."""

WINDOW_BYTES = 8 * MIB
"""Or so many bytes of entries and a page more, so that memory stays flat."""


@dataclass
class _Waiting:
    """Pieces of one log, of which so many entries are there."""

    there: int
    pieces: list[ImportEntriesRequest] = field(default_factory=list[ImportEntriesRequest])


class Target:
    """Collects a window of pieces, then puts its entries, log by log, and then its runs."""

    def __init__(self, backend: Backend, tally: Tally) -> None:
        self._moving = backend.moving
        self._tally = tally
        self.lengths = Lengths()
        self._results = _Results(backend.moving)
        self._logs: dict[str, _Waiting] = {}
        self._runs: list[ImportRunRequest] = []
        self._bytes = 0

    async def lacks(self, record: Record) -> bool:
        if not isinstance(record, ToolResultRecord):
            return True  # the import itself tells, without writing
        return not await self._results.hold(record)

    async def reached(self, log: str) -> int:
        length = self.lengths.get(log)
        if length is None:
            length = (await self._moving.export_entries(log=log, limit=1)).length
            self.lengths.set(log, length)
        return length

    async def put(self, piece: Piece) -> None:
        counts = self._tally.counts
        if isinstance(piece, ImportEntriesRequest):
            there, end = await self.reached(piece.log), piece.start + len(piece.entries)
            if there < end:
                self._logs.setdefault(piece.log, _Waiting(there)).pieces.append(piece)
                self._bytes += sum(map(len, piece.entries))
                self.lengths.set(piece.log, end)
        elif isinstance(piece, ImportRunRequest):
            self._runs.append(piece)
        elif isinstance(piece, ImportMemoriesRequest):
            counts["notes"] += (await self._moving.import_memories(piece)).imported
        else:
            counts["results"] += (await self._moving.import_tool_results(piece)).imported
        if len(self._logs) + len(self._runs) >= WINDOW or self._bytes >= WINDOW_BYTES:
            await self.finish()

    async def finish(self) -> None:
        await _all(self._put_log(log, waiting) for log, waiting in self._logs.items())
        await _all(self._put_run(piece) for piece in self._runs)
        self._logs.clear()
        self._runs.clear()
        self._bytes = 0

    async def _put_log(self, log: str, waiting: _Waiting) -> None:
        there = waiting.there
        for piece in waiting.pieces:
            there = (await self._moving.import_entries(piece)).length
        self._tally.counts["entries"] += there - waiting.there
        self.lengths.set(log, there)

    async def _put_run(self, piece: ImportRunRequest) -> None:
        counts = self._tally.counts
        counts["runs"] += 1
        outcome = await self._import(piece)
        if outcome is ImportOutcome.CONFLICT:
            self._tally.conflicts.add(piece.run.info.id)
        else:
            counts[outcome] += 1

    async def _import(self, piece: ImportRunRequest) -> ImportOutcome:
        try:
            return (await self._moving.import_run(piece)).outcome
        except InvalidRequestError as error:
            if not error.field.startswith("run."):
                raise
            # A log that it shares was written to here, so it is not the source's any more.
            return ImportOutcome.CONFLICT


class _Results:
    """The tool results of the target, a page at a time, walked beside those that come: since an
    import writes one anew whatever stands there."""

    def __init__(self, moving: MovingFront) -> None:
        self._moving = moving
        self._page: dict[str, ToolResultRecord] = {}
        self._cursor = ""
        self._last: ToolResultRecord | None = None
        self._more = True

    async def hold(self, record: ToolResultRecord) -> bool:
        """Whether it is there just so. Records come in listing order."""
        while self._more and (
            self._last is None or RESULT.place(self._last) < RESULT.place(record)
        ):
            page = await self._moving.export_tool_results(cursor=self._cursor, limit=PAGE)
            self._page = {result.ref: result for result in page.results}
            self._last = page.results[-1] if page.results else None
            self._cursor, self._more = page.next_cursor, bool(page.next_cursor)
        here = self._page.get(record.ref)
        return here is not None and RESULT.text(here) == RESULT.text(record)


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
