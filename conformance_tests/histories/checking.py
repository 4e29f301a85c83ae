"""The verdict on a history: does one order of all calls explain every answer?

For the logs of one life that is decided exactly and without a search: what the log holds in the end
says which order its batches had, and real time must not contradict it (``sweeping``). For the
births and deaths of one id it is decided exactly too (``lives``). Each label is written by one
worker alone and is a line of its own. What the contract does not promise, one order for calls to
several runs, is not asked for; and that logs, labels and lives of one run had one order together is
asked only as far as their calls show it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from conformance_tests.histories.claiming import claims
from conformance_tests.histories.forking import (
    Forks,
    check_lineage,
    claims_on_source,
    lineage,
    states_told,
    trace,
)
from conformance_tests.histories.labelling import check_labels
from conformance_tests.histories.lifetimes import Batches, Life, lives_of, settle
from conformance_tests.histories.lives import Told, TooManyStatesError, What, explain
from conformance_tests.histories.logs import HistoryFaultError
from conformance_tests.histories.placing import Story
from conformance_tests.histories.recording import FOREVER, LAST_LOOK, Outcome, Record
from conformance_tests.histories.sweeping import sweep

LEAST_OPERATIONS = 20
"""Operations answered while all workers were at work, below which a history proves nothing."""

FAULTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, and how much was looked at.

    ``answered`` operations were called while all workers were at work; ``overlapping`` of all were
    under way together with another one on the same run. ``unclear`` ones may belong to one of
    several lives of their id, so their places were not examined; ``undecided`` ids had too many
    calls of unknown outcome.
    """

    faults: tuple[HistoryFaultError, ...]
    operations: int
    answered: int
    overlapping: int
    unclear: int
    undecided: int

    @property
    def ran(self) -> bool:
        """Whether there was enough traffic to say anything."""
        return self.answered >= LEAST_OPERATIONS

    def told(self) -> dict[str, object]:
        """The same for machines; faults as text."""
        counts = ("operations", "answered", "overlapping", "unclear", "undecided")
        told: dict[str, object] = {name: getattr(self, name) for name in counts}
        return told | {"ran": self.ran, "faults": [str(fault) for fault in self.faults]}

    def __str__(self) -> str:
        told = (
            f"{self.operations} operations, {self.answered} of them answered while all workers "
            f"were at work, {self.overlapping} overlapping another on their run, {self.unclear} of "
            f"an unclear life, {self.undecided} ids undecided: "
        )
        if self.faults:
            shown = [str(fault) for fault in self.faults[:FAULTS_SHOWN]]
            return told + "\n\n".join([f"{len(self.faults)} faults", *shown])
        if not self.ran:
            return told + f"not run, for fewer than {LEAST_OPERATIONS} prove nothing"
        return told + "no fault"


def check(records: Sequence[Record]) -> Verdict:
    """The verdict on the records of a history, those of a last look at every run included."""
    history = History(records)
    history.examine()
    return Verdict(
        faults=tuple(history.faults),
        operations=sum(record.worker != LAST_LOOK for record in records),
        answered=_answered(records),
        overlapping=_overlapping(records),
        unclear=history.unclear,
        undecided=history.undecided,
    )


class History:
    """All records, sorted by run and life, and the faults found in them so far."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.faults: list[HistoryFaultError] = []
        self.unclear = self.undecided = 0
        self._records = records
        batches: dict[str, list[Record]] = {}
        for record in records:
            if record.operation == "append":
                batches.setdefault(record.sent.batch, []).append(record)
        self._batches: Batches = batches
        self._lives: dict[str, list[Life]] = {}
        self._life_of: dict[int, Life] = {}
        self._forks = Forks()

    def examine(self) -> None:
        """Look for faults: at most one for each life's logs, each life's labels and each id."""
        for record in self._records:
            if record.outcome is Outcome.BROKEN:
                self._note(lambda record=record: _raise("error", "no store may do so", record))
        self._note(self._sort)
        lives = [
            life
            for family in self._lives.values()
            for life in family
            if life.born_by < FOREVER  # of others nobody knows enough
        ]
        stories: dict[str, Story] = {}
        for life in lives:
            self._note(lambda life=life: stories.setdefault(life.token, self._story(life)))
        self._forks = trace(stories, self._lives)
        self.faults += self._forks.faults
        for story in stories.values():
            self._note(lambda story=story: _examine(story, self._forks))
        for life in lives:
            self._note(lambda life=life: check_labels(life))
        self._note(self._examine_lives)

    def _note(self, part: Callable[[], object]) -> None:
        try:
            part()
        except HistoryFaultError as fault:
            self.faults.append(fault)

    def _sort(self) -> None:
        self._lives = lives_of(self._records)
        self.unclear = len(settle(self._records, self._lives))
        for family in self._lives.values():
            for life in family:
                self._life_of.update((id(call), life) for call in life.calls)

    def _story(self, life: Life) -> Story:
        check_lineage(life)
        return Story(life, self._batches)

    # Births and deaths

    def _examine_lives(self) -> None:
        told: dict[str, list[Told]] = {}
        for record in self._records:
            for run_id, one in self._told(record):
                told.setdefault(run_id, []).append(one)
        for run_id, all_told in told.items():
            self._note(lambda run_id=run_id, all_told=all_told: self._explain(run_id, all_told))

    def _explain(self, run_id: str, told: Sequence[Told]) -> None:
        try:
            fault = explain(told)
        except TooManyStatesError:
            self.undecided += 1
            return
        if fault is not None:
            before = [
                one.record
                for one in told
                if one.what is not What.ALIVE and one.record.called < fault.record.returned
            ]
            raise HistoryFaultError(
                "life",
                f"no order of births and deaths of {run_id} explains the last of these",
                *before[-4:],
                fault.record,
            )

    def _told(self, record: Record) -> Iterator[tuple[str, Told]]:
        """What a call says of the ids that it speaks of."""
        answer, sent, run_id = record.answer, record.sent, record.run_id
        unknown = record.outcome in (Outcome.UNKNOWN, Outcome.BROKEN)
        match record.operation:
            case "create" | "fork" if unknown or (answer and answer.done):
                born = frozenset({sent.life})
                yield sent.new_run_id or run_id, Told(record, What.BIRTH, born)
                if answer and sent.new_run_id:
                    sources = self._forks.sources.get(sent.life, frozenset[str]())
                    yield run_id, Told(record, What.ALIVE, sources)
            case "delete" if unknown or (answer and answer.done):
                yield run_id, Told(record, What.DEATH)
            case "read_messages" | "read_events" if record.outcome is Outcome.REFUSED:
                yield run_id, Told(record, What.ALIVE)
            case _ if answer is None:
                return
            case "fork":
                yield run_id, Told(record, What.ALIVE if answer.found else What.GONE)
                yield from self._standing(record)
            case _ if answer.found:
                life = self._life_of.get(id(record))
                lives = frozenset({life.token} if life else ())
                yield run_id, Told(record, What.ALIVE, lives)
            case _:
                yield run_id, Told(record, What.GONE)

    def _standing(self, record: Record) -> Iterator[tuple[str, Told]]:
        """What a fork that made nothing says of the run at the new id."""
        answer, new_id = record.answer, record.sent.new_run_id
        if answer is None or (not answer.found and not answer.parent_id):
            return  # a run that was created, or none
        shown = answer.parent_id, answer.fork_point
        lives = frozenset(
            life.token for life in self._lives.get(new_id, ()) if lineage(life) in (shown, None)
        )
        if not lives:
            self._note(lambda: _raise("fork", "no run of this lineage was made there", record))
        yield new_id, Told(record, What.ALIVE, lives)


def _raise(kind: str, text: str, record: Record) -> None:
    raise HistoryFaultError(kind, text, record)


def _examine(story: Story, forks: Forks) -> None:
    """Raises HistoryFaultError for the first fault of a life's logs."""
    story.check_sends()
    lost = story.missing()
    if lost:
        raise HistoryFaultError("lost", "what was acknowledged is not there", *lost[:3])
    made = forks.made.get(story.life.token, ())
    line = story.line(states_told(made))
    late = sweep([*claims(story, line), *claims_on_source(made, line)])
    if late is not None:
        raise HistoryFaultError(
            "stale",
            f"{story.life.run_id} had reached {late.reached} (messages and events) by the first of "
            "these, and the second, called later, found or left less",
            late.before,
            late.claim.record,
        )


# How much there was to see


def _answered(records: Iterable[Record]) -> int:
    """The operations answered that were called while all workers were at work."""
    spans: dict[str, tuple[int, int]] = {}
    at_work = [record for record in records if record.worker != LAST_LOOK]
    for record in at_work:
        first, last = spans.get(record.worker, (record.called, record.called))
        spans[record.worker] = min(first, record.called), max(last, record.called)
    begin = max((first for first, _ in spans.values()), default=0)
    end = min((last for _, last in spans.values()), default=0)
    return sum(begin <= one.called <= end for one in at_work if one.answer is not None)


def _overlapping(records: Iterable[Record]) -> int:
    """The operations that were under way together with another one on the same run."""
    by_run: dict[str, list[Record]] = {}
    for record in records:
        if record.answer is not None:
            by_run.setdefault(record.run_id, []).append(record)
    count = 0
    for calls in by_run.values():
        calls.sort(key=lambda call: call.called)
        latest, among = 0, False
        for call, following in zip(calls, [*calls[1:], None], strict=True):
            latest_before, latest = latest, max(latest, call.returned)
            meets_next = following is not None and following.called < call.returned
            among = call.called < latest_before or meets_next
            count += among
    return count
