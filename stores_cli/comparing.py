"""Whether two backends hold the same: walked side by side, records compared, logs by digest.

Runs, notes and results come from both sides in the same order, so one page of each is in memory. A
log is read once on each side, however many runs share it. Where two runs are laid out in other
logs, their entries are compared one by one.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from stores_cli.paging import PAGE, Read, paired, parting, tied
from stores_cli.reading import read_run
from stores_cli.transfer import NAMED, Lengths, Selection, place_of, runs_of
from stores_core.backend import Backend
from stores_core.codec import canonical
from stores_core.front import MovingFront
from stores_core.moving import LogRange, MemoryRecord, RunRecord, ToolResultRecord
from stores_core.values import micros
from stores_core.walking import pages

R = TypeVar("R")
Place = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """``kind`` is "run", "note" or "result"; ``what`` says how the two sides differ."""

    kind: str
    id: str
    what: str


@dataclass
class Comparison:
    """What was compared, by kind, and what differs; beyond a number it is only counted.

    ``digests`` of the two sides, over all records and logs in order, are equal exactly where
    nothing differs.
    """

    compared: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("runs", "entries", "notes", "results"), 0)
    )
    different: int = 0
    differences: list[Difference] = field(default_factory=list[Difference])
    vectors: bool = True
    """Whether vectors were compared; not where the embedders differ."""

    def __post_init__(self) -> None:
        self._digests = blake2b(digest_size=32), blake2b(digest_size=32)

    def add(self, kind: str, id: str, what: str) -> None:
        """Note a difference."""
        self.different += 1
        if len(self.differences) < NAMED:
            self.differences.append(Difference(kind, id, what))

    def digest(self, side: int, text: bytes) -> None:
        """Take a text of one side, 0 or 1, into its digest."""
        self._digests[side].update(len(text).to_bytes(8) + text)

    @property
    def digests(self) -> tuple[str, str]:
        return self._digests[0].hexdigest(), self._digests[1].hexdigest()


@dataclass(frozen=True)
class Kind(Generic[R]):
    """One kind of record: its name, and of a record its id, its place in the order, its text."""

    name: str
    id: Callable[[R], str]
    place: Callable[[R], Place]
    text: Callable[[R], bytes]


class Comparing:
    """Compares two backends. ``subset``: what only the second has is no difference.

    ``step`` is told of each record.
    """

    def __init__(
        self,
        first: Backend,
        second: Backend,
        selection: Selection,
        *,
        subset: bool,
        step: Callable[[int], None],
    ) -> None:
        self._sides = first, second
        self._selection = selection
        self._subset = subset
        self._step = step
        self._equal = Lengths()  # how far logs were found equal
        self.found = Comparison()

    async def all(self) -> Comparison:
        """Compare everything that is wanted."""
        await self._runs()
        if not self._selection.runs:
            await self._notes()
            await self._results()
        return self.found

    async def _pairs(
        self, kind: Kind[R], first: AsyncIterator[R], second: AsyncIterator[R]
    ) -> AsyncGenerator[tuple[R, R]]:
        """What both sides have; what one has alone is noted."""
        async for here, there in paired(first, second, kind.place):
            self._step(1)
            self.found.compared[f"{kind.name}s"] += here is not None
            if here is None and self._subset:
                continue
            for side, record in enumerate((here, there)):
                if record is not None:
                    self.found.digest(side, kind.text(record))
            if here is not None and there is not None:
                yield here, there
            elif here is not None:
                self.found.add(kind.name, kind.id(here), "only in the first")
            elif there is not None:
                self.found.add(kind.name, kind.id(there), "only in the second")

    async def _runs(self) -> None:
        first, second = (runs_of(side.moving, self._selection) for side in self._sides)
        async for here, there in self._pairs(RUN, first, second):
            what = await self._differing(here, there)
            if what:
                self.found.add(RUN.name, here.info.id, ", ".join(what))

    async def _differing(self, here: RunRecord, there: RunRecord) -> list[str]:
        fields = ("updated_at", "labels", "parent_id", "fork_point", "message_count", "event_count")
        different = [
            name
            for name in fields
            if canonical(getattr(here.info, name)) != canonical(getattr(there.info, name))
        ]
        if canonical(here.keys) != canonical(there.keys):
            different.append("idempotency keys")
        for name in ("messages", "events"):
            count = min(getattr(run.info, f"{name[:-1]}_count") for run in (here, there))
            ranges: Sequence[LogRange] = getattr(here, name)
            if canonical(ranges) == canonical(getattr(there, name)):
                at = await self._ranges(ranges)
            else:
                first, second = (read_run(side.runs, here.info.id, name) for side in self._sides)
                at = await parting(first, second, 0, count, self._saw)
            if at < count:
                different.append(f"{name} from position {at} on")
        return different

    def _saw(self, here: bytes, there: bytes) -> None:
        self.found.compared["entries"] += 1
        self.found.digest(0, here)
        self.found.digest(1, there)

    async def _ranges(self, ranges: Sequence[LogRange]) -> int:
        """Where two runs of the same ranges part, or their length."""
        before = 0
        for part in ranges:
            known = self._equal.get(part.log) or 0
            if known < part.length:
                reads = [_read_log(side.moving, part.log) for side in self._sides]
                texts = [await _digest(read, known, part.length) for read in reads]
                for side, text in enumerate(texts):
                    self.found.digest(side, text)
                if texts[0] != texts[1]:
                    return before + await parting(reads[0], reads[1], known, part.length)
                self.found.compared["entries"] += part.length - known
                self._equal.set(part.log, part.length)
            before += part.length
        return before

    async def _notes(self) -> None:
        embedders = [(await side.moving.export_memories(limit=1)).embedder for side in self._sides]
        self.found.vectors = embedders[0] == embedders[1]
        kind = NOTE if self.found.vectors else NOTE_WITHOUT_VECTOR
        # Of one time the order is that of arrival, which a copy need not keep.
        first, second = (
            tied(_notes_of(side, self._selection), _time_of, kind.place) for side in self._sides
        )
        async for here, there in self._pairs(kind, first, second):
            if canonical(here.item) != canonical(there.item):
                self.found.add(kind.name, here.item.key, "another value, metadata, time or version")
            elif kind is NOTE and here.vector != there.vector:
                self.found.add(kind.name, here.item.key, "another vector, or one missing")

    async def _results(self) -> None:
        first, second = (_results_of(side, self._selection) for side in self._sides)
        async for here, there in self._pairs(RESULT, first, second):
            if canonical(here) != canonical(there):
                self.found.add(RESULT.name, here.ref, "another content or other labels")


RUN = Kind[RunRecord](
    "run",
    lambda run: run.info.id,
    lambda run: place_of(run.info),
    lambda run: canonical([run.info, run.keys]).encode(),
)
NOTE_WITHOUT_VECTOR = Kind[MemoryRecord](
    "note",
    lambda note: note.item.key,
    lambda note: (*_time_of(note), note.item.key),
    lambda note: canonical([note.namespace, note.item]).encode(),
)
NOTE = Kind[MemoryRecord](
    NOTE_WITHOUT_VECTOR.name,
    NOTE_WITHOUT_VECTOR.id,
    NOTE_WITHOUT_VECTOR.place,
    lambda note: NOTE_WITHOUT_VECTOR.text(note) + (note.vector or b""),
)
RESULT = Kind[ToolResultRecord](
    "result",
    lambda result: result.ref,
    lambda result: (-micros(result.created_at), result.ref),
    lambda result: canonical(result).encode(),
)


def _time_of(note: MemoryRecord) -> tuple[str, int]:
    return note.namespace, micros(note.item.created_at)


async def _notes_of(side: Backend, selection: Selection) -> AsyncGenerator[MemoryRecord]:
    async for page in pages(side.moving.export_memories):
        for note in filter(selection.takes_note, page.memories):
            yield note


async def _results_of(side: Backend, selection: Selection) -> AsyncGenerator[ToolResultRecord]:
    async for page in pages(side.moving.export_tool_results):
        for result in filter(selection.takes_result, page.results):
            yield result


async def _digest(read: Read, start: int, end: int) -> bytes:
    digest = blake2b(digest_size=32)
    while start < end:
        texts = await read(start, min(PAGE, end - start))
        if not texts:  # the log is shorter
            break
        for text in texts:
            digest.update(len(text).to_bytes(8) + text)
        start += len(texts)
    return digest.digest()


def _read_log(moving: MovingFront, log: str) -> Read:
    async def read(start: int, limit: int) -> Sequence[bytes]:
        return (await moving.export_entries(log=log, start=start, limit=limit)).entries

    return read
