"""Export and import of runs in Redis."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from stores_core.codec import canonical
from stores_core.errors import CorruptRecordError, InvalidRequestError
from stores_core.keys import KEYS_KEPT
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
from stores_redis.keys import Place, decoded, encoded
from stores_redis.log_moving import LogMoving
from stores_redis.logs import TRIES, gone_meanwhile
from stores_redis.merging import list_page
from stores_redis.places import Places
from stores_redis.run_rows import StoredRun, StoredView, label_args, new_token, stored_run
from stores_redis.scripts import Arg, Script

_EXPORT = Script("export_run")
_IMPORT = Script("import_run")


class _Stored(NamedTuple):
    """A run, where it lies and how it is exported."""

    place: Place
    run: StoredRun
    record: RunRecord


class RunMoving:
    """Exports and imports the runs of one tenant."""

    def __init__(self, places: Places) -> None:
        self._tenant, self._places = places.tenant, places
        self._logs = LogMoving(places.tenant)

    async def export_runs(self, request: ExportRunsRequest) -> ExportRunsResponse:
        """A page of runs in listing order, each at one instant."""
        ids, position = [request.run_id], ""
        if not request.run_id:
            listed = ListRunsRequest(limit=request.limit, cursor=request.cursor)
            page = await list_page(self._places, listed)
            ids, position = [run.id for run in page.runs], page.position
        found = [await self._stored(id) for id in ids]
        records = tuple(stored.record for stored in filter(None, found))
        return ExportRunsResponse(runs=records, next_cursor=position)

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
        self._logs.remember((part.log for part in _logs_of(record)), place.bucket)
        return _Stored(place, run, record)

    async def export_entries(self, request: ExportEntriesRequest) -> ExportEntriesResponse:
        """A page of a log."""
        texts, length = await self._logs.exported(request.log, request.start, request.limit)
        return ExportEntriesResponse(entries=tuple(texts), length=length)

    async def import_entries(self, request: ImportEntriesRequest) -> ImportEntriesResponse:
        """Bring entries of a log, a part in each step."""
        length = await self._logs.imported(
            request.log, request.start, request.entries, micros(request.at)
        )
        return ImportEntriesResponse(length=length)

    async def import_run(self, request: ImportRunRequest) -> ImportRunResponse:
        """Enter a run over logs that were brought."""
        try:
            return await self._imported(request)
        except InvalidRequestError:
            # Others may have drawn its logs elsewhere since this client looked for them.
            if not self._logs.forget(part.log for part in _logs_of(request.run)):
                raise
            return await self._imported(request)

    async def _imported(self, request: ImportRunRequest) -> ImportRunResponse:
        record = request.run
        for _ in range(TRIES):
            standing = await self._stored(record.info.id)
            if standing is not None:
                if canonical(standing.record) == canonical(record):
                    return ImportRunResponse(outcome=ImportOutcome.SAME)
                if not standing.run.imported:
                    return ImportRunResponse(outcome=ImportOutcome.CONFLICT)
                entered = await self._updated(request, standing)
            else:
                entered = await self._claimed(request)
            if entered:
                outcome = ImportOutcome.UPDATED if standing else ImportOutcome.CREATED
                return ImportRunResponse(outcome=outcome)
        raise gone_meanwhile()

    async def _updated(self, request: ImportRunRequest, standing: _Stored) -> bool:
        """Enter a run in the place of an earlier one; False where another one came to stand."""
        place, at = standing.place, micros(request.at)
        drawn = await self._logs.draw(_logs_of(request.run), place.bucket, at)
        entered = await self._entered(request.run, place, standing.run.token)
        if entered:
            await self._logs.drop(drawn)
        return entered

    async def _claimed(self, request: ImportRunRequest) -> bool:
        """Enter a run whose id is free; False where it came not to be."""
        id, logs = request.run.info.id, _logs_of(request.run)
        looked = await self._places.look(id)
        if looked.lineage is not None:
            return False
        bucket = await self._logs.place_for(logs)
        place = self._places.new_place(Place(bucket, ""), id) if bucket else self._places.home(id)
        drawn = await self._logs.draw(logs, place.bucket, micros(request.at))
        entered = await self._entered(request.run, place, b"")
        entered = entered and (not place.token or await self._places.claim(place, looked))
        if entered:
            await self._logs.drop(drawn)
        return entered

    async def _entered(self, record: RunRecord, place: Place, standing: bytes) -> bool:
        """Enter the run; False where another one than that came to stand at the place."""
        info, keys = record.info, record.keys[-KEYS_KEPT:]
        ranges = [(encoded(part.log), part.length) for part in _logs_of(record)]
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


def _logs_of(record: RunRecord) -> Sequence[LogRange]:
    return (*record.messages, *record.events)


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
