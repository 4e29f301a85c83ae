"""Joining ranges in Redis, so that a run reads fewer of them (RUN-F12)."""

from itertools import takewhile

from stores_core.ranges import join as groups_of
from stores_redis.keys import Place
from stores_redis.logs import TRIES, Staged, part_spans, parts_in
from stores_redis.run_rows import (
    MESSAGES,
    NONE,
    Row,
    StoredRun,
    StoredView,
    Wanted,
    find,
    new_token,
)
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.storage import Tenant

_COPY = Script("copy_entries")
_JOIN = Script("join_run")

_ROWS_IN_A_COPY = 200


async def join(tenant: Tenant, place: Place, kind: str, at: int) -> None:
    """Let a run read fewer ranges, if it is still there and nobody else has seen to it.

    Entries are copied into segments that nothing refers to yet; one short step puts them in place.
    Appends go on meanwhile: what they add to a log that is being copied is copied after it.
    """
    found = await find(tenant, place)
    if found is None:
        return
    staged = Staged(tenant, place.bucket, at)
    joining = _Joining(tenant, place, found.run, kind, staged)
    try:
        done = await joining.copied() and await joining.committed()
    except BaseException:
        await staged.drop()
        raise
    if not done:
        await staged.drop()


class _Joining:
    """One join of the messages or events (``kind``) of a run."""

    def __init__(
        self, tenant: Tenant, place: Place, run: StoredRun, kind: str, staged: Staged
    ) -> None:
        self._tenant, self._place, self._run, self._kind = tenant, place, run, kind
        self._bucket = place.bucket
        self._staged = staged
        self._view: StoredView = run.messages if kind == MESSAGES else run.events
        self._ranges: list[tuple[str, int]] = []
        self._segments: list[Arg] = []
        self._own_is_copied = False

    async def copied(self) -> bool:
        """Copy what is to be one range; whether all of it was there still."""
        old = self._view.all_ranges()
        start = 0
        for first, last in groups_of([length for _, length in old]):
            length = sum(length for _, length in old[first:last])
            if last - first == 1:
                self._ranges.append(old[first])
            else:
                self._ranges.append((new_token() + self._kind, 0))
                if not await self._copy(start, length):
                    return False
                self._own_is_copied = bool(self._view.log) and last == len(old)
            start += length
        return True

    async def committed(self) -> bool:
        """Put the copies in place; whether that was done, by this call."""
        view, run = self._view, self._run
        length = view.count - view.start
        for _ in range(TRIES):
            closed = self._ranges
            if view.log and not self._own_is_copied:
                closed = closed[:-1]  # goes on being written to
            args: list[Arg] = [
                self._bucket.tag, run.token, self._kind, view.ranges, view.log,
                length if self._own_is_copied else "", len(closed),
                *(part for parts in closed for part in parts), *self._segments,
            ]  # fmt: skip
            keys = [self._place.run, self._bucket.staged()]
            status, *told = await self._tenant.run(_JOIN, keys, args, writes=True)
            if status != b"grown":
                return status == b"joined"
            if not await self._copy(view.start + length, int(told[0]) - length):
                return False
            length = int(told[0])
        return False

    async def _copy(self, start: int, length: int) -> bool:
        """Copy entries of the run to the end of the last range."""
        wanted: Wanted = start, length
        is_message = self._kind == MESSAGES
        found = await find(
            self._tenant, self._place,
            wanted if is_message else NONE, NONE if is_message else wanted,
        )  # fmt: skip
        if found is None or found.run.token != self._run.token:
            return False
        rows = _cut_up(found.message_rows if is_message else found.event_rows)
        while rows:
            parts = parts_in(rows[0][0])
            taken = await (self._copy_large(rows[0], parts) if parts else self._copy_some(rows))
            if not taken:
                return False
            rows = rows[taken:]
        return True

    async def _copy_some(self, rows: list[Row]) -> int:
        """Copy first rows into a new segment; how many, 0 where they are gone."""
        whole = takewhile(lambda row: not parts_in(row[0]), rows[:_ROWS_IN_A_COPY])
        name = self._staged.new_name()
        copied = await self._copy_rows(name, list(whole))
        if copied is not None:
            self._grown(name, copied[1])
        return copied[0] if copied else 0

    async def _copy_large(self, row: Row, parts: int) -> int:
        """Copy a large entry, some parts at once; 1, or 0 where it is gone."""
        name = self._staged.new_name(parts)
        for first, stop in part_spans(parts):
            if await self._copy_rows(name, [(row[0], first, stop)]) is None:
                return 0
        self._grown(name, 1)
        return 1

    async def _copy_rows(self, name: str, rows: list[Row]) -> tuple[int, int] | None:
        """Copy into a segment what one step may: how many rows and items; None: they are gone."""
        args: list[Arg] = [self._bucket.tag, self._staged.at, name]
        args += [part for row in rows for part in row]
        keys = [self._bucket.segment(name), self._bucket.staged()]
        status, *told = await self._tenant.run(_COPY, keys, args, writes=False)
        return (int(told[0]), int(told[1])) if status == b"copied" else None

    def _grown(self, name: str, count: int) -> None:
        """The last range goes on in a segment of so many entries."""
        log, there = self._ranges[-1]
        self._segments += (log, there, name, count)
        self._ranges[-1] = log, there + count


def _cut_up(rows: list[Row]) -> list[Row]:
    """The same entries in rows that one step may copy."""
    return [
        (name, begin, min(begin + UNPACKED, stop))
        for name, first, stop in rows
        for begin in range(first, stop, UNPACKED)
    ]
