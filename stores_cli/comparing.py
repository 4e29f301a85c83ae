"""Whether two backends hold the same: walked side by side, records compared, logs by digest.

Runs, notes and results come from both sides in the same order, so one page of each is in memory. A
log is read once on each side, however many runs share it. Where two runs are laid out in other
logs, their entries are compared one by one.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

from stores_cli.paging import PAGE, pages, paired, tied
from stores_cli.transfer import NAMED, Lengths, Selection, runs_of
from stores_core.backend import Backend
from stores_core.codec import canonical, encode
from stores_core.moving import LogRange, MemoryRecord, RunRecord, ToolResultRecord
from stores_core.values import micros

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Difference:
    """``kind`` is "run", "note" or "result"; ``what`` says how the two sides differ."""

    kind: str
    id: str
    what: str


@dataclass
class Comparison:
    """What was compared, by kind, and what differs; beyond a number it is only counted.

    ``digests`` of the two sides, over all records and logs in order, are equal where nothing
    differs.
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
        """Take a record of one side into its digest."""
        self._digests[side].update(len(text).to_bytes(8) + text)

    @property
    def digests(self) -> tuple[str, str]:
        return self._digests[0].hexdigest(), self._digests[1].hexdigest()


class Comparing:
    """Compares two backends. ``subset``: what only the second has is no difference."""

    def __init__(
        self, source: Backend, target: Backend, selection: Selection, *, subset: bool
    ) -> None:
        self._sides = source, target
        self._selection = selection
        self._subset = subset
        self._equal = Lengths()  # how far logs were found equal
        self.found = Comparison()

    async def all(self, step: Callable[[int], None]) -> Comparison:
        """Compare everything that is wanted."""
        await self._runs(step)
        if not self._selection.runs:
            await self._notes(step)
            await self._results(step)
        return self.found

    async def _runs(self, step: Callable[[int], None]) -> None:
        sides = [runs_of(side.moving, self._selection) for side in self._sides]
        async for here, there in paired(sides[0], sides[1], _place_of_run):
            step(1)
            self._count("runs", here)
            if here is None or there is None:
                self._one_sided("run", here, there, lambda run: run.info.id)
                continue
            for side, record in enumerate((here, there)):
                self.found.digest(side, canonical(record.info).encode())
                self.found.digest(side, canonical([key.key for key in record.keys]).encode())
            what = await self._run(here, there)
            if what:
                self.found.add("run", here.info.id, ", ".join(what))

    async def _run(self, here: RunRecord, there: RunRecord) -> list[str]:
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
            ranges = getattr(here, name), getattr(there, name)
            if canonical(ranges[0]) == canonical(ranges[1]):
                at = await self._ranges(ranges[0])
            else:
                at = await self._entries(here.info.id, name, count)
            if at >= 0:
                different.append(f"{name} from position {at} on")
        return different

    async def _ranges(self, ranges: tuple[LogRange, ...]) -> int:
        """Where two runs of the same ranges part, -1 for nowhere."""
        before = 0
        for part in ranges:
            known = self._equal.get(part.log) or 0
            if known < part.length:
                texts = [await self._digest(side, part, known) for side in (0, 1)]
                if texts[0] != texts[1]:
                    return before + await self._first_other(part, known)
                for side, text in enumerate(texts):
                    self.found.digest(side, text)
                self._equal.set(part.log, part.length)
            before += part.length
        return -1

    async def _digest(self, side: int, part: LogRange, start: int) -> bytes:
        digest, moving = blake2b(digest_size=32), self._sides[side].moving
        while start < part.length:
            limit = min(PAGE, part.length - start)
            page = await moving.export_entries(log=part.log, start=start, limit=limit)
            if not page.entries:
                break
            for text in page.entries:
                digest.update(len(text).to_bytes(8) + text)
            start += len(page.entries)
            if side == 0:
                self.found.compared["entries"] += len(page.entries)
        return digest.digest()

    async def _first_other(self, part: LogRange, start: int) -> int:
        while True:
            texts = [
                (await side.moving.export_entries(log=part.log, start=start, limit=1)).entries
                for side in self._sides
            ]
            if texts[0] != texts[1] or not texts[0]:
                return start
            start += 1

    async def _entries(self, run_id: str, name: str, count: int) -> int:
        """Where two runs part, read as runs; -1 for nowhere within ``count``."""
        start = 0
        while start < count:
            pages: list[list[bytes]] = []
            for side in self._sides:
                runs = side.runs
                reading = runs.read_messages if name == "messages" else runs.read_events
                page = await reading(run_id=run_id, start=start, limit=min(PAGE, count - start))
                pages.append([encode(entry) for entry in page.entries])
            both = min(map(len, pages))
            for index in range(both):
                if pages[0][index] != pages[1][index]:
                    return start + index
            if both == 0:  # deleted meanwhile
                return start
            start += both
            self.found.compared["entries"] += both
        return -1

    async def _notes(self, step: Callable[[int], None]) -> None:
        embedders = [(await side.moving.export_memories(limit=1)).embedder for side in self._sides]
        self.found.vectors = embedders[0] == embedders[1]
        sides = [
            tied(_notes_of(side, self._selection), _place_of_note, _key_of_note)
            for side in self._sides
        ]
        async for here, there in paired(sides[0], sides[1], _key_of_note):
            step(1)
            self._count("notes", here)
            if here is None or there is None:
                self._one_sided("note", here, there, lambda note: note.item.key)
                continue
            texts = [canonical(note.item).encode() for note in (here, there)]
            for side, text in enumerate(texts):
                self.found.digest(side, text)
            if texts[0] != texts[1]:
                self.found.add("note", here.item.key, "another value, metadata, time or version")
            elif self.found.vectors and here.vector != there.vector:
                self.found.add("note", here.item.key, "another vector, or one missing")

    async def _results(self, step: Callable[[int], None]) -> None:
        sides = [_results_of(side, self._selection) for side in self._sides]
        async for here, there in paired(sides[0], sides[1], _place_of_result):
            step(1)
            self._count("results", here)
            if here is None or there is None:
                self._one_sided("result", here, there, lambda result: result.ref)
                continue
            texts = [canonical(result).encode() for result in (here, there)]
            for side, text in enumerate(texts):
                self.found.digest(side, text)
            if texts[0] != texts[1]:
                self.found.add("result", here.ref, "another content or other labels")

    def _count(self, kind: str, here: object) -> None:
        self.found.compared[kind] += here is not None

    def _one_sided(
        self, kind: str, here: R | None, there: R | None, name: Callable[[R], str]
    ) -> None:
        if here is not None:
            self.found.add(kind, name(here), "only in the first")
        elif there is not None and not self._subset:
            self.found.add(kind, name(there), "only in the second")


def _place_of_run(run: RunRecord) -> tuple[int, str]:
    return -micros(run.info.created_at), run.info.id


def _place_of_note(note: MemoryRecord) -> tuple[str, int]:
    return note.namespace, micros(note.item.created_at)


def _key_of_note(note: MemoryRecord) -> tuple[str, int, str]:
    # Of one time the order is that of arrival, which a copy need not keep.
    return *_place_of_note(note), note.item.key


def _place_of_result(result: ToolResultRecord) -> tuple[int, str]:
    return -micros(result.created_at), result.ref


async def _notes_of(side: Backend, selection: Selection) -> AsyncGenerator[MemoryRecord]:
    async for page in pages(side.moving.export_memories):
        for note in filter(selection.takes_note, page.memories):
            yield note


async def _results_of(side: Backend, selection: Selection) -> AsyncGenerator[ToolResultRecord]:
    async for page in pages(side.moving.export_tool_results):
        for result in filter(selection.takes_result, page.results):
            yield result
