"""From a checkpoint that LangGraph puts to the record of what changed in it."""

from typing import Any, cast

from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from stores_adapters.langgraph.log import CheckpointLog
from stores_adapters.langgraph.places import Place
from stores_adapters.langgraph.records import CheckpointRecord, dump, load


async def record_of(
    serde: SerializerProtocol,
    log: CheckpointLog,
    place: Place,
    checkpoint: Checkpoint,
    metadata: dict[str, Any],
    new_versions: ChannelVersions,
) -> CheckpointRecord:
    """The record to append at the end of ``log``; ``place`` names its parent.

    A channel that is not new and has its parent's version is held where the parent's is. Every
    other value is held by the record itself, so an unknown parent costs bytes and no value.
    """
    versions = checkpoint["channel_versions"]
    parent = await log.find(place.checkpoint) if place.checkpoint else None
    inherited: dict[str, int] = {}
    if parent:
        stored = cast("Checkpoint", load(serde, parent.record.body, log.run_id, parent.at))
        older = stored["channel_versions"]
        inherited = {
            channel: at
            for channel, at in parent.record.channels.items()
            if channel not in new_versions
            and channel in older
            and older[channel] == versions.get(channel)
        }
    values = {
        channel: dump(serde, value)
        for channel, value in checkpoint["channel_values"].items()
        if channel not in inherited
    }
    last = log.last.record if log.last else None
    body = {key: value for key, value in checkpoint.items() if key != "channel_values"}
    run = metadata.get("run_id")
    return CheckpointRecord(
        id=checkpoint["id"],
        namespace=place.namespace,
        parent=place.checkpoint,
        run=run if isinstance(run, str) else "",
        floor=log.floor,
        in_order=last is None or (last.in_order and last.id < checkpoint["id"]),
        writes_from=log.event_count,
        body=dump(serde, body),
        metadata=dump(serde, metadata),
        values=values,
        channels=inherited | dict.fromkeys(values, log.count),
        dropped_at=last.dropped_at if last else None,
    )
