"""One run of checkpoints: the newest, one by its id, all from the newest back, and appending."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

from stores_adapters.langgraph.records import (
    CheckpointRecord,
    Found,
    WritesRecord,
    message_of,
    read_record,
)
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError, RecordTooLargeError
from stores_core.limits import PAGE_ENTRIES

FIRST_PAGE, LARGEST_PAGE = 4, 128
TAIL_EVENTS = 32
"""How many of the newest events come along when a log is opened to be read."""


class LogGoneError(Exception):
    """The run was deleted while it was read."""


class CheckpointLog:
    """One run of checkpoints as it was when `open` was called. Made for one operation.

    What was read once is kept, so that a listing reads no record twice.
    """

    def __init__(self, backend: Backend, run_id: str) -> None:
        self.run_id = run_id
        self._runs = backend.runs
        self._reset()

    def _reset(self) -> None:
        self.count = self.event_count = 0
        self.last: Found | None = None
        self._records: dict[int, CheckpointRecord] = {}
        self._writes: defaultdict[str, list[WritesRecord]] = defaultdict(list)
        self._writes_from = 0

    @property
    def floor(self) -> int:
        """The position of the oldest checkpoint that is not gone."""
        return self.last.record.floor if self.last else 0

    async def open(self, *, events: int = 0) -> bool:
        """Look at the end of the run; False where there is no such run."""
        self._reset()
        try:
            answer = await self._runs.load_run(
                run_id=self.run_id, last_messages=1, last_events=events
            )
        except RecordTooLargeError:
            if not events:
                raise
            return await self.open()  # events so large are read page by page
        if answer.run is None:
            return False
        self.count, self.event_count = answer.run.message_count, answer.run.event_count
        self._writes_from = self.event_count
        if answer.run.messages:
            at = self.count - 1
            record = read_record(CheckpointRecord, answer.run.messages[0], self.run_id, at)
            self._records[at] = record
            self.last = Found(at, record)
        start = self.event_count - len(answer.run.events)
        self._take(
            start,
            [
                read_record(WritesRecord, event, self.run_id, start + index)
                for index, event in enumerate(answer.run.events)
            ],
        )
        return True

    async def dropped(self) -> Mapping[str, int]:
        """The executions that are gone, each with the position before which it is."""
        at = self.last.record.dropped_at if self.last else None
        return {} if at is None else (await self.at(at)).dropped

    async def at(self, position: int) -> CheckpointRecord:
        """The record at a position."""
        if position not in self._records:
            await self._read(position, position + 1)
        return self._records[position]

    async def fetch(self, positions: Iterable[int]) -> None:
        """Read the records at these positions, all under way at once."""
        missing = {position for position in positions if position not in self._records}
        await asyncio.gather(*(self._read(position, position + 1) for position in missing))

    async def newest_first(self, below: int | None = None) -> AsyncGenerator[Found]:
        """The checkpoints from the newest, or the newest before ``below``, to the oldest.

        The log reads forwards only, so a growing page before the last one is read each time.
        An id that was put again is given once, where it stands newest.
        """
        end, size = self.count if below is None else below, FIRST_PAGE
        seen: set[str] = set()
        dropped = await self.dropped()
        while end > self.floor:
            start = max(self.floor, end - size)
            await self._read(start, end)
            for position in reversed(range(start, end)):
                record = self._records[position]
                if record.id not in seen and position >= dropped.get(record.run, 0):
                    seen.add(record.id)
                    yield Found(position, record)
            end, size = start, min(2 * size, LARGEST_PAGE)

    async def find(self, checkpoint_id: str) -> Found | None:
        """The newest checkpoint of that id.

        Ids nearly always grow, and then halving finds one in log2(n) reads of one record. Where
        one came out of order, everything is read from the newest back.
        """
        if self.last is None or self.last.record.id == checkpoint_id:
            return self.last
        if not self.last.record.in_order:
            async for found in self.newest_first():
                if found.record.id == checkpoint_id:
                    return found
            return None
        low, high = self.floor, self.last.at
        while low < high:
            middle = (low + high) // 2
            record = await self.at(middle)
            if record.id == checkpoint_id:
                gone = middle < (await self.dropped()).get(record.run, 0)
                return None if gone else Found(middle, record)
            low, high = (middle + 1, high) if record.id < checkpoint_id else (low, middle)
        return None

    async def writes(self, record: CheckpointRecord) -> list[WritesRecord]:
        """The writes beside a checkpoint, oldest first.

        Late ones may stand anywhere up to the end, so every event from ``writes_from`` is read.
        """
        start, end = record.writes_from, self._writes_from
        if start < end:  # a listing asks for the writes of older ones next
            start = max(0, min(start, end - LARGEST_PAGE))
        read: list[WritesRecord] = []
        while start + len(read) < end:
            position = start + len(read)
            page = await self._runs.read_events(
                run_id=self.run_id, start=position, limit=min(end - position, PAGE_ENTRIES)
            )
            if not page.found or not page.entries:
                raise LogGoneError
            read += [
                read_record(WritesRecord, event, self.run_id, position + index)
                for index, event in enumerate(page.entries)
            ]
        if read:
            self._take(start, read)
        return self._writes[record.id]

    async def append(self, records: Callable[[], Awaitable[list[CheckpointRecord]]]) -> bool:
        """Append what ``records`` makes of the log as it is; False where there is no such run.

        Nothing may come between reading and appending: where something did, it is made again.
        """
        key = secrets.token_hex(16)
        while True:
            await self.open()
            try:
                messages = [message_of(record) for record in await records()]
            except LogGoneError:
                continue
            answer = await self._runs.append_messages(
                run_id=self.run_id,
                messages=messages,
                expected_count=self.count,
                idempotency_key=key,
            )
            if not answer.conflict:
                return answer.found

    def _take(self, start: int, read: list[WritesRecord]) -> None:
        earlier: defaultdict[str, list[WritesRecord]] = defaultdict(list)
        for record in read:
            earlier[record.checkpoint].append(record)
        for checkpoint_id, records in earlier.items():
            self._writes[checkpoint_id] = records + self._writes[checkpoint_id]
        self._writes_from = start

    async def _read(self, start: int, end: int) -> None:
        while start < end:
            if start in self._records:
                start += 1
                continue
            try:
                page = await self._runs.read_messages(
                    run_id=self.run_id, start=start, limit=end - start
                )
            except InvalidRequestError as error:
                if error.field != "start":
                    raise
                raise LogGoneError from error  # a shorter run bears the id now
            if not page.found or not page.entries:
                raise LogGoneError
            for index, message in enumerate(page.entries):
                at = start + index
                self._records[at] = read_record(CheckpointRecord, message, self.run_id, at)
            start = page.next
