"""How a run id is claimed where the id and the run's data lie in different slots of a cluster: a
model of it, explored whole.

The id ``F`` has its home in one bucket, which holds its claim: nothing, or the place of a run, a
bucket and a token that no other run ever bears. The run's data lies in the bucket of its family,
under the token. A script is one step on one bucket; between any two steps of a caller others take
theirs, and a caller may stop for good before any of its steps.

A fork writes its data first, where nobody looks for it, and then claims: the claim is the birth.
A delete removes the data and then the claim: the removal of the data is the death. A claim whose
data is gone is a left-over, which whoever meets it may remove; data without a claim is another,
which sweep removes once no forker can be about to claim it. Nothing is ever pending.

What is explored is compared, step by step, with one map of one id (``State.truth``): births and
deaths happen there at those two steps, and each answer must be true of some moment of its call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

HOME, FAMILY = "home", "family"

SOURCE = "source"
"""The run that forks are made of; it lies in the bucket of the family."""


class Place(NamedTuple):
    """Where a run's data lies."""

    bucket: str
    token: str


class Data(NamedTuple):
    """A run: what it took from the source, and how many appends it holds."""

    place: Place
    taken: int
    appended: int = 0


class Caller(NamedTuple):
    """One call under way. ``step`` is where it stands, "" when it has answered; ``had`` holds what
    the id was at the moments of the call so far: None, or a place."""

    number: int
    kind: str
    step: str = "begin"
    place: Place | None = None
    answer: str = ""
    had: frozenset[Place | None] = frozenset()
    tries: int = 0


@dataclass(frozen=True)
class State:
    """All buckets, all callers, and what the map of one id would hold now."""

    callers: tuple[Caller, ...]
    claim: Place | None = None
    data: frozenset[Data] = frozenset()
    source: int | None = 1
    users: frozenset[str] = frozenset({SOURCE})
    truth: Place | None = None
    appended: int = 0

    def find(self, place: Place | None) -> Data | None:
        return next((one for one in self.data if one.place == place), None)


class Wrong(Exception):
    """An answer, or a state, that the contract does not allow; the message has the steps."""


Outcome = tuple[State, Caller]
Step = Callable[[State, Caller], Outcome]


class Protocol:
    """The scripts, and what each caller does with their answers.

    The flags are mistakes that somebody could make; the exploration has to find each.
    """

    def __init__(self, **mistakes: bool) -> None:
        known = {
            "claims_first", "removes_claim_first", "ignores_tokens", "sweeps_early",
            "trusts_claims", "keeps_users",
        }  # fmt: skip
        assert mistakes.keys() <= known
        self._made = {name for name, made in mistakes.items() if made}

    def makes(self, mistake: str) -> bool:
        return mistake in self._made

    def next(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        """Each step that this caller can take, or that it stops for good."""
        caller = state.callers[number]
        if not caller.step:
            return
        step: Step = getattr(self, f"_{caller.kind}_{caller.step}")
        for name, taken in ((caller.step, step), ("stop", _stopped)):
            after, now = taken(state, caller)
            callers = (*state.callers[:number], now, *state.callers[number + 1 :])
            seen = tuple(
                one._replace(had=one.had | {after.truth}) if one.step else one for one in callers
            )
            yield f"{number} {caller.kind} {name}", replace(after, callers=seen)

    # Scripts on the bucket of the family

    def _written(self, state: State, place: Place) -> State | None:
        """A fork's data, with its share in the source's log; None where the source is gone."""
        if state.source is None:
            return None
        data = state.data | {Data(place, state.source)}
        return replace(state, data=data, users=state.users | {place.token})

    def _removed(self, state: State, place: Place) -> tuple[State, bool]:
        """Without the data there, and its share given back; whether it was there."""
        found = state.find(place)
        if found is None:
            return state, False
        users = state.users if self.makes("keeps_users") else state.users - {place.token}
        truth = None if state.truth == place else state.truth
        return replace(state, data=state.data - {found}, users=users, truth=truth), True

    def _appended(self, state: State, place: Place) -> State | None:
        """One entry more, where the token is still there; else None, which says: look again."""
        found = state.find(place)
        if found is None and self.makes("ignores_tokens"):
            found = next((one for one in state.data if one.place.bucket == place.bucket), None)
        if found is None:
            return None
        if state.truth != found.place:
            raise Wrong(f"an append to {found.place.token} was taken, which nobody may see")
        data = state.data - {found} | {found._replace(appended=found.appended + 1)}
        return replace(state, data=data, appended=state.appended + 1)

    # Scripts on the home bucket

    def _claimed(self, state: State, place: Place) -> State | None:
        """The id's claim, where it is free; else None."""
        if state.claim is not None:
            return None
        if state.truth is not None:
            raise Wrong(f"{place.token} was born while {state.truth.token} lived")
        return replace(state, claim=place, truth=place)

    def _unclaimed(self, state: State, place: Place) -> State:
        """Without this very claim."""
        return replace(state, claim=None) if state.claim == place else state

    # A fork to F: looks whether the id is free, writes, claims, and cleans up if it lost

    def _fork_begin(self, state: State, caller: Caller) -> Outcome:
        token = f"{caller.kind} {caller.number}.{caller.tries}"
        mine = Place(FAMILY, token)
        if state.claim is not None:
            return state, caller._replace(step="look", place=state.claim)
        if self.makes("claims_first"):
            return self._fork_claim(state, caller._replace(place=mine))
        return state, caller._replace(step="write", place=mine)

    def _fork_write(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        after = self._written(state, caller.place)
        if after is None:
            return state, _answered(caller, "no source")
        if self.makes("claims_first"):
            return after, _answered(caller, "created")
        return after, caller._replace(step="claim")

    def _fork_claim(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        after = self._claimed(state, caller.place)
        if after is None:
            return state, caller._replace(step="clean")
        if self.makes("claims_first"):
            return after, caller._replace(step="write")
        return after, _answered(caller, "created")

    def _fork_clean(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        after, _ = self._removed(state, caller.place)
        return after, _again(caller)

    def _fork_look(self, state: State, caller: Caller) -> Outcome:
        """Whether the run that the claim names is there; its lineage is the answer."""
        if state.find(caller.place) or self.makes("trusts_claims"):
            return state, _answered(caller, "exists")
        return state, caller._replace(step="unclaim")

    def _fork_unclaim(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        return self._unclaimed(state, caller.place), _again(caller)

    # A create of F: claim and data in one script, as both are at home

    def _create_begin(self, state: State, caller: Caller) -> Outcome:
        place = Place(HOME, f"{caller.kind} {caller.number}.{caller.tries}")
        after = self._claimed(state, place)
        if after is None:
            return state, caller._replace(step="look", place=state.claim)
        return replace(after, data=after.data | {Data(place, 0)}), _answered(caller, "created")

    _create_look, _create_unclaim = _fork_look, _fork_unclaim

    # A read: the claim, then the data

    def _read_begin(self, state: State, caller: Caller) -> Outcome:
        if state.claim is None:
            return state, _answered(caller, "none")
        return state, caller._replace(step="data", place=state.claim)

    def _read_data(self, state: State, caller: Caller) -> Outcome:
        found = state.find(caller.place)
        if found is not None:
            return _shown(state, found), _answered(caller, "found")
        if self.makes("trusts_claims"):
            raise Wrong("a run without data was read")
        return state, caller._replace(step="again")

    def _read_again(self, state: State, caller: Caller) -> Outcome:
        """Gone, unless another run was claimed meanwhile."""
        if state.claim in (None, caller.place):
            return state, _answered(caller, "none")
        return state, _again(caller)

    # A listing: the index of the family's bucket names data, the home bucket says whether it counts

    def _list_begin(self, state: State, caller: Caller) -> Outcome:
        listed = sorted(one.place for one in state.data)
        if not listed:
            return state, _answered(caller, "none listed")
        return state, caller._replace(step="verify", place=listed[-1])

    def _list_verify(self, state: State, caller: Caller) -> Outcome:
        shown = state.claim == caller.place
        return state, _answered(caller, "listed" if shown else "none listed")

    # An append by the place that was found before, and may be a long time ago

    def _append_begin(self, state: State, caller: Caller) -> Outcome:
        if state.claim is None:
            return state, _answered(caller, "none")
        return state, caller._replace(step="data", place=state.claim)

    def _append_data(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        after = self._appended(state, caller.place)
        if after is not None:
            return after, _answered(caller, "appended")
        return state, caller._replace(step="again")

    _append_again = _read_again

    # A delete of F: the data, then the claim

    def _delete_begin(self, state: State, caller: Caller) -> Outcome:
        if state.claim is None:
            return state, _answered(caller, "none")
        if self.makes("removes_claim_first"):
            return replace(state, claim=None), caller._replace(step="data", place=state.claim)
        return state, caller._replace(step="data", place=state.claim)

    def _delete_data(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        after, there = self._removed(state, caller.place)
        if self.makes("removes_claim_first"):
            return after, _answered(caller, "deleted" if there else "none")
        return after, caller._replace(step="claim" if there else "again")

    def _delete_claim(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        return self._unclaimed(state, caller.place), _answered(caller, "deleted")

    _delete_again = _read_again

    # The source: grows, or is deleted, in one script

    def _grow_begin(self, state: State, caller: Caller) -> Outcome:
        grown = None if state.source is None else state.source + 1
        return replace(state, source=grown), _answered(caller, "grown")

    def _forget_begin(self, state: State, caller: Caller) -> Outcome:
        users = state.users - {SOURCE}
        return replace(state, source=None, users=users), _answered(caller, "forgotten")

    # Sweep: data that no claim names. It waits until no forker can be about to claim it, which in
    # the store is a matter of time: a claim says when its fork began, and the home refuses it late.

    def _sweep_begin(self, state: State, caller: Caller) -> Outcome:
        about_to = {one.place for one in state.callers if one.kind == "fork" and one.step}
        for one in sorted(state.data):
            waits = one.place in about_to and not self.makes("sweeps_early")
            if one.place.bucket == FAMILY and one.place != state.claim and not waits:
                return state, caller._replace(step="remove", place=one.place)
        return state, _answered(caller, "swept")

    def _sweep_remove(self, state: State, caller: Caller) -> Outcome:
        assert caller.place
        if state.truth == caller.place:
            raise Wrong(f"sweep removes {caller.place.token}, which lives")
        after, _ = self._removed(state, caller.place)
        return after, _answered(caller, "swept")


def _answered(caller: Caller, answer: str) -> Caller:
    return caller._replace(step="", answer=answer)


def _stopped(state: State, caller: Caller) -> Outcome:
    return state, _answered(caller, "stopped")


MOST_TRIES = 2


def _again(caller: Caller) -> Caller:
    if caller.tries == MOST_TRIES:
        return _answered(caller, "gave up")
    return caller._replace(step="begin", place=None, tries=caller.tries + 1)


def _shown(state: State, found: Data) -> State:
    if state.truth != found.place:
        raise Wrong(f"{found.place.token} was read, which is not there")
    return state
