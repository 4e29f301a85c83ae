"""Logs that are exported and imported, and where they lie.

A log comes before the runs that refer to it, so nothing says yet which logs belong together. It
waits in the bucket that the hash of its id gives; the first run that refers to it draws it to where
the run lies. That is where one of the run's logs is read by others already, else where the first of
them waits. So a family comes to lie together, and families are spread.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from stores_core.limits import PAGE_BYTES, page_length
from stores_core.moving import LogRange
from stores_redis.keys import Bucket, Place, encoded
from stores_redis.logs import (
    TRIES,
    Piece,
    RunChangedError,
    Staged,
    gone_meanwhile,
    pieces,
    read_entries,
)
from stores_redis.places import KNOWN
from stores_redis.run_rows import rows_of
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.storage import Tenant

_FIND = Script("find_log")
_READ = Script("read_log")
_IMPORT = Script("import_entries")
_DROP = Script("drop_staged")

_ANY_AGE = 2**53


class Drawn(NamedTuple):
    """A log that was copied to where its run lies, and of which so many entries are left behind."""

    log: str
    behind: Bucket
    length: int


class LogMoving:
    """The logs of one tenant, as far as one client knows where they lie."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._lies: OrderedDict[str, Bucket] = OrderedDict()

    async def bucket_of(self, log: str) -> Bucket:
        """Where a log lies, as far as is known here; where it would wait if nowhere."""
        if not self._tenant.is_spread:
            return self._tenant.buckets[0]
        return self._lies.get(log) or await self._looked(log)

    def remember(self, logs: Iterable[str], bucket: Bucket) -> None:
        """Logs lie there."""
        for log in logs:
            self._lies[log] = bucket
            self._lies.move_to_end(log)
            if len(self._lies) > KNOWN:
                self._lies.popitem(last=False)

    def forget(self, logs: Iterable[str]) -> bool:
        """Look for them again when they are asked for; whether anything was known of one."""
        known = [log for log in logs if self._lies.pop(log, None)]
        return bool(known)

    async def _looked(self, log: str) -> Bucket:
        buckets = self._tenant.buckets
        found = await self._tenant.run_many(
            [(_FIND, [bucket.segments(log)], (bucket.tag, encoded(log))) for bucket in buckets]
        )
        held = [(is_read == b"1", int(length)) for length, is_read in found]
        best = max(held)
        bucket = buckets[held.index(best)] if best[1] else self._tenant.home(log)
        self.remember([log], bucket)
        return bucket

    async def exported(self, log: str, start: int, limit: int) -> tuple[list[bytes], int]:
        """A page of a log, and its length."""
        texts, length = await self._read(await self.bucket_of(log), log, start, limit)
        if length == 0 and self.forget([log]):
            texts, length = await self._read(await self.bucket_of(log), log, start, limit)
        return texts, length

    async def imported(self, log: str, start: int, entries: Sequence[bytes], at: int) -> int:
        """Add entries to a log, unseen; its length. ``at`` is now in microseconds."""
        length = await self._bring(await self.bucket_of(log), log, start, entries, at)
        if length < start and self.forget([log]):  # others drew it to another bucket
            length = await self._bring(await self.bucket_of(log), log, start, entries, at)
        return length

    async def place_for(self, ranges: Sequence[LogRange]) -> Bucket | None:
        """Where a run that refers to these, one at least, is to lie; None where there are none."""
        lies = {part.log: await self.bucket_of(part.log) for part in ranges}
        if len(set(lies.values())) > 1:
            users = [("EXISTS", bucket.users(log)) for log, bucket in lies.items()]
            are_read = await self._tenant.read_many(users)
            for bucket, is_read in zip(lies.values(), are_read, strict=True):
                if is_read:
                    return bucket
        return next(iter(lies.values()), None)

    async def draw(self, ranges: Sequence[LogRange], to: Bucket, at: int) -> list[Drawn]:
        """Bring logs that lie elsewhere to a bucket, unseen; those that were, to be dropped where
        they were once a run reads them here."""
        wanted = {part.log for part in ranges}
        drawn = [await self._drawn(log, to, at) for log in wanted]
        return [found for found in drawn if found]

    async def _drawn(self, log: str, to: Bucket, at: int) -> Drawn | None:
        behind = await self.bucket_of(log)
        if behind is to:
            return None
        _, here = await self._read(to, log, 0, 0)
        length = here
        while True:
            texts, length = await self._read(behind, log, here, UNPACKED)
            if not texts:
                break
            here = await self._bring(to, log, here, texts, at)
        self.remember([log], to)
        return Drawn(log, behind, length)

    async def drop(self, drawn: Sequence[Drawn]) -> None:
        """Free what was left behind, unless it is read there, or longer than it was."""
        for log, behind, length in drawn:
            args = (behind.tag, f"log {encoded(log)}", _ANY_AGE, length)
            await self._tenant.run(_DROP, [behind.staged()], args, writes=True)

    async def _read(
        self, bucket: Bucket, log: str, start: int, limit: int
    ) -> tuple[list[bytes], int]:
        for _ in range(TRIES):
            args = (bucket.tag, encoded(log), start, limit)
            keys = [bucket.segments(log)]
            length, rows = await self._tenant.run(_READ, keys, args, writes=False)
            try:
                parts = await read_entries(
                    self._tenant, Place(bucket, ""), None, rows_of(rows), ahead=2, enough=PAGE_BYTES
                )
            except RunChangedError:
                continue
            texts = list(chain.from_iterable(parts))
            return texts[: page_length(map(len, texts))], int(length)
        raise gone_meanwhile()

    async def _bring(
        self, bucket: Bucket, log: str, start: int, entries: Sequence[bytes], at: int
    ) -> int:
        """Add entries, a part in each step; the length."""
        staged, length = Staged(self._tenant, bucket, at), 0
        for piece in pieces(entries) or [Piece([], 0)]:
            brought: list[Arg] = ["", *piece.texts]
            if piece.is_large:
                brought = (await staged.add([piece]))[:1]
            args = (bucket.tag, encoded(log), at, start, *brought)
            reply = await self._tenant.run(_IMPORT, [bucket.staged()], args, writes=True)
            start, length = start + len(piece.texts), int(reply[0])
        return length
