"""Idempotency keys: what every run store remembers of them, and how it answers a duplicate."""

from typing import TypeVar

from stores_core.errors import InvalidRequestError
from stores_core.moving import KeyRecord
from stores_core.runs import AppendResponse

KEYS_KEPT = 128
"""So many of a run's latest keyed batches are remembered."""

A = TypeVar("A", bound=AppendResponse)


def repeated(answer: type[A], known: KeyRecord, digest: str) -> A:
    """A duplicate's answer, by what is known of its key (RUN-A7). Refuses another batch."""
    if known.digest != digest:
        raise InvalidRequestError(
            field="idempotency_key",
            found="a key that this run has seen with another batch",
            allowed="the same batch again, or a key of its own for each batch",
        )
    return answer(found=True, message_count=known.message_count, event_count=known.event_count)
