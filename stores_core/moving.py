"""Export and import: how data moves between any two backends, forks still sharing prefixes.

A log has an id that is unique everywhere, so a log that was imported can be recognised. A run is
exported as its header and the ranges of logs that it reads as one; the entries are read log by
log, once, however many runs refer to them. An import brings the logs first, unseen, and then
claims each run with its header in one step.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import AwareDatetime, Field

from stores_core.memory import StoredMemory
from stores_core.runs import RunInfo
from stores_core.shape import AsTuple, Request, Response, Shape, WriteRequest
from stores_core.tool_results import ToolResult
from stores_core.values import Count, Id, IdOrEmpty, Labels

STAGED_FOR = timedelta(days=1)
"""How long the logs of an unfinished import are kept for it to go on; then sweep may take them."""


class LogRange(Shape):
    """The first ``length`` entries of one log."""

    log: Id
    length: Annotated[int, Field(gt=0)]


class KeyRecord(Shape):
    """A live idempotency key: the digest of its batch and the counts that were answered."""

    key: Id
    digest: str
    message_count: int
    event_count: int


class RunRecord(Shape):
    """A run as it is stored: its header, its live keys (oldest first), its ranges."""

    info: RunInfo
    keys: Annotated[Sequence[KeyRecord], AsTuple()] = ()
    messages: Annotated[Sequence[LogRange], AsTuple()] = ()
    events: Annotated[Sequence[LogRange], AsTuple()] = ()


class EmbedderInfo(Shape):
    """Which embedder wrote vectors: its name and the number of dimensions."""

    name: str
    dimensions: int


class MemoryRecord(Shape):
    """A note with its namespace and, as little-endian float32 bytes, its vector if it has one."""

    namespace: IdOrEmpty
    item: StoredMemory
    vector: bytes | None = None


class ToolResultRecord(Shape):
    """A tool result with all that is stored beside it."""

    ref: Id
    created_at: AwareDatetime
    labels: Labels = Field(default_factory=dict[str, str])
    result: ToolResult


class ExportRunsRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000. Runs come in listing order.

    With ``run_id`` only that run comes, if it is there, at the cost of one run: in one page,
    whatever ``cursor`` and ``limit`` say.
    """

    cursor: str = ""
    limit: Count = 0
    run_id: IdOrEmpty = ""


class ExportRunsResponse(Response):
    runs: Annotated[Sequence[RunRecord], AsTuple()] = ()
    next_cursor: str = ""


class ExportEntriesRequest(Request):
    """``limit`` 0 is 100; above 1,000 it counts as 1,000."""

    log: Id
    start: Count = 0
    limit: Count = 0


class ExportEntriesResponse(Response):
    """Entries as JSON text at rest, and the ``length`` that the log has now (0: unknown log)."""

    entries: Annotated[Sequence[bytes], AsTuple()] = ()
    length: int = 0


class ImportEntriesRequest(WriteRequest):
    """Entries of a log from position ``start`` on; those that are there already are passed over."""

    log: Id
    start: Count
    entries: Annotated[Sequence[bytes], AsTuple()]


class ImportEntriesResponse(Response):
    """The ``length`` of the log now. A ``start`` beyond it adds nothing."""

    length: int


class ImportRunRequest(WriteRequest):
    run: RunRecord


class ImportOutcome(StrEnum):
    """What became of a run that was imported."""

    CREATED = "created"
    SAME = "same"
    UPDATED = "updated"
    """The run stood there as an earlier import had left it, and was brought up to date."""
    CONFLICT = "conflict"
    """Another run, or one that was changed here, stands at the id; it was left alone."""


class ImportRunResponse(Response):
    outcome: ImportOutcome


class ExportMemoriesRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000. By namespace, then in listing order."""

    cursor: str = ""
    limit: Count = 0


class ExportMemoriesResponse(Response):
    """``version_floor`` is the highest version that a deleted note had; new notes start above."""

    memories: Annotated[Sequence[MemoryRecord], AsTuple()] = ()
    embedder: EmbedderInfo | None = None
    version_floor: int = 0
    next_cursor: str = ""


class ImportMemoriesRequest(WriteRequest):
    memories: Annotated[Sequence[MemoryRecord], AsTuple()]
    embedder: EmbedderInfo | None = None
    version_floor: Count = 0


class ImportMemoriesResponse(Response):
    """``kept`` counts notes that stand here with a version at least as high and were left."""

    imported: int = 0
    kept: int = 0


class ExportToolResultsRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000. Results come in listing order."""

    cursor: str = ""
    limit: Count = 0


class ExportToolResultsResponse(Response):
    results: Annotated[Sequence[ToolResultRecord], AsTuple()] = ()
    next_cursor: str = ""


class ImportToolResultsRequest(WriteRequest):
    results: Annotated[Sequence[ToolResultRecord], AsTuple()]


class ImportToolResultsResponse(Response):
    imported: int = 0


class Moving(Protocol):
    """Export and import of one tenant's runs, notes and tool results.

    MOVE-1 Export, import and export again give equal exports.
    MOVE-2 An import that is repeated after any cut converges, and nothing of it is visible before
        it is whole.
    MOVE-3 A prefix that runs share in the source is stored once in the target.
    """

    async def export_runs(self, request: ExportRunsRequest, /) -> ExportRunsResponse:
        """A page of run records, each one instant of its run."""
        ...

    async def export_entries(self, request: ExportEntriesRequest, /) -> ExportEntriesResponse:
        """A page of one log."""
        ...

    async def import_entries(self, request: ImportEntriesRequest, /) -> ImportEntriesResponse:
        """Bring entries of a log, unseen until a run refers to them."""
        ...

    async def import_run(self, request: ImportRunRequest, /) -> ImportRunResponse:
        """Claim the id with this header, ranges and keys. The logs must be there to that length."""
        ...

    async def export_memories(self, request: ExportMemoriesRequest, /) -> ExportMemoriesResponse:
        """A page of notes with times, versions and vectors."""
        ...

    async def import_memories(self, request: ImportMemoriesRequest, /) -> ImportMemoriesResponse:
        """Keep notes with the times and versions that they have."""
        ...

    async def export_tool_results(
        self, request: ExportToolResultsRequest, /
    ) -> ExportToolResultsResponse:
        """A page of tool results with times and labels."""
        ...

    async def import_tool_results(
        self, request: ImportToolResultsRequest, /
    ) -> ImportToolResultsResponse:
        """Keep tool results with the times and labels that they have; an equal ref is replaced."""
        ...
