"""Export and import of runs in Redis."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from stores_core.codec import canonical
from stores_core.errors import CorruptRecordError, InvalidRequestError
from stores_core.keys import KEYS_KEPT
from stores_core.limits import PAGE_BYTES, page_length
from stores_core.moving import (
    ExportEntriesRequest,
    ExportEntriesResponse,
    ExportRunsRequest,
    ExportRunsResponse,
    ImportEntriesRequest,
    ImportEntriesResponse,
    ImportOutcome,
    ImportRunRequest,
    ImportRunResponse,
    KeyRecord,
    LogRange,
    RunRecord,
)
from stores_core.runs import ListRunsRequest
from stores_core.values import micros
from stores_redis.appending import key_record
from stores_redis.keys import Bucket, Place, decoded, encoded
from stores_redis.logs import (
    TRIES,
    Piece,
    RunChangedError,
    Staged,
    gone_meanwhile,
    pieces,
    read_entries,
)
from stores_redis.merging import list_page
from stores_redis.places import KNOWN, Places
from stores_redis.run_rows import (
    StoredRun,
    StoredView,
    label_args,
    new_token,
    rows_of,
    stored_run,
)
from stores_redis.scripts import Arg, Script

_EXPORT = Script("export_run")
_READ_LOG = Script("read_log")
_IMPORT_ENTRIES = Script("import_entries")
_IMPORT = Script("import_run")


IMPORTS = 0
"""The bucket that imported runs lie in: which logs belong to one family shows only with the runs
that refer to them, which come later than the entries."""


class _Stored(NamedTuple):
    """A run, where it lies and how it is exported."""

    place: Place
    run: StoredRun
    record: RunRecord


class RunMoving:
    """Exports and imports the runs of one tenant."""

    def __init__(self, places: Places) -> None:
        self._tenant, self._places = places.tenant, places
        self._lies: OrderedDict[str, Bucket] = OrderedDict()

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        """A page of runs in listing order, each at one instant."""
        listed = ListRunsRequest(limit=request.limit, cursor=request.cursor)
        page = await list_page(self._places, listed)
        found = [await self._stored(run.id) for run in page.runs]
        records = tuple(stored.record for stored in filter(None, found))
        return ExportRunsResponse(runs=records, next_cursor=page.position)

    async def _stored(self, run_id: str) -> _Stored | None:
        """A run as it is stored, at one instant."""
        return await self._places.at(run_id, self._stored_at)

    async def _stored_at(self, place: Place) -> _Stored | None:
        keys = [place.run, place.keys]
        header, known = await self._tenant.run(_EXPORT, keys, (), writes=False)
        if not header or header[0] == b"away":
            return None
        run = stored_run(place.id, header)
        record = RunRecord(
            info=run.info(),
            keys=_keys_of(run, known),
            messages=_ranges_of(run.messages),
            events=_ranges_of(run.events),
        )
        for part in (*record.messages, *record.events):
            self._lies[part.log] = place.bucket
            if len(self._lies) > KNOWN:
                self._lies.popitem(last=False)
        return _Stored(place, run, record)

    async def _bucket_of(self, log: str) -> Bucket:
        """Where a log lies: where a run was that refers to it, or wherever entries of it are."""
        if log in self._lies:
            return self._lies[log]
        if not self._tenant.is_spread:
            return self._tenant.buckets[0]
        calls = [
            (_READ_LOG, [bucket.segments(log)], (bucket.tag, encoded(log), 0, 0))
            for bucket in self._tenant.buckets
        ]
        lengths = [int(length) for length, _ in await self._tenant.run_many(calls)]
        return self._tenant.buckets[lengths.index(max(lengths))]

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        """A page of a log."""
        bucket, log = await self._bucket_of(request.log), encoded(request.log)
        for _ in range(TRIES):
            args = (bucket.tag, log, request.start, request.limit)
            keys = [bucket.segments(request.log)]
            length, rows = await self._tenant.run(_READ_LOG, keys, args, writes=False)
            try:
                parts = await read_entries(
                    self._tenant, Place(bucket, ""), None, rows_of(rows), ahead=2, enough=PAGE_BYTES
                )
            except RunChangedError:
                continue
            texts = list(chain.from_iterable(parts))
            texts = texts[: page_length(map(len, texts))]
            return ExportEntriesResponse(entries=tuple(texts), length=int(length))
        raise gone_meanwhile()

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        """Bring entries of a log, a part in each step."""
        bucket, start, length = self._tenant.buckets[IMPORTS], request.start, 0
        staged = Staged(self._tenant, bucket, micros(request.at))
        for piece in pieces(request.entries) or [Piece([], 0)]:
            brought: list[Arg] = ["", *piece.texts]
            if piece.is_large:
                brought = (await staged.add([piece]))[:1]
            args = (bucket.tag, encoded(request.log), micros(request.at), start, *brought)
            reply = await self._tenant.run(_IMPORT_ENTRIES, [bucket.staged()], args, writes=True)
            start, length = start + len(piece.texts), int(reply[0])
        return ImportEntriesResponse(length=length)

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        """Enter a run over logs that were brought."""
        record = request.run
        for _ in range(TRIES):
            standing = await self._stored(record.info.id)
            if standing is not None:
                if canonical(standing.record) == canonical(record):
                    return ImportRunResponse(outcome=ImportOutcome.SAME)
                if not standing.run.imported:
                    return ImportRunResponse(outcome=ImportOutcome.CONFLICT)
                entered = await self._entered(record, standing.place, standing.run.token)
            else:
                entered = await self._claimed(record)
            if entered:
                outcome = ImportOutcome.UPDATED if standing else ImportOutcome.CREATED
                return ImportRunResponse(outcome=outcome)
        raise gone_meanwhile()

    async def _claimed(self, record: RunRecord) -> bool:
        """Enter a run whose id is free; False where it came not to be."""
        looked = await self._places.look(record.info.id)
        if looked.lineage is not None:
            return False
        beside = Place(self._tenant.buckets[IMPORTS], "")
        place = self._places.new_place(beside, record.info.id)
        entered = await self._entered(record, place, b"")
        return entered and (not place.token or await self._places.claim(place, looked))

    async def _entered(self, record: RunRecord, place: Place, standing: bytes) -> bool:
        """Enter the run; False where another one than that came to stand at the place."""
        info, keys = record.info, record.keys[-KEYS_KEPT:]
        ranges = [(encoded(part.log), part.length) for part in (*record.messages, *record.events)]
        args: list[Arg] = [
            place.bucket.tag, place.member, new_token(), standing,
            micros(info.created_at), micros(info.updated_at), info.parent_id, info.fork_point,
            info.message_count, info.event_count,
            len(record.messages), len(record.events), len(info.labels), len(keys),
            *chain.from_iterable(ranges), *label_args(info.labels.items()),
        ]  # fmt: skip
        for known in keys:
            args += (known.key, f"{known.digest} {known.message_count} {known.event_count}")
        names = [place.run, place.keys]
        status, *told = await self._tenant.run(_IMPORT, names, args, writes=True)
        if status == b"short":
            field = "messages" if told[0] == b"m" else "events"
            index, there = int(told[1]), int(told[2])
            part = (record.messages if field == "messages" else record.events)[index]
            raise InvalidRequestError(
                field=f"run.{field}[{index}]",
                found=f"a log of which {there} entries are here",
                allowed=f"{part.length} brought by import_entries first",
            )
        return status == b"imported"


def _ranges_of(view: StoredView) -> tuple[LogRange, ...]:
    return tuple(LogRange(log=decoded(log), length=n) for log, n in view.all_ranges())


def _keys_of(run: StoredRun, flat: Sequence[bytes]) -> tuple[KeyRecord, ...]:
    """The live keys, oldest first."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    try:
        names = [
            fields[b"s%d" % (number % KEYS_KEPT)]
            for number in range(max(0, run.keys - KEYS_KEPT), run.keys)
        ]
        return tuple(key_record(name.decode(), fields[b"k" + name]) for name in names)
    except (KeyError, ValueError) as error:
        raise CorruptRecordError(store="runs", id=run.id) from error
