"""Both logs of a run in batches that a store takes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile

from stores_cli.importing.entries import Entries
from stores_cli.importing.sessions import AT_MESSAGE
from stores_core import Event, Message
from stores_core.limits import Limits

BATCH_ENTRIES = 500
_BATCH_BYTES = Limits().max_batch_bytes // 4


def batches(
    messages: Entries[Message], events: Entries[Event], before: int
) -> Iterator[tuple[Sequence[Message], Sequence[Event]]]:
    """Both logs in batches that a store takes, each event no later than the message it follows.

    ``before`` messages stand in the run already.
    """
    told = 0
    for start, end in _cuts(messages.sizes()):
        coming = takewhile(partial(_is_due, before + end), events[told:])
        until = told + sum(1 for _ in coming)
        early = events[told:until]
        cuts = [*_cuts(early.sizes())]
        for first, last in cuts[:-1]:
            yield (), [*early[first:last]]
        rest = early[cuts[-1][0] :] if cuts else early
        if sum(rest.sizes()) > _BATCH_BYTES // 2:
            yield (), [*rest]
            rest = ()
        yield [*messages[start:end]], [*rest]
        told = until
    late = events[told:]
    for first, last in _cuts(late.sizes()):
        yield (), [*late[first:last]]


def _cuts(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    start = end = size = 0
    for next_size in sizes:
        if end > start and (end - start == BATCH_ENTRIES or size + next_size > _BATCH_BYTES):
            yield start, end
            start, size = end, 0
        size += next_size
        end += 1
    if start < end:
        yield start, end


def _is_due(count: int, event: Event) -> bool:
    """Whether so many messages of the run are enough for an event to follow."""
    at = (event.__pydantic_extra__ or {}).get(AT_MESSAGE)
    return not isinstance(at, int) or at <= count
