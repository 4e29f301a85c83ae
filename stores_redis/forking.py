"""Forking a run in Redis: one script, but for the rare join before it."""

from stores_core.ranges import join as groups_of
from stores_core.runs import ForkRunRequest, ForkRunResponse
from stores_core.values import micros
from stores_redis.keys import Bucket
from stores_redis.logs import Staged, gone_meanwhile
from stores_redis.run_rows import (
    MESSAGES,
    NONE,
    Row,
    StoredRun,
    StoredView,
    Wanted,
    find,
    label_args,
    new_token,
)
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.storage import Tenant

TRIES = 20
"""So often something is tried that others undo."""

_FORK = Script("fork_run")
_COPY = Script("copy_entries")
_JOIN = Script("join_run")

_ROWS_IN_A_COPY = 200


async def fork(tenant: Tenant, bucket: Bucket, request: ForkRunRequest) -> ForkRunResponse:
    """Fork a run into the bucket that it lies in."""
    at = micros(request.at)
    labels = request.labels
    given: list[Arg] = [""] if labels is None else [len(labels), *label_args(labels.items())]
    keys = [bucket.run(request.run_id), bucket.run(request.new_run_id)]
    args = [
        bucket.tag, request.run_id, request.new_run_id, request.at_message, at, new_token(), *given
    ]  # fmt: skip
    for _ in range(TRIES):
        status, *told = await tenant.run(_FORK, keys, args, writes=True)
        if status == b"forked":
            return ForkRunResponse(
                run_id=request.new_run_id,
                found=True,
                created=True,
                parent_id=request.run_id,
                fork_point=int(told[0]),
            )
        if status != b"join":
            return ForkRunResponse(
                run_id=request.new_run_id,
                found=status == b"known",
                parent_id=told[0].decode() if told else "",
                fork_point=int(told[1]) if told else 0,
            )
        await join(tenant, bucket, request.run_id, told[0].decode(), at)
    raise gone_meanwhile()


async def join(tenant: Tenant, bucket: Bucket, run_id: str, kind: str, at: int) -> None:
    """Let a run read fewer ranges, if it is still there and nobody else has seen to it.

    Entries are copied into segments that nothing refers to yet; one short step puts them in place.
    Appends go on meanwhile: what they add to a log that is being copied is copied after it.
    """
    found = await find(tenant, bucket, run_id)
    if found is None:
        return
    staged = Staged(tenant, bucket, at)
    joining = _Joining(tenant, bucket, found.run, kind, staged)
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
        self, tenant: Tenant, bucket: Bucket, run: StoredRun, kind: str, staged: Staged
    ) -> None:
        self._tenant, self._bucket, self._run, self._kind = tenant, bucket, run, kind
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
            keys = [self._bucket.run(run.id), self._bucket.staged()]
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
            self._tenant, self._bucket, self._run.id,
            wanted if is_message else NONE, NONE if is_message else wanted,
        )  # fmt: skip
        if found is None or found.run.token != self._run.token:
            return False
        rows = _cut_up(found.message_rows if is_message else found.event_rows)
        while rows:
            log, there = self._ranges[-1]
            name = self._staged.new_name()
            args: list[Arg] = [self._bucket.tag, self._staged.at, name]
            args += [part for row in rows[:_ROWS_IN_A_COPY] for part in row]
            keys = [self._bucket.segment(name), self._bucket.staged()]
            status, *told = await self._tenant.run(_COPY, keys, args, writes=False)
            if status != b"copied":
                return False
            taken, count = int(told[0]), int(told[1])
            self._segments += (log, there, name, count)
            self._ranges[-1] = log, there + count
            rows = rows[taken:]
        return True


def _cut_up(rows: list[Row]) -> list[Row]:
    """The same entries in rows that one step may copy."""
    return [
        (name, begin, min(begin + UNPACKED, stop))
        for name, first, stop in rows
        for begin in range(first, stop, UNPACKED)
    ]
