"""One life of a run id, from the call that began it, and which calls can have belonged to it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance_tests.histories.logs import HistoryFaultError, Log, batch_of
from conformance_tests.histories.recording import FOREVER, Outcome, Record

Batches = Mapping[str, Sequence[Record]]
"""By name, the records of all the times that a batch was sent."""


@dataclass(eq=False, slots=True)
class Life:
    """What is known of one life. ``born_by`` is when it was certainly there, ``over_by`` when it
    was certainly gone."""

    run_id: str
    token: str
    birth: Record
    born_by: int = FOREVER
    over_by: int = FOREVER
    calls: list[Record] = field(default_factory=list[Record])
    messages: Log = field(default_factory=lambda: Log("message"))
    events: Log = field(default_factory=lambda: Log("event"))

    def may_have(self, record: Record) -> bool:
        """Whether a call was under way at a time when this life can have been there."""
        return record.returned > self.birth.called and record.called < self.over_by


def lives_of(records: Sequence[Record]) -> dict[str, list[Life]]:
    """By run id, the lives that were begun, or may have been. Raises HistoryFaultError."""
    lives: dict[str, Life] = {}
    for record in records:
        if record.operation not in ("create", "fork") or record.outcome in _NOTHING_DONE:
            continue
        if record.answer is None or record.answer.done:
            run_id = record.sent.new_run_id or record.run_id
            lives[record.sent.life] = Life(run_id, record.sent.life, record, record.returned)
    for record in records:
        token = _token(record)
        if token is None:
            continue
        life = lives.get(token)
        if life is None or life.run_id != record.run_id:
            raise HistoryFaultError(
                "life", "a run that nobody was told created, or of another id, was seen", record
            )
        life.born_by = min(life.born_by, record.returned)
    found: dict[str, list[Life]] = {}
    for life in lives.values():
        found.setdefault(life.run_id, []).append(life)
    deleted = {record.run_id for record in records if record.operation == "delete"}
    for run_id in found.keys() - deleted:
        # It had one life at most, so where one is certain no other may have been.
        certain = [life for life in found[run_id] if life.born_by < FOREVER]
        found[run_id] = certain or found[run_id]
    _set_ends(records, found)
    return found


_NOTHING_DONE = (Outcome.REFUSED, Outcome.FAILED)


def _token(record: Record) -> str | None:
    """The life whose header a call showed; None where it showed none."""
    answer = record.answer
    shows = record.operation in ("get", "load") and answer is not None and answer.found
    return answer.life if shows and answer is not None else None


def _set_ends(records: Sequence[Record], lives: Mapping[str, Sequence[Life]]) -> None:
    """A life is over by the time that another was born, a delete answered, or nothing found, by a
    call that began once it was certainly there."""
    ends: dict[str, list[tuple[int, int, str]]] = {}
    for record in records:
        answer = record.answer
        if answer is None:
            continue
        born = record.operation in ("create", "fork") and answer.done
        gone = record.operation not in ("create", "delete") and not answer.found
        if born:
            at = record.sent.new_run_id or record.run_id
            ends.setdefault(at, []).append((record.called, record.returned, record.sent.life))
        if gone or (record.operation == "delete" and not answer.conflict):
            ends.setdefault(record.run_id, []).append((record.called, record.returned, ""))
    for run_id, family in lives.items():
        if len(family) == 1:
            continue  # then there is nothing to tell apart
        for life in family:
            life.over_by = min(
                (
                    returned
                    for called, returned, token in ends.get(run_id, ())
                    if called > life.born_by and token != life.token
                ),
                default=FOREVER,
            )


def settle(records: Sequence[Record], lives: Mapping[str, Sequence[Life]]) -> list[Record]:
    """Enter each call into the life that it belonged to; those of which that cannot be told."""
    sends = Counter((record.run_id, name) for record in records for name in _sent(record))
    by_token = {life.token: life for family in lives.values() for life in family}
    unclear: list[Record] = []
    rest: list[Record] = []
    homes: dict[tuple[str, str], set[str]] = {}
    for record in records:
        token = _token(record)
        if token is None:
            rest.append(record)
            continue
        by_token[token].calls.append(record)
        for name in _named(record):
            homes.setdefault((record.run_id, name), set()).add(token)
    for record in rest:
        found = record.answer is None or record.answer.found
        if record.operation in ("create", "fork") or not found:
            continue
        family = lives.get(record.run_id, ())
        if len(family) > 1:
            family = [life for life in family if life.may_have(record)]
            # What was sent again may have met another life each time, and found room in both. And
            # what was sent to another run may have come along with more than one fork to this id.
            at_home = {
                token
                for name in _named(record)
                if sends[record.run_id, name] == 1
                for token in homes.get((record.run_id, name), ())
            }
            family = [life for life in family if life.token in at_home] or family
        if len(family) == 1:
            family[0].calls.append(record)
        else:
            unclear.append(record)
    return unclear


def _sent(record: Record) -> Iterator[str]:
    """The batch, or the value of a label, that a call sent."""
    if record.sent.batch:
        yield record.sent.batch
    if record.sent.label:
        yield f"{record.sent.label}={record.sent.value}"


def _named(record: Record) -> set[str]:
    """The batches, and the values of labels, that a call sent or showed."""
    named, answer = set(_sent(record)), record.answer
    if answer is not None:
        named |= {f"{label}={value}" for label, value in answer.labels.items()}
        for part in (answer.messages, answer.events):
            named |= {batch_of(entry)[0] for entry in (() if part is None else part[1])}
    return named
