"""Both logs of a run in batches that a store takes."""

from collections.abc import Iterator, Sequence

from stores_cli.importing.sessions import AT_MESSAGE
from stores_core import Event, Message
from stores_core.codec import encode
from stores_core.limits import Limits

BATCH_ENTRIES = 500
_BATCH_BYTES = Limits().max_batch_bytes // 4


def batches(
    messages: Sequence[Message], events: Sequence[Event], before: int
) -> Iterator[tuple[Sequence[Message], Sequence[Event]]]:
    """Both logs in batches that a store takes, each event no later than the message it follows.

    ``before`` messages stand in the run already.
    """
    told = 0
    for start, end in _cuts([len(encode(message)) for message in messages]):
        until = told
        while until < len(events) and _after(events[until]) <= before + end:
            until += 1
        early = events[told:until]
        cuts = list(_cuts([len(encode(event)) for event in early]))
        for first, last in cuts[:-1]:
            yield (), early[first:last]
        rest = early[cuts[-1][0] :] if cuts else ()
        if sum(map(len, map(encode, rest))) > _BATCH_BYTES // 2:
            yield (), rest
            rest = ()
        yield messages[start:end], rest
        told = until
    late = events[told:]
    for first, last in _cuts([len(encode(event)) for event in late]):
        yield (), late[first:last]


def _cuts(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for end, next_size in enumerate(sizes):
        if end > start and (end - start == BATCH_ENTRIES or size + next_size > _BATCH_BYTES):
            yield start, end
            start, size = end, 0
        size += next_size
    if start < len(sizes):
        yield start, len(sizes)


def _after(event: Event) -> int:
    at = (event.__pydantic_extra__ or {}).get(AT_MESSAGE)
    return at if isinstance(at, int) else 0
