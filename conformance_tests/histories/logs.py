"""What is known of the logs of one life: which entry is where, and where each batch lies."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from conformance_tests.histories.recording import Part, Record
from conformance_tests.histories.sweeping import END


class HistoryFaultError(Exception):
    """No order of the calls explains the answers. ``kind`` is a word for what went wrong."""

    def __init__(self, kind: str, text: str, *records: Record) -> None:
        super().__init__("\n".join([f"{kind}: {text}", *(f"  {record}" for record in records)]))
        self.kind = kind


class Log:
    """The entries of one log, put together from all that was shown of it and answered about it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[int, str] = {}
        self._whole: list[str] = []
        self._told: dict[int, Record] = {}

    def take(self, part: Part, record: Record) -> None:
        """Enter what a call showed or placed. Raises HistoryFaultError where it was told otherwise.

        The longest part that begins at 0 is best taken first.
        """
        start, entries = part
        if not self._whole and start == 0:
            self._whole = list(entries)
        if self._whole[start : start + len(entries)] == list(entries):
            self._told.setdefault(start, record)
            return
        for position, entry in enumerate(entries, start):
            other = self.at(position)
            if other is not None and other != entry:
                raise HistoryFaultError(
                    "no prefix",
                    f"{self.name} {position} is {entry} here and was {other} elsewhere",
                    record,
                    *self._tellers(position),
                )
            self._known[position] = entry
        self._told.setdefault(start, record)

    def _tellers(self, position: int) -> Iterable[Record]:
        before = [start for start in self._told if start <= position]
        return [self._told[max(before)]] if before else []

    def at(self, position: int) -> str | None:
        """The entry there; None where nobody was told."""
        if position < len(self._whole):
            return self._whole[position]
        return self._known.get(position)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        yield from enumerate(self._whole)
        yield from sorted(item for item in self._known.items() if item[0] >= len(self._whole))


def batch_of(entry: str) -> tuple[str, int]:
    """The batch that an entry is of, and its index there. Raises HistoryFaultError."""
    name, stroke, index = entry.rpartition("/")
    if not stroke or not index.isdecimal():
        raise HistoryFaultError("stranger", f"no worker sent the entry {entry[:60]!a}")
    return name, int(index)


@dataclass(slots=True)
class Placed:
    """Where a batch lies in both logs: from and to. None where nobody was told."""

    name: str
    messages: tuple[int, int] | None
    events: tuple[int, int] | None

    @property
    def before(self) -> tuple[int, int] | None:
        """The lengths just before it; None where one is not known."""
        if self.messages is None or self.events is None:
            return None
        return self.messages[0], self.events[0]

    @property
    def after(self) -> tuple[int, int] | None:
        if self.messages is None or self.events is None:
            return None
        return self.messages[1], self.events[1]


class Line:
    """The states of one life in order: pairs of lengths, each at the place of their sum.

    Both logs only grow, so of two states that were there one is nowhere shorter than the other.
    """

    def __init__(self, states: Mapping[tuple[int, int], Record], placed: Iterable[Placed]) -> None:
        """Raises HistoryFaultError for states that no growing logs have, or within a batch."""
        self._states = sorted(states)
        for (m0, e0), (m1, e1) in pairwise(self._states):
            if e1 < e0:
                raise HistoryFaultError(
                    "torn",
                    f"lengths of {m0} and {e0} and of {m1} and {e1} (messages, events) were told; "
                    "one log grew without the other",
                    states[m0, e0],
                    states[m1, e1],
                )
        self._by_messages = [messages for messages, _ in self._states]
        self._by_events = [events for _, events in self._states]
        self._places = [sum(state) for state in self._states]
        self._steps: set[tuple[tuple[int, int], tuple[int, int]]] = set()
        for batch in placed:
            self._keep_out_of(batch, states)
            if batch.before is not None and batch.after is not None:
                self._steps.add((batch.before, batch.after))

    def _keep_out_of(self, batch: Placed, states: Mapping[tuple[int, int], Record]) -> None:
        before, after = batch.before, batch.after
        if before is None or after is None:
            inside = self._inside(batch)
        else:
            first = bisect_right(self._places, sum(before))
            inside = self._states[first] if self._places[first] < sum(after) else None
        if inside is not None:
            raise HistoryFaultError(
                "torn",
                f"batch {batch.name} takes messages {batch.messages} and events {batch.events}, "
                f"and lengths of {inside[0]} and {inside[1]} were told",
                states[inside],
            )

    def _inside(self, batch: Placed) -> tuple[int, int] | None:
        """A state within a batch of which one log's place is known."""
        for span, lengths in ((batch.messages, self._by_messages), (batch.events, self._by_events)):
            if span is not None:
                first = bisect_right(lengths, span[0])
                if first < len(lengths) and lengths[first] < span[1]:
                    return self._states[first]
        return None

    def with_messages(self, count: int) -> tuple[int, int]:
        """The first and last place with so many messages, as far as is known."""
        return self._span(count, self._by_messages, self._by_events)

    def with_events(self, count: int) -> tuple[int, int]:
        """The first and last place with so many events, as far as is known."""
        return self._span(count, self._by_events, self._by_messages)

    def has(self, state: tuple[int, int]) -> bool:
        """Whether this state is known to have been there."""
        place = bisect_left(self._states, state)
        return place < len(self._states) and self._states[place] == state

    def past_messages(self, count: int) -> int:
        """The first place with more messages than that, as far as is known."""
        first = bisect_right(self._by_messages, count)
        if self._is_step(first - 1):
            return self._places[first]
        return count + (self._by_events[first - 1] if first else 0) + 1

    def _span(self, count: int, own: list[int], other: list[int]) -> tuple[int, int]:
        first, last = bisect_left(own, count), bisect_right(own, count)
        low, high = other[first - 1] if first else 0, other[last] if last < len(own) else END
        if first < last:
            # Both logs grew at once where one batch alone leads there, or on from there.
            low = other[first] if self._is_step(first - 1) else low
            high = other[last - 1] if self._is_step(last - 1) else high
        return count + low, count + high

    def _is_step(self, before: int) -> bool:
        states = self._states
        return 0 <= before < len(states) - 1 and (states[before], states[before + 1]) in self._steps
