"""From records to what LangGraph gets: a checkpoint with its values and its pending writes."""

from typing import Any, cast

from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from stores_adapters.langgraph.log import CheckpointLog
from stores_adapters.langgraph.places import config_of
from stores_adapters.langgraph.records import Found, Write, WritesRecord, load
from stores_core.errors import CorruptRecordError


async def tuple_of(
    serde: SerializerProtocol, thread: str, log: CheckpointLog, found: Found
) -> CheckpointTuple:
    """The whole checkpoint: one read for each older record that holds a value, side by side."""
    record = found.record
    await log.fetch(record.channels.values())
    values: dict[str, Any] = {}
    for channel, at in record.channels.items():
        blob = (await log.at(at)).values.get(channel)
        if blob is None:
            raise CorruptRecordError(store="runs", id=log.run_id, position=at)
        values[channel] = load(serde, blob, log.run_id, at)
    body = cast("Checkpoint", load(serde, record.body, log.run_id, found.at))
    return CheckpointTuple(
        config=config_of(thread, record.namespace, record.id),
        checkpoint={**body, "channel_values": values},
        metadata=metadata_of(serde, log, found),
        parent_config=config_of(thread, record.namespace, record.parent) if record.parent else None,
        pending_writes=_pending(serde, log, await log.writes(record)),
    )


def metadata_of(serde: SerializerProtocol, log: CheckpointLog, found: Found) -> CheckpointMetadata:
    stored = load(serde, found.record.metadata, log.run_id, found.at)
    return cast("CheckpointMetadata", stored)


def _pending(
    serde: SerializerProtocol, log: CheckpointLog, records: list[WritesRecord]
) -> list[PendingWrite]:
    """Of each task and index the first write, or the last where the channel is a special one."""
    kept: dict[tuple[str, int], tuple[str, Write]] = {}
    for record in records:
        for write in record.writes:
            key = record.task, write.index
            if write.index < 0 or key not in kept:
                kept[key] = record.path, write
    ordered = sorted(kept.items(), key=lambda pair: (pair[1][0], *pair[0]))
    return [
        (task, write.channel, load(serde, write.value, log.run_id, -1))
        for (task, _), (_, write) in ordered
    ]
