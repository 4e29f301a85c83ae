"""What each worker sends: a plan that a seed decides, whatever is answered.

Work goes on in rounds of about a thousand operations. Each round has runs of its own, so that logs
stay short enough to be read whole and no run has more keyed batches than every store remembers:

- *hot* runs, which all workers create, append to and read at once, and nobody deletes;
- *forks*, each made by several workers from several sources, then appended to and forked again;
- *lives*, ids that are created, forked to, appended to and deleted over and over.

Nothing is forked from a life to anything but a fork, and nothing from a fork to a life: so no run
inherits what was once sent to its own id.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

HOT_RUNS = 3
LIVES = 4
SOURCES_PER_FORK = 5
"""Each worker goes on to the next new id after so many steps; with its peers it races for each."""
ROUND = 960
LARGEST_BATCH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to send. What depends on answers, such as an expected length, is the worker's.

    ``turns`` is how many times others get a turn before. ``expecting`` says of which log the worker
    expects the length that it saw last: "own", "other" or "both"; with ``looks`` it looks just
    before. After ``cancel_after`` seconds
    the call is cancelled.
    """

    operation: str
    run_id: str
    client: int
    turns: int
    new_run_id: str = ""
    at_message: int = 0
    messages: int = 0
    events: int = 0
    keyed: bool = False
    expecting: str = ""
    looks: bool = False
    newest: int | None = None
    cancel_after: float | None = None


Mix = Mapping[str, int]
"""How often each operation comes up, in parts of their sum."""

MIXES: Mapping[str, Mix] = {
    "everything": {
        "append": 29, "append_twice": 7, "append_again": 3, "append_events": 7, "load": 9,
        "tail": 12, "tail_events": 3, "get": 8, "fork": 10, "update": 4, "create": 4, "delete": 4,
    },
    "appends": {
        "append": 40, "append_twice": 12, "append_again": 5, "append_events": 12, "load": 8,
        "tail": 13, "tail_events": 5, "get": 5,
    },
    "forks": {"append": 32, "append_events": 8, "load": 15, "tail": 10, "get": 5, "fork": 30},
    "lives": {
        "append": 28, "append_events": 10, "load": 8, "tail": 8, "get": 10, "fork": 5,
        "update": 3, "create": 15, "delete": 13,
    },
}  # fmt: skip

PLACES: Mapping[str, tuple[int, int, int]] = {
    "everything": (55, 25, 20),
    "appends": (100, 0, 0),
    "forks": (50, 50, 0),
    "lives": (10, 0, 90),
}
"""How often a hot run, a fork and a life is chosen."""

CANCELLABLE = frozenset({"append", "fork", "create", "delete"})


def plan(
    seed: int, worker: int, workers: int, prefix: str, mix: str = "everything"
) -> Iterator[Step]:
    """The steps of one of ``workers`` workers, without end. ``prefix`` begins all run ids."""
    random = Random(f"{seed}/{worker}/{mix}")
    length = max(8, ROUND // workers)
    operations, weights = list(MIXES[mix]), list(MIXES[mix].values())
    kinds, shares = ("hot", "fork", "life"), PLACES[mix]
    number = 0
    while True:
        round_, step = divmod(number, length)
        newest_fork = step // SOURCES_PER_FORK
        number += 1

        def run(kind: str, fork: int = newest_fork, round_: int = round_) -> str:
            which = {"hot": HOT_RUNS, "life": LIVES}.get(kind)
            return f"{prefix}-{round_}-{kind}-{fork if which is None else random.randrange(which)}"

        def forks_source(into: str, newest: int = newest_fork) -> str:
            if into == "life":
                return run("hot")
            kind = random.choices(kinds, shares)[0]
            return run(kind, max(0, newest - random.randrange(3)))

        operation = random.choices(operations, weights)[0] if step else "create"
        kind = random.choices(kinds, shares)[0]
        new_run_id = ""
        if operation == "create":
            run_id = run("life" if step else "hot")
        elif operation == "delete":
            run_id = run("life")
        elif operation == "fork":
            into = "life" if shares[2] and random.random() < 0.25 else "fork"
            run_id, new_run_id = forks_source(into), run(into)
        else:
            run_id = run(kind, max(0, newest_fork - random.randrange(3)))
        if operation in ("append_twice", "append_again") and kind == "life":
            operation = "append"  # sent to the next life too, it would rightly be applied twice
        messages, events = _sizes(random, operation)
        reborn = operation in ("create", "fork") and "-life-" in (new_run_id or run_id)
        cancelled = operation in CANCELLABLE and random.random() < (0.01 if reborn else 0.06)
        yield Step(
            operation=operation,
            run_id=run_id,
            client=random.randrange(2),
            turns=random.choice((0, 0, 0, 1, 1, 3)),
            new_run_id=new_run_id,
            at_message=random.choice((0, 0, -1, random.randint(1, 40), random.randint(1, 10))),
            messages=messages,
            events=events,
            keyed=operation in ("append_twice", "append_again") or random.random() < 0.15,
            expecting=random.choice(("", "", "", "", "own", "own", "other", "both")),
            looks=random.random() < 0.6,
            newest=random.choice((None, 0, 3, 10, 10)),
            cancel_after=random.choice((0.0, 0.0, 0.0005, 0.002, 0.005)) if cancelled else None,
        )


def _sizes(random: Random, operation: str) -> tuple[int, int]:
    """How many messages and events a batch has. One with neither is not sent."""
    size = random.choice((1, 1, 1, 2, 3, LARGEST_BATCH))
    if operation == "append_events" or (operation == "append_twice" and random.random() < 0.3):
        return 0, size
    return size, random.choice((0, 0, 1, 2, 3))
