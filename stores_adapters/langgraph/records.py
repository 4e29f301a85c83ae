"""How checkpoints and writes stand in a run: the records, and their text at rest."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar

from langgraph.checkpoint.serde.base import SerializerProtocol
from pydantic import Field, ValidationError

from stores_core.entries import Event, Message
from stores_core.errors import CorruptRecordError
from stores_core.shape import AsDict, AsTuple, Shape

CHECKPOINT = "checkpoint"
WRITES = "writes"
"""The role of a message that is a checkpoint, the kind of an event that holds writes."""


class Blob(Shape):
    """A value as LangGraph's serializer wrote it: the type it named, the bytes in base64."""

    type: str
    data: str


class CheckpointRecord(Shape):
    """One checkpoint. It holds the values that changed in it and says where the others stand.

    ``values`` are the blobs of the channels whose value came with this checkpoint, ``channels``
    the position in the message log of the record that holds each channel's blob, this one's
    included. ``body`` is the checkpoint without its values. ``run`` is the id that LangGraph gave
    the execution. What stands before position ``floor`` is gone, as of the newest record.
    ``in_order`` says that from the floor up to here each id is greater than the one before, or is
    the newest one said again.
    ``writes_from`` is the position in the event log from which on writes of it can stand.
    ``dropped`` are executions, each with the position before which its checkpoints are gone, as of
    the newest record; that says in ``dropped_at`` which record has them.
    """

    id: str
    namespace: str
    parent: str = ""
    run: str = ""
    floor: int = 0
    in_order: bool = True
    writes_from: int = 0
    body: Blob
    metadata: Blob
    values: Annotated[Mapping[str, Blob], AsDict()] = Field(default_factory=dict[str, Blob])
    channels: Annotated[Mapping[str, int], AsDict()] = Field(default_factory=dict[str, int])
    dropped: Annotated[Mapping[str, int], AsDict()] = Field(default_factory=dict[str, int])
    dropped_at: int | None = None


class Found(NamedTuple):
    """A checkpoint and its position in the message log."""

    at: int
    record: CheckpointRecord


class Write(Shape):
    """One write of a task; ``index`` is negative for the special channels."""

    index: int
    channel: str
    value: Blob


class WritesRecord(Shape):
    """What one task wrote in one go, beside the checkpoint ``checkpoint``."""

    checkpoint: str
    task: str
    path: str = ""
    writes: Annotated[Sequence[Write], AsTuple()] = ()


R = TypeVar("R", CheckpointRecord, WritesRecord)


def message_of(record: CheckpointRecord) -> Message:
    return Message.model_validate({"role": CHECKPOINT, CHECKPOINT: record.model_dump()})


def event_of(record: WritesRecord) -> Event:
    # JSON has lists only, and nothing but JSON may stand in a further field.
    plain = {**record.model_dump(), "writes": [write.model_dump() for write in record.writes]}
    return Event.model_validate({"kind": WRITES, WRITES: plain})


def read_record(kind: type[R], entry: Message | Event, run_id: str, at: int) -> R:
    """The record in an entry. Raises CorruptRecordError where something else stands there."""
    field = CHECKPOINT if isinstance(entry, Message) else WRITES
    try:
        return kind.model_validate((entry.model_extra or {}).get(field))
    except ValidationError:
        raise CorruptRecordError(store="runs", id=run_id, position=at) from None


def dump(serde: SerializerProtocol, value: object) -> Blob:
    """``value`` as a blob. Raises what the serializer raises for a value that it cannot take."""
    kind, data = serde.dumps_typed(value)
    return Blob(type=kind, data=b64encode(data).decode())


def load(serde: SerializerProtocol, blob: Blob, run_id: str, at: int) -> object:
    """The value of a blob. Raises CorruptRecordError for what the serializer does not read,
    a pickle among it."""
    try:
        return serde.loads_typed((blob.type, b64decode(blob.data, validate=True)))
    except Exception as error:
        raise CorruptRecordError(store="runs", id=run_id, position=at) from error
