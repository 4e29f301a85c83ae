"""Every order of the steps of the model of claims, and what must hold in each state."""

from collections import deque
from collections.abc import Sequence

from tests.claim_model import FAMILY, SOURCE, Caller, Protocol, State, Wrong


def check(state: State) -> None:
    """Raises Wrong for a state, or an answer just given, that must not be."""
    if state.truth is not None and state.find(state.truth) is None:
        raise Wrong(f"{state.truth.token} lives and has no data")
    shares = {one.place.token for one in state.data if one.place.bucket == FAMILY}
    if state.source is not None:
        shares.add(SOURCE)
    if set(state.users) != shares:
        raise Wrong(f"the source's log has the users {sorted(state.users)}")
    for caller in state.callers:
        alive = {place for place in caller.had if place is not None}
        lacks = {
            "none": None not in caller.had,
            "exists": not alive,
            "found": not alive,
            "listed": not alive,
            "no source": state.source is not None,
        }
        if lacks.get(caller.answer):
            raise Wrong(f"{caller.kind} answered {caller.answer!r}, which was never true")
    appends = sum(caller.answer == "appended" for caller in state.callers)
    if appends > state.appended:
        raise Wrong("an append was answered and not written")
    if not any(caller.step for caller in state.callers):
        _check_end(state)


def _check_end(state: State) -> None:
    """When all have answered, each birth was told to one caller, and each death to one at most."""
    answers = [caller.answer for caller in state.callers]
    if "stopped" in answers:
        return  # what a caller that stopped was to be told, nobody knows
    births = answers.count("created")
    deaths = answers.count("deleted")
    if births - deaths != (state.truth is not None):
        raise Wrong(f"{births} were told created and {deaths} deleted, and {state.truth} is there")
    orphans = {one.place for one in state.data} - {state.claim}
    if orphans and "gave up" not in answers:
        raise Wrong(f"left over: {sorted(place.token for place in orphans)}")
    if state.claim is not None and state.find(state.claim) is None:
        raise Wrong("a claim was left over")


def explore(kinds: Sequence[str], protocol: Protocol | None = None) -> int:
    """Every order of the steps of these calls, and every way to stop; how many states there are.

    Raises Wrong, with the steps that led there.
    """
    protocol = protocol or Protocol()
    start = State(tuple(Caller(n, kind, had=frozenset({None})) for n, kind in enumerate(kinds)))
    came: dict[State, tuple[State | None, str]] = {start: (None, "")}
    front = deque([start])
    while front:
        state = front.popleft()
        try:
            check(state)
            following = [pair for n in range(len(kinds)) for pair in protocol.next(state, n)]
        except Wrong as wrong:
            raise Wrong(f"{wrong}: {_path(came, state)}") from None
        for name, after in following:
            if after not in came:
                came[after] = (state, name)
                front.append(after)
    return len(came)


def _path(came: dict[State, tuple[State | None, str]], state: State) -> str:
    names: list[str] = []
    at: State | None = state
    while at is not None:
        at, name = came[at]
        names.append(name)
    return ", ".join(reversed(names[:-1])) + "."
