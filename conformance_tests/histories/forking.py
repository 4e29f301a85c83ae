"""Forks: which life each was made of, and when, as its content and the source's tell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance_tests.histories.lifetimes import Life
from conformance_tests.histories.logs import HistoryFaultError, Line, Log
from conformance_tests.histories.placing import Story
from conformance_tests.histories.recording import Record
from conformance_tests.histories.sweeping import END, Claim


@dataclass(slots=True)
class Forks:
    """``made`` holds, by token of the source, the lives forked from it where that is certain;
    ``sources``, by token of the fork, the lives that it can have been made of."""

    made: dict[str, list[Story]] = field(default_factory=dict[str, list[Story]])
    sources: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    faults: list[HistoryFaultError] = field(default_factory=list[HistoryFaultError])


def trace(stories: Mapping[str, Story], lives: Mapping[str, Sequence[Life]]) -> Forks:
    """Find the source of each fork among the lives of the id that it was made of."""
    forks = Forks()
    for token, story in stories.items():
        birth = story.life.birth
        if birth.operation != "fork":
            continue
        possible = [life for life in lives.get(birth.run_id, ()) if life.may_have(birth)]
        told = [stories[life.token] for life in possible if life.token in stories]
        if len(told) < len(possible):
            continue  # that life has a fault of its own
        if not told:
            if birth.answer is not None:
                forks.faults.append(HistoryFaultError("fork", "its source was not there", birth))
            continue
        partings = {source.life.token: _parting(story, source) for source in told}
        fitting = [source for source in told if not partings[source.life.token]]
        forks.sources[token] = frozenset(source.life.token for source in fitting)
        if not fitting:
            text = f"it holds no prefix of its source: {next(iter(partings.values()))}"
            forks.faults.append(HistoryFaultError("fork", text, birth))
        elif len(fitting) == 1:
            forks.made.setdefault(fitting[0].life.token, []).append(story)
    return forks


def _parting(fork: Story, source: Story) -> str:
    """Where a fork differs from a source in what it took over; empty where it does not."""
    mine, theirs = fork.life, source.life
    return _differs(mine.messages, theirs.messages, fork.fork_point) or _differs(
        mine.events, theirs.events, fork.inherited_events or 0
    )


def _differs(log: Log, source: Log, count: int) -> str:
    for position in range(count):
        mine, theirs = log.at(position), source.at(position)
        if mine is not None and theirs is not None and mine != theirs:
            return f"{log.name} {position} is {mine}, and {theirs} in the source"
    return ""


def states_told(forks: Iterable[Story]) -> Iterator[tuple[tuple[int, int], Record]]:
    """The states of a source in which forks that took all of it were made."""
    for fork in forks:
        state = _state(fork)
        if state is not None:
            yield state, fork.life.birth


def _state(fork: Story) -> tuple[int, int] | None:
    """The lengths of the source at the fork, where the fork tells; None where it does not."""
    at, taken, events = fork.life.birth.sent.at_message, fork.fork_point, fork.inherited_events
    if events is None or (0 < at == taken and events == 0):  # then it may have taken a part
        return None
    return taken, events


def claims_on_source(forks: Iterable[Story], line: Line) -> Iterator[Claim]:
    """Where on the line of its source each fork can have been made."""
    for fork in forks:
        birth, taken = fork.life.birth, fork.fork_point
        state, at = _state(fork), birth.sent.at_message
        if 0 < at < taken:
            raise HistoryFaultError("fork", f"it took {taken} messages instead of {at}", birth)
        if state is not None:
            yield Claim(birth, [(sum(state), sum(state))])
        elif not 0 < at == taken:
            yield Claim(birth, [line.with_messages(taken)])
        elif fork.inherited_events is None:
            yield Claim(birth, [(line.with_messages(taken)[0], END)])
        else:
            whole = [(taken, taken)] if line.has((taken, 0)) else []
            yield Claim(birth, [*whole, (line.past_messages(taken), END)])


def check_lineage(life: Life) -> None:
    """Every header of a life names the run that it was forked from, if it was."""
    birth = life.birth
    parent = birth.run_id if birth.operation == "fork" else ""
    for call in (birth, *life.calls):
        answer = call.answer
        shows = call.operation in ("get", "load") or (call is birth and call.operation == "fork")
        if shows and answer is not None and answer.parent_id != parent:
            raise HistoryFaultError("fork", "its parent is another run", birth, call)


def lineage(life: Life) -> tuple[str, int] | None:
    """The parent and the fork point of a life; None where nobody was told the fork point."""
    if life.birth.operation != "fork":
        return "", 0
    for call in (life.birth, *life.calls):
        if call.answer is not None and (call is life.birth or call.operation in ("get", "load")):
            return life.birth.run_id, call.answer.fork_point
    return None
