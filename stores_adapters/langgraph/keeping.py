"""Dropping checkpoints from a log that only grows: further on it says what stays or is gone."""

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet

from langgraph.checkpoint.serde.base import SerializerProtocol

from stores_adapters.langgraph.log import CheckpointLog
from stores_adapters.langgraph.reading import metadata_of
from stores_adapters.langgraph.records import Blob, CheckpointRecord, Found
from stores_core.backend import Backend


async def keep_newest(backend: Backend, serde: SerializerProtocol, run_id: str) -> None:
    """Append copies of what `newest_whole` gives that need nothing older, and raise the floor.

    What stands below the floor can be reached no more. Raises RecordTooLargeError where the copies
    exceed one batch.
    """
    log = CheckpointLog(backend, run_id)

    async def copies() -> tuple[bool, list[CheckpointRecord]]:
        chosen = sorted(await newest_whole(serde, log), key=lambda found: found.at)
        moved = await _moved(log, chosen) if 0 < len(chosen) < log.count - log.floor else []
        return bool(chosen), moved

    await _append(backend, log, copies)


async def drop(backend: Backend, run_id: str, gone: AbstractSet[str]) -> None:
    """Append the newest checkpoint of another execution once more, and with it which are gone.

    So it is one record, however many checkpoints there are.
    """
    log = CheckpointLog(backend, run_id)

    async def marked() -> tuple[bool, list[CheckpointRecord]]:
        newest: Found | None = None
        here: set[str] = set()
        async for found in log.newest_first():
            if found.record.run in gone:
                here.add(found.record.run)
            else:
                newest = newest or found
        if newest is None or log.last is None or not here:
            return newest is not None, []
        last, record = log.last.record, newest.record
        change = {
            "floor": log.floor,
            "in_order": last.in_order and last.id <= record.id,
            "values": {},  # the channels say where they stand
            "dropped": {**await log.dropped(), **dict.fromkeys(here, log.count)},
            "dropped_at": log.count,
        }
        return True, [record.model_copy(update=change)]

    await _append(backend, log, marked)


async def _append(
    backend: Backend,
    log: CheckpointLog,
    make: Callable[[], Awaitable[tuple[bool, list[CheckpointRecord]]]],
) -> None:
    """Append what ``make`` says, or delete the run where it says that nothing is left.

    One step, so it happens wholly or not at all. What is gone stays in the run until that is
    deleted. What is put meanwhile stays: then ``make`` is asked again.
    """
    left = False

    async def records() -> list[CheckpointRecord]:
        nonlocal left
        left, made = await make()
        return made

    while True:
        await log.append(records)
        if left or log.last is None:
            return
        answer = await backend.runs.delete_run(
            run_id=log.run_id, expected_messages=log.count, expected_events=log.event_count
        )
        if not answer.conflict:
            return


async def newest_whole(serde: SerializerProtocol, log: CheckpointLog) -> list[Found]:
    """The newest checkpoint, and the ancestors that its delta channels are rebuilt from.

    A delta channel stores a value now and then only, so the chain goes back to one that has it.
    """
    found = log.last
    if found is None:
        return []
    metadata = metadata_of(serde, log, found)
    missing = {*metadata.get("counters_since_delta_snapshot", {})} - {*found.record.channels}
    kept = [found]
    while missing and found.record.parent:
        found = await log.find(found.record.parent)
        if found is None:
            break
        kept.append(found)
        missing -= {*found.record.channels}
    return kept


async def _moved(log: CheckpointLog, chosen: Sequence[Found]) -> list[CheckpointRecord]:
    """The chosen records, oldest first, as they stand at the end of the log, the floor below them.

    A value that several of them share is held by the first and pointed at by the others.
    """
    held: dict[tuple[int, str], int] = {}
    records: list[CheckpointRecord] = []
    for at, (_, record) in enumerate(chosen, start=log.count):
        await log.fetch(record.channels.values())
        values: dict[str, Blob] = {}
        channels: dict[str, int] = {}
        for channel, origin in record.channels.items():
            if (origin, channel) not in held:
                held[origin, channel] = at
                values[channel] = (await log.at(origin)).values[channel]
            channels[channel] = held[origin, channel]
        before = records[-1] if records else None
        records.append(
            record.model_copy(
                update={
                    "floor": log.count,
                    "in_order": before is None or (before.in_order and before.id < record.id),
                    "values": values,
                    "channels": channels,
                    "dropped": {},
                    "dropped_at": None,
                }
            )
        )
    return records
