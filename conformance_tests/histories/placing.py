"""From all that was told of one life to where its batches lie, and to its line of states."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from conformance_tests.histories.lifetimes import Batches, Life
from conformance_tests.histories.logs import HistoryFaultError, Line, Log, Placed, batch_of
from conformance_tests.histories.recording import Outcome, Part, Record


class Story:
    """One life, put in order. Raises HistoryFaultError where its answers contradict each other."""

    def __init__(self, life: Life, batches: Batches) -> None:
        self.life = life
        self._batches = batches
        self._read()
        self.sends = [call for call in life.calls if call.operation == "append"]
        self.fork_point = _fork_point(life)
        self.inherited_events = self._inherited_events()
        self.placed: dict[str, Placed] = {}
        self.states: dict[tuple[int, int], Record] = {}
        self._place_what_was_seen()
        self._place_what_was_answered()

    # What the calls showed

    def _read(self) -> None:
        shown = [
            (log, part, call)
            for call in self.life.calls
            if call.answer is not None
            for log, part in (
                (self.life.messages, call.answer.messages),
                (self.life.events, call.answer.events),
            )
            if part is not None
        ]
        shown.sort(key=lambda item: (item[1][0], -len(item[1][1])))
        for log, part, call in shown:
            self._check_length(log, part, call)
            log.take(part, call)

    def _check_length(self, log: Log, part: Part, call: Record) -> None:
        answer, start = call.answer, part[0]
        count = None if answer is None else answer.counts[log is self.life.events]
        if count is not None and call.operation.startswith("read_"):
            wanted = max(0, min(call.sent.limit, count - start))
            if len(part[1]) != wanted:
                raise HistoryFaultError("page", f"a page has to have {wanted} entries", call)

    def _inherited_events(self) -> int | None:
        """How many events came with the fork; None where nobody saw the first ones."""
        if self.life.birth.operation != "fork":
            return 0
        known = list(self.life.events)
        first = list(takewhile(lambda item: item[0] == item[1][0], enumerate(known)))
        own = [n for n, (_, entry) in first if self._is_own(entry)]
        if own:
            return own[0]
        whole = any(
            call.answer is not None and call.answer.counts[1] == len(first)
            for call in self.life.calls
        )
        return len(first) if whole else None

    def _is_own(self, entry: str) -> bool:
        """Whether an entry was sent to this run id, and did not come with a fork."""
        sends = self._batches.get(batch_of(entry)[0])
        return sends is not None and sends[0].run_id == self.life.run_id

    # Where each batch lies

    def _place_what_was_seen(self) -> None:
        starts: list[dict[str, int]] = []
        for index, log in enumerate((self.life.messages, self.life.events)):
            found: dict[str, int] = {}
            starts.append(found)
            inherited = self.fork_point if index == 0 else None
            seen: set[str] = set()
            for position, entry in log:
                if not self._is_own(entry) if inherited is None else position < inherited:
                    continue
                if not self._is_own(entry):
                    raise HistoryFaultError(
                        "life",
                        f"{log.name} {position} of {self.life.run_id} is {entry}, which was not "
                        f"sent there and did not come along ({inherited} did)",
                        self.life.birth,
                    )
                if entry in seen:
                    raise HistoryFaultError(
                        "twice",
                        f"{log.name} {position} of {self.life.run_id} is {entry} again",
                        *self._batches[batch_of(entry)[0]],
                    )
                seen.add(entry)
                name, offset = batch_of(entry)
                sent = self._batches[name][0].sent
                if offset >= (sent.messages, sent.events)[index]:
                    raise HistoryFaultError("stranger", f"no worker sent the entry {entry}")
                if found.setdefault(name, position - offset) != position - offset:
                    raise HistoryFaultError(
                        "torn",
                        f"{log.name} {position} of {self.life.run_id} is {entry}, and the batch "
                        f"begins at {found[name]}",
                        *self._batches[name],
                    )
        for name in starts[0].keys() | starts[1].keys():
            self.placed[name] = self._at(name, starts[0].get(name), starts[1].get(name))

    def _at(self, name: str, messages: int | None, events: int | None) -> Placed:
        sent = self._batches[name][0].sent
        return Placed(
            name,
            None if messages is None else (messages, messages + sent.messages),
            None if events is None else (events, events + sent.events),
        )

    def _place_what_was_answered(self) -> None:
        for call in self.sends:
            answer = call.answer
            if answer is None or not answer.found or answer.conflict:
                continue
            messages, events = answer.counts
            sent = call.sent
            if messages is None or events is None:
                continue
            if messages < sent.messages or events < sent.events:
                raise HistoryFaultError("place", "the lengths are below the batch's own", call)
            told = self._at(sent.batch, messages - sent.messages, events - sent.events)
            seen = self.placed.get(sent.batch)
            if seen is not None and not _agree(seen, told):
                raise HistoryFaultError(
                    "place" if answer.done else "duplicate",
                    f"batch {sent.batch} was said to take messages {told.messages} and events "
                    f"{told.events}, and takes {seen.messages} and {seen.events}",
                    call,
                )
            self.placed[sent.batch] = told
            for log, start, size in (
                (self.life.messages, messages - sent.messages, sent.messages),
                (self.life.events, events - sent.events, sent.events),
            ):
                names = tuple(f"{sent.batch}/{n}" for n in range(size))
                log.take((start, names), call)

    # What must not be

    def check_sends(self) -> None:
        """Each batch that is there may have been applied to this life, and at most once."""
        by_name: dict[str, list[Record]] = {name: [] for name in self.placed}
        for call in self.sends:
            by_name.setdefault(call.sent.batch, []).append(call)
        for name, calls in by_name.items():
            applied = [call for call in calls if call.answer is not None and call.answer.done]
            if len(applied) > 1:
                raise HistoryFaultError("twice", f"batch {name} was applied twice", *applied)
            may_be = [call for call in self._batches[name] if self.life.may_have(call)]
            if name in self.placed and not any(may_apply(call) for call in may_be):
                raise HistoryFaultError(
                    "not applied",
                    f"batch {name} is in {self.life.run_id}, which nobody applied to it",
                    self.life.birth,
                    *self._batches[name],
                )

    # The line

    def line(self, told: Iterable[tuple[tuple[int, int], Record]] = ()) -> Line:
        """The states of this life, with those that others tell of. Raises HistoryFaultError."""
        self.states = states = dict(told)
        birth = self.life.birth
        if self.inherited_events is not None:
            states[self.fork_point, self.inherited_events] = birth
        for name, placed in self.placed.items():
            for state in (placed.before, placed.after):
                if state is not None:
                    states.setdefault(state, self._batches[name][0])
        for call in self.life.calls:
            counts = _counts(call)
            if counts is not None:
                states.setdefault(counts, call)
        self._check_spans()
        return Line(states, self.placed.values())

    def _check_spans(self) -> None:
        for index, log in enumerate(("messages", "events")):
            spans = sorted(
                (span[0], span[1], name)
                for name, placed in self.placed.items()
                for span in ((placed.messages, placed.events)[index],)
                if span is not None and span[0] < span[1]
            )
            for one, other in pairwise(spans):
                if other[0] < one[1]:
                    raise HistoryFaultError(
                        "two winners",
                        f"two batches lie at {log} {other[0]}",
                        self._batches[one[2]][0],
                        self._batches[other[2]][0],
                    )

    def missing(self) -> Sequence[Record]:
        """The acknowledged batches that the last whole look at the run does not have."""
        last, entries = 0, [set[str](), set[str]()]
        for call in self.life.calls:
            answer = call.answer
            if call.operation == "load" and answer and answer.messages and answer.events:
                starts = answer.messages[0], answer.events[0]
                if starts == (0, 0) and call.called > last:
                    last = call.called
                    entries = [set(answer.messages[1]), set(answer.events[1])]
        return [
            call
            for call in self.sends
            if call.returned < last
            and call.answer is not None
            and not call.answer.conflict
            and not all(
                there.issuperset(f"{call.sent.batch}/{n}" for n in range(size))
                for there, size in zip(entries, (call.sent.messages, call.sent.events), strict=True)
            )
        ]


def _counts(call: Record) -> tuple[int, int] | None:
    """The lengths of both logs that a call found; None where it was not told both."""
    answer = call.answer
    if answer is None:
        return None
    told = answer.counts
    if call.operation == "delete" and answer.done:
        told = call.sent.expected
    messages, events = told
    return None if messages is None or events is None else (messages, events)


def _agree(seen: Placed, told: Placed) -> bool:
    return seen.messages in (None, told.messages) and seen.events in (None, told.events)


def may_apply(call: Record) -> bool:
    """Whether a call that did not say so may have applied its batch."""
    if call.answer is not None:
        return call.answer.done
    return call.outcome in (Outcome.UNKNOWN, Outcome.BROKEN)


def _fork_point(life: Life) -> int:
    """How many messages came with the fork that began a life; 0 for a create."""
    if life.birth.operation != "fork":
        return 0
    told = {
        call.answer.fork_point: call
        for call in (life.birth, *life.calls)
        if call.answer is not None and (call is life.birth or call.operation in ("get", "load"))
    }
    if len(told) > 1:
        raise HistoryFaultError("fork", "a fork point was told in two ways", *told.values())
    return next(iter(told), 0)
