"""The checker of histories against trying every order: both always say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from conformance_tests.histories.checking import check
from conformance_tests.histories.lives import Told, What, explain
from conformance_tests.histories.recording import FOREVER, Outcome, Record, Sent
from tests.tale import append, call, create, fork, get, load, tail, tail_events

State = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Move:
    """A call with the state of the logs that its answer implies, before it and after it."""

    record: Record
    messages: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    to: tuple[int, int] | None = None
    shows: str = ""

    def applied(self, state: State, seen: State) -> State | None:
        """The state after it; None where it cannot have been answered so in ``state``."""
        if not self.shows:
            after = state[0] + self.messages, state[1] + self.events
            told = self.to in (None, (len(after[0]), len(after[1])))
            return after if told else None
        same = {
            "both": state == seen,
            "messages": state[0] == seen[0],
            "events": state[1] == seen[1],
        }
        return state if same[self.shows] else None


def _in_some_order(moves: Sequence[tuple[Move, State]], state: State, end: State) -> bool:
    """Whether an order that real time allows explains all moves and ends so."""
    if not moves:
        return state == end
    first_return = min(move.record.returned for move, _ in moves)
    for index, (move, seen) in enumerate(moves):
        if move.record.called > first_return:
            continue
        after = move.applied(state, seen)
        if after is not None and _in_some_order([*moves[:index], *moves[index + 1 :]], after, end):
            return True
    return False


def _moves(random: Random) -> tuple[list[tuple[Move, State]], list[Record], State]:
    """Calls answered in an order that real time may or may not allow, records besides, the end."""
    state: State = ((), ())
    moves: list[tuple[Move, State]] = []
    besides: list[Record] = []
    now = 2
    for number in range(random.randint(3, 7)):
        # Most calls come in the order of their effects; how far they reach is random.
        called = max(2, now + random.randint(-9, 9))
        span = called, called + random.randint(0, 6)
        now += random.randint(1, 4)
        kind = random.choice(["append"] * 4 + ["load", "get", "tail", "tail_events", "fork"])
        if kind == "append":
            unknown = random.random() < 0.2
            sizes = [(1, 0), (2, 0), (1, 2)] if unknown else [(1, 0), (2, 0), (0, 1), (1, 2)]
            size = random.choice(sizes)
            batch = f"b{number}"
            messages = tuple(f"{batch}/{n}" for n in range(size[0]))
            events = tuple(f"{batch}/{n}" for n in range(size[1]))
            after = state[0] + messages, state[1] + events
            to = len(after[0]), len(after[1])
            outcome = Outcome.UNKNOWN if unknown else Outcome.OK
            record = append(span, batch, to, size, outcome=outcome)
            if unknown and random.random() < 0.3:
                besides.append(record)  # it never took effect
                continue
            moves.append((Move(record, messages, events, None if unknown else to), state))
            state = after
            continue
        said, heard = state
        counts = len(said), len(heard)
        shows = {"tail": "messages", "tail_events": "events"}.get(kind, "both")
        match kind:
            case "load":
                record = load(span, said, heard)
            case "get":
                record = get(span, counts)
            case "tail":
                record = tail(span, 0, said[:7], counts[0])
            case "tail_events":
                record = tail_events(span, 0, heard[:7], counts[1])
            case _:
                life, new = f"F{number}", f"f{number}"
                record = fork(span, counts[0], life=life, new=new)
                looked = (900, 901)
                besides.append(
                    load(looked, *state, life=life, run=new, parent_id="r", fork_point=counts[0])
                )
        moves.append((Move(record, shows=shows), state))
    return moves, besides, state


@pytest.mark.parametrize("seed", range(3))
def test_the_verdict_on_a_log_is_that_of_trying_every_order(seed: int) -> None:
    random = Random(seed)
    sound = 0
    for _ in range(400):
        moves, besides, end = _moves(random)
        records = [create((0, 1)), *(move.record for move, _ in moves), *besides]
        faults = check([*records, load((900, 901), *end)]).faults
        explained = _in_some_order(moves, ((), ()), end)
        assert explained == (not faults), "\n".join(map(str, [*records, *faults]))
        sound += explained
    assert 60 < sound < 340, f"{sound} of the histories were sound: that compares little"


def _told(random: Random) -> list[Told]:
    told: list[Told] = []
    for number in range(random.randint(2, 7)):
        called = random.randint(0, 20)
        kind = random.choice(["create", "create", "delete", "delete", "get", "gone"])
        unknown = kind in ("create", "delete") and random.random() < 0.2
        returned = FOREVER if unknown else called + random.randint(0, 8)
        record = call(kind, (called, returned), "r", Sent())
        lives = frozenset({f"L{number}"})
        seen = frozenset(random.sample([f"L{n}" for n in range(number + 1)], 1))
        what = {
            "create": random.choice([What.BIRTH, What.BIRTH, What.ALIVE]),
            "delete": random.choice([What.DEATH, What.DEATH, What.GONE]),
            "get": What.ALIVE,
            "gone": What.GONE,
        }[kind]
        if unknown:
            what = What.BIRTH if kind == "create" else What.DEATH
        if what is What.ALIVE and random.random() < 0.6:
            lives = seen if kind == "get" else frozenset[str]()
        elif what is not What.BIRTH:
            lives = frozenset[str]()
        told.append(Told(record, what, lives))
    return told


def _lives_in_some_order(told: Sequence[Told], life: str) -> bool:
    due = [one for one in told if one.record.returned < FOREVER]
    if not due:
        return True
    first_return = min(one.record.returned for one in due)
    for index, one in enumerate(told):
        if one.record.called > first_return:
            continue
        after = one.after(life) if one.changes else (life if one.fits(life) else None)
        if after is not None and _lives_in_some_order([*told[:index], *told[index + 1 :]], after):
            return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_the_verdict_on_births_and_deaths_is_that_of_trying_every_order(seed: int) -> None:
    random = Random(seed)
    sound = 0
    for _ in range(400):
        told = _told(random)
        explained = _lives_in_some_order(told, "")
        fault = explain(told)
        assert explained == (fault is None), "\n".join(f"{one.what} {one}" for one in told)
        sound += explained
    assert 60 < sound < 340, f"{sound} of the histories were sound: that compares little"
