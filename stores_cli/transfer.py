"""What a copy is made of: pieces read from one backend, put into another or into an archive.

A piece is a request of section 7 of the contract, an import of entries, a run, notes or results.
Logs come before the runs that refer to them, each entry once, so forks go on sharing prefixes. At
any moment a few pages are in memory. Whatever was put may be put again: a copy that was cut off is
simply begun anew, and asks the target how far each log is there.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from stores_cli.paging import PAGE
from stores_core.backend import Backend
from stores_core.front import MovingFront, RunsFront
from stores_core.moving import (
    ImportEntriesRequest,
    ImportMemoriesRequest,
    ImportRunRequest,
    ImportToolResultsRequest,
    LogRange,
    MemoryRecord,
    RunRecord,
    ToolResultRecord,
)
from stores_core.runs import RunInfo
from stores_core.values import micros
from stores_core.walking import pages

LOGS_KNOWN = 10_000
"""So many lengths of logs are remembered; of others the target is asked again."""

NAMED = 1_000
"""So many runs are named in a report, the rest are counted."""

Piece = ImportEntriesRequest | ImportRunRequest | ImportMemoriesRequest | ImportToolResultsRequest


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted. ``runs``: only these, and neither notes nor results; empty: everything."""

    runs: frozenset[str] = frozenset()
    since: datetime | None = None
    """Only what was last written to at this time or later."""

    def takes(self, info: RunInfo) -> bool:
        return (not self.runs or info.id in self.runs) and self._is_new(info.updated_at)

    def takes_note(self, note: MemoryRecord) -> bool:
        return self._is_new(note.item.updated_at)

    def takes_result(self, result: ToolResultRecord) -> bool:
        return self._is_new(result.created_at)

    def _is_new(self, time: datetime) -> bool:
        return self.since is None or time >= self.since


Record = RunRecord | MemoryRecord | ToolResultRecord


class Sink(Protocol):
    """Where pieces go."""

    async def lacks(self, record: Record) -> bool:
        """Whether it has to be put; False only for what is there just so. Results are asked for
        in listing order."""
        ...

    async def reached(self, log: str) -> int:
        """How many entries of a log it has, those that were put and wait included."""
        ...

    async def put(self, piece: Piece) -> None:
        """Take a piece; it may wait for others."""
        ...

    async def finish(self) -> None:
        """Whatever waits is there now."""
        ...


class Names:
    """How many runs something is true of, and which, up to a number."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(name)


class Lengths:
    """How far each log is there, as far as it is known: the `LOGS_KNOWN` used last."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def get(self, log: str) -> int | None:
        length = self._known.pop(log, None)
        if length is not None:  # a log that many runs share is used often, and stays
            self._known[log] = length
        return length

    def set(self, log: str, length: int) -> None:
        self._known.pop(log, None)
        self._known[log] = length
        if len(self._known) > LOGS_KNOWN:
            del self._known[next(iter(self._known))]


@dataclass(slots=True)
class Tally:
    """What was done: counts by kind, and the runs that want a word."""

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("runs", "created", "updated", "same", "entries", "notes", "results"), 0
        )
    )
    conflicts: Names = field(default_factory=Names)
    """Another run, or one that was written to there, stands at the id; it was left alone."""
    moved: Names = field(default_factory=Names)
    """Written to, or made, while they were copied: each is whole as it was at one instant."""
    gone: Names = field(default_factory=Names)
    """Deleted, or laid out anew, between being listed and being read."""


def place_of(info: RunInfo) -> tuple[int, str]:
    """Where a run stands in a listing."""
    return -micros(info.created_at), info.id


async def runs_of(source: MovingFront, selection: Selection) -> AsyncGenerator[RunRecord]:
    """The records that are wanted, in listing order. Where runs are named, no others are read."""
    if selection.runs:
        answers = [await source.export_runs(run_id=id) for id in selection.runs]
        named = [run for answer in answers for run in answer.runs]
        for run in sorted(named, key=lambda run: place_of(run.info)):
            if selection.takes(run.info):
                yield run
        return
    async for page in pages(source.export_runs):
        for run in page.runs:
            if selection.takes(run.info):
                yield run


async def infos_of(source: RunsFront, selection: Selection) -> AsyncGenerator[RunInfo]:
    """The headers that are wanted as they are now. Where runs are named, no others are read."""
    if selection.runs:
        for id in selection.runs:
            info = (await source.get_run(run_id=id)).info
            if info is not None and selection.takes(info):
                yield info
        return
    async for page in pages(source.list_runs):
        for info in page.runs:
            if selection.takes(info):
                yield info


async def read(
    source: Backend, selection: Selection, sink: Sink, tally: Tally
) -> AsyncGenerator[Piece]:
    """All pieces that are wanted and lacking, in an order in which they can be put."""
    moving = source.moving
    async for run in runs_of(moving, selection):
        if not await sink.lacks(run):
            continue
        missing = False
        for part in (*run.messages, *run.events):
            async for piece in _entries(moving, part, await sink.reached(part.log)):
                if piece is None:
                    missing = True
                else:
                    yield piece
        if missing:
            tally.gone.add(run.info.id)
        else:
            yield ImportRunRequest(run=run)
    if not selection.runs:
        async for piece in notes_of(moving, selection, sink):
            yield piece
        async for piece in results_of(moving, selection, sink):
            yield piece


async def _entries(
    moving: MovingFront, part: LogRange, start: int
) -> AsyncGenerator[ImportEntriesRequest | None]:
    """The entries of a range from ``start`` on; None at the end where the log is not so long."""
    while start < part.length:
        limit = min(PAGE, part.length - start)
        page = await moving.export_entries(log=part.log, start=start, limit=limit)
        if not page.entries:
            yield None
            return
        yield ImportEntriesRequest(log=part.log, start=start, entries=page.entries)
        start += len(page.entries)


async def notes_of(
    moving: MovingFront, selection: Selection, sink: Sink
) -> AsyncGenerator[ImportMemoriesRequest]:
    """The notes that are wanted and lacking, a page at a time."""
    async for page in pages(moving.export_memories):
        wanted = [
            note for note in page.memories if selection.takes_note(note) and await sink.lacks(note)
        ]
        if wanted or page.version_floor:
            yield ImportMemoriesRequest(
                memories=wanted, embedder=page.embedder, version_floor=page.version_floor
            )


async def results_of(
    moving: MovingFront, selection: Selection, sink: Sink
) -> AsyncGenerator[ImportToolResultsRequest]:
    """The tool results that are wanted and lacking, a page at a time."""
    async for page in pages(moving.export_tool_results):
        wanted = [
            result
            for result in page.results
            if selection.takes_result(result) and await sink.lacks(result)
        ]
        if wanted:
            yield ImportToolResultsRequest(results=wanted)


async def move(pieces: AsyncGenerator[Piece], sink: Sink, step: Callable[[int], None]) -> None:
    """Put all pieces; ``step`` hears of the entries, runs, notes and results that went."""
    async for piece in pieces:
        await sink.put(piece)
        step(size_of(piece))
    await sink.finish()


def size_of(piece: Piece) -> int:
    """How many entries, runs, notes or results a piece holds."""
    if isinstance(piece, ImportEntriesRequest):
        return len(piece.entries)
    if isinstance(piece, ImportRunRequest):
        return 1
    if isinstance(piece, ImportMemoriesRequest):
        return len(piece.memories)
    return len(piece.results)
