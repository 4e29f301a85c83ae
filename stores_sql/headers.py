"""Headers of runs: as they are stored, as they are handed out, and what a new one starts with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stores_core.errors import CorruptRecordError
from stores_core.moving import KeyRecord
from stores_core.runs import AppendResponse, RunInfo
from stores_core.shape import EPOCH, replaced
from stores_core.values import from_micros
from stores_sql.catalog import Place, decode_labels

A = TypeVar("A", bound=AppendResponse)


class StoredRun(NamedTuple):
    """A run's row, without its tenant; the columns are those of the table."""

    number: int
    id: str
    age: int
    updated: int
    parent: str
    fork_point: int
    message_count: int
    message_log: int
    message_start: int
    event_count: int
    event_log: int
    event_start: int
    key_count: int
    imported: int
    labels: bytes | str

    @property
    def place(self) -> Place:
        return self.age, self.id

    def named(self) -> dict[str, str]:
        """The labels."""
        try:
            return decode_labels(self.labels)
        except ValueError as error:
            raise CorruptRecordError(store="runs", id=self.id) from error

    def has_lengths(self, messages: int | None, events: int | None) -> bool:
        """Whether the logs have the lengths expected of them; None expects nothing."""
        return messages in (None, self.message_count) and events in (None, self.event_count)


_NO_RUN = RunInfo(id="-", created_at=EPOCH, updated_at=EPOCH)


def header(run: StoredRun) -> RunInfo:
    """The run's header, as it is handed out."""
    # Not checked again: a listing would spend most of its time on that.
    fields = {
        "id": run.id,
        "parent_id": run.parent,
        "fork_point": run.fork_point,
        "created_at": from_micros(-run.age),
        "updated_at": from_micros(run.updated),
        "labels": run.named(),
        "message_count": run.message_count,
        "event_count": run.event_count,
    }
    return replaced(_NO_RUN, fields)


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a run starts with, beside its entries. Times are in microseconds."""

    id: str
    created: int
    updated: int
    labels: Mapping[str, str]
    parent: str = ""
    fork_point: int = 0
    imported: bool = False


def key_record(key: str, digest: str, message_count: int, event_count: int) -> KeyRecord:
    """What is remembered of a key, from the columns of its row."""
    return KeyRecord(key=key, digest=digest, message_count=message_count, event_count=event_count)


def counted(answer: type[A], run: StoredRun | None, *, conflict: bool = False) -> A:
    """The answer of an append that wrote nothing, with the counts found."""
    if run is None:
        return answer(found=False)
    return answer(
        found=True,
        conflict=conflict,
        message_count=run.message_count,
        event_count=run.event_count,
    )
