"""Dropping checkpoints from a log that only grows: what is kept is said again, further on."""

from collections.abc import Awaitable, Callable, Sequence

from langgraph.checkpoint.serde.base import SerializerProtocol

from stores_adapters.langgraph.log import CheckpointLog
from stores_adapters.langgraph.reading import metadata_of
from stores_adapters.langgraph.records import Blob, CheckpointRecord, Found
from stores_core.backend import Backend

Choose = Callable[[CheckpointLog], Awaitable[list[Found]]]


async def keep(backend: Backend, run_id: str, choose: Choose) -> None:
    """Append copies of the chosen checkpoints that need nothing older, and raise the floor.

    One batch, so it happens wholly or not at all. What stands below the floor can be reached no
    more, but stays in the run until that is deleted, as it is once nothing is chosen. What is put
    meanwhile stays: then the choice is made again. Raises RecordTooLargeError where the copies
    exceed one batch.
    """
    log = CheckpointLog(backend, run_id)
    chosen: list[Found] = []

    async def copies() -> list[CheckpointRecord]:
        nonlocal chosen
        chosen = sorted(await choose(log), key=lambda found: found.at)
        return await _moved(log, chosen) if 0 < len(chosen) < log.count - log.floor else []

    while True:
        await log.append(copies)
        if chosen or log.last is None:
            return
        answer = await backend.runs.delete_run(
            run_id=run_id, expected_messages=log.count, expected_events=log.event_count
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
                }
            )
        )
    return records
