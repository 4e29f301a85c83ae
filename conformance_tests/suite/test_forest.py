"""Families of forks: depth, deletions, and what they cost."""

import itertools
import random
from dataclasses import dataclass, field

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    assert_holds,
    deltas,
    fork,
    is_gone,
    load,
    start_run,
    sweep_all,
    turn,
)
from stores_core import Backend, Event, Message

RANGES = 64


@dataclass
class Line:
    """What a run should hold, as plain lists."""

    id: str
    messages: list[Message] = field(default_factory=list[Message])
    events: list[Event] = field(default_factory=list[Event])


async def descend(
    lab: Lab, generations: int, client: Backend | None = None, events: bool = False
) -> list[Line]:
    """A chain of runs, each forked from the one before after one message was added to that."""
    client = client or lab.backend
    line = Line(lab.new_id("root"))
    await client.runs.create_run(run_id=line.id)
    lines = [line]
    for n in range(generations):
        more, more_events = turn(1, first=n), deltas(1, first=n) if events else []
        wrote = await client.runs.append_messages(run_id=line.id, messages=more, events=more_events)
        assert wrote.message_count == n + 1
        line.messages, line.events = line.messages + more, line.events + more_events
        line = Line(await fork(lab, line.id, client=client), line.messages, line.events)
        lines.append(line)
    return lines


# Depth


@proves(
    "RUN-F11",
    needs=("runs",),
    thorough=True,
    look_at="how a run is read across the ranges of its ancestors",
)
async def test_every_generation_reads_as_a_plain_run(lab: Lab) -> None:
    lines = await descend(lab, 2 * RANGES + 10, events=True)
    for n, line in enumerate(lines):
        assert len(line.messages) == min(n + 1, len(lines) - 1)
    for line in lines[:: 9 if lab.quick else 3] + lines[RANGES - 2 : RANGES + 3]:
        run = await load(lab.reader, line.id)
        assert_same(list(run.messages), line.messages, f"messages of {line.id}")
        assert_same(list(run.events), line.events, f"events of {line.id}")
    await assert_holds(lab.reader, lines[-1].id, lines[-1].messages, lines[-1].events, page=1)


@pytest.mark.parametrize("generations", [1, 2, RANGES - 1, RANGES, RANGES + 1, 2 * RANGES + 1])
@proves(
    "RUN-F11",
    "RUN-F1",
    needs=("runs",),
    thorough=True,
    look_at="how a cut is found among many ranges",
)
async def test_a_deep_run_can_be_cut_anywhere(lab: Lab, generations: int) -> None:
    leaf = (await descend(lab, generations, events=True))[-1]
    cuts = {1, 2, generations // 2, generations - 2, generations - 1, generations}
    for cut in sorted(cut for cut in cuts if cut > 0):
        new_id = await fork(lab, leaf.id, cut)
        await lab.backend.runs.append_messages(run_id=new_id, messages=turn(2, "own"))
        whole = cut >= generations
        await assert_holds(
            lab.reader, new_id, leaf.messages[:cut] + turn(2, "own"), leaf.events if whole else []
        )
    await assert_holds(lab.reader, leaf.id, leaf.messages, leaf.events)


@proves(
    "RUN-F11", needs=("runs",), look_at="whether a fork without entries of its own costs a range"
)
async def test_forks_without_entries_of_their_own_may_be_as_deep(lab: Lab) -> None:
    root = run_id = await start_run(lab, turn(5), deltas(5))
    for _ in range(3 * RANGES):
        run_id = await fork(lab, run_id)
    await assert_holds(lab.reader, run_id, turn(5), deltas(5))
    await lab.backend.runs.append_messages(run_id=run_id, messages=turn(2, first=5))
    await assert_holds(lab.reader, run_id, turn(7), deltas(5))
    await assert_holds(lab.reader, root, turn(5), deltas(5))


@proves("RUN-F11", needs=("runs",), look_at="how a fork of nothing at all is kept")
async def test_forks_of_empty_runs_stay_empty(lab: Lab) -> None:
    run_id = await start_run(lab)
    for _ in range(RANGES + 6):
        run_id = await fork(lab, run_id)
    await assert_holds(lab.reader, run_id, [])
    await lab.backend.runs.append_messages(run_id=run_id, messages=turn(1), events=deltas(1))
    await assert_holds(lab.reader, run_id, turn(1), deltas(1))


@proves(
    "RUN-F11",
    "RUN-F1",
    needs=("runs",),
    thorough=True,
    look_at="how ranges that are cut to nothing are dropped",
)
async def test_each_generation_may_keep_less_than_the_one_before(lab: Lab) -> None:
    length = RANGES + 10
    run_id = (await descend(lab, length, events=True))[-1].id
    for kept in range(length - 1, 0, -1):
        run_id = await fork(lab, run_id, kept)
        if kept % 7 == 0 or kept < 4:
            await assert_holds(lab.reader, run_id, turn(kept))
    await lab.backend.runs.append_messages(run_id=run_id, messages=turn(3, "own"))
    await assert_holds(lab.reader, run_id, turn(1) + turn(3, "own"))


@proves("RUN-F11", needs=("runs",), look_at="whether a run may have many forks")
async def test_one_run_may_have_many_forks(lab: Lab) -> None:
    root = await start_run(lab, turn(4), deltas(4))
    count = 60 if lab.quick else 200
    children = [await fork(lab, root, n % 5) for n in range(count)]
    for child in children:
        await lab.backend.runs.append_messages(run_id=child, messages=turn(1, child))
    for n, child in enumerate(children):
        taken = n % 5 or 4
        events = deltas(4) if taken == 4 else []
        await assert_holds(lab.reader, child, turn(taken) + turn(1, child), events)
    await assert_holds(lab.reader, root, turn(4), deltas(4))


@proves(
    "RUN-F11",
    needs=("runs",),
    look_at="whether anything walks or nests once per generation",
    within=900,
)
async def test_ten_thousand_generations_read_as_plain_runs(lab: Lab) -> None:
    generations = 150 if lab.quick else 10_000
    runs = lab.backend.runs
    run_id = root = await start_run(lab)
    middle = ""
    for n in range(generations):
        await runs.append_messages(run_id=run_id, messages=turn(1, first=n))
        new_id = lab.new_id("fork")
        answer = await runs.fork_run(run_id=run_id, new_run_id=new_id)
        assert (answer.created, answer.fork_point) == (True, n + 1), f"{answer!r}"
        run_id = new_id
        if n + 1 == generations // 2:
            middle = run_id
    half = generations // 2 + 1
    await assert_holds(lab.reader, run_id, turn(generations), page=1_000)
    await assert_holds(lab.reader, middle, turn(half), page=1_000)
    await assert_holds(lab.reader, root, turn(1))
    newest = await lab.reader.runs.load_run(run_id=run_id, last_messages=3)
    assert newest.run is not None
    assert_same(list(newest.run.messages), turn(generations)[-3:], "the newest messages")


_KINDS = ("create", "fork", "fork", "append", "append", "append", "events", "delete")


@pytest.mark.parametrize("seed", range(8))
@proves("RUN-F11", "RUN-F6", "RUN-D2", needs=("runs",), look_at="the steps that the failure lists")
async def test_a_forest_grown_at_random_holds_what_plain_lists_hold(lab: Lab, seed: int) -> None:
    chance, runs = random.Random(seed), lab.backend.runs
    lines = [Line(await start_run(lab))]
    steps: list[str] = []
    for n in range(60 if lab.quick else 150):
        kind, line = chance.choice(_KINDS), chance.choice(lines)
        at, size = chance.randint(-1, len(line.messages) + 1), chance.randint(1, 4)
        steps.append(f"{kind} {line.id} at={at} size={size}")
        if kind == "create":
            lines.append(Line(await start_run(lab)))
        elif kind == "fork":
            whole = at <= 0 or at >= len(line.messages)
            child = Line(await fork(lab, line.id, at), line.messages, line.events)
            if not whole:
                child.messages, child.events = line.messages[:at], []
            lines.append(child)
        elif kind == "append":
            line.messages = line.messages + turn(size, f"{n}")
            await runs.append_messages(run_id=line.id, messages=turn(size, f"{n}"))
        elif kind == "events":
            line.events = line.events + deltas(size, f"{n}")
            await runs.append_events(run_id=line.id, events=deltas(size, f"{n}"))
        elif len(lines) > 1:
            lines.remove(line)
            assert (await runs.delete_run(run_id=line.id)).deleted, steps
    for line in lines:
        try:
            await assert_holds(lab.reader, line.id, line.messages, line.events, page=5)
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter {steps}") from error


# Deletion


async def raise_family(lab: Lab, client: Backend) -> list[Line]:
    """A root, its child by a part, the child's child by all, and another child of the root."""
    root = Line(await start_run(lab, turn(6), deltas(4), client=client), turn(6), deltas(4))
    child = await _born(lab, client, root, 4)
    leaf = await _born(lab, client, child, 0)
    other = await _born(lab, client, root, 0)
    return [root, child, leaf, other]


async def _born(lab: Lab, client: Backend, parent: Line, at_message: int) -> Line:
    """A fork with entries of its own."""
    new_id = await fork(lab, parent.id, at_message, client=client)
    messages = parent.messages[: at_message or None]
    events = parent.events if len(messages) == len(parent.messages) else []
    more, more_events = turn(3, new_id), deltas(2, new_id)
    await client.runs.append_messages(run_id=new_id, messages=more, events=more_events)
    return Line(new_id, messages + more, events + more_events)


_orders = {
    "-".join(("root", "child", "leaf", "other")[n] for n in order): order
    for order in itertools.permutations(range(4))
}


@pytest.mark.parametrize("order", _orders.values(), ids=_orders)
@proves("RUN-D2", needs=("runs",), look_at="what delete_run frees while others still refer to it")
async def test_a_family_survives_deletions_in_any_order(lab: Lab, order: tuple[int, ...]) -> None:
    family = await raise_family(lab, lab.backend)
    left = list(family)
    for n in order:
        assert (await lab.backend.runs.delete_run(run_id=family[n].id)).deleted
        left.remove(family[n])
        assert await is_gone(lab.reader, family[n].id)
        for line in left:
            await assert_holds(lab.reader, line.id, line.messages, line.events)


@pytest.mark.parametrize("order", _orders.values(), ids=_orders)
@proves("RUN-D2", needs=("runs", "admin", "tenant"), look_at="how sweep knows what is still in use")
async def test_a_family_survives_sweeps_between_deletions(lab: Lab, order: tuple[int, ...]) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    family = await raise_family(lab, client)
    left = list(family)
    for n in order:
        await client.runs.delete_run(run_id=family[n].id)
        left.remove(family[n])
        await sweep_all(client)
        for line in left:
            more = turn(1, "later")
            await client.runs.append_messages(run_id=line.id, messages=more)
            line.messages = line.messages + more
            await assert_holds(client, line.id, line.messages, line.events)
    assert (await client.admin.verify()).problems == ()


@proves(
    "RUN-D2",
    needs=("runs",),
    thorough=True,
    look_at="whether a chain is freed before its last run is",
)
async def test_the_last_of_a_long_chain_needs_none_of_its_ancestors(lab: Lab) -> None:
    *ancestors, leaf = await descend(lab, RANGES + 20, events=True)
    for n, line in enumerate(ancestors):
        assert (await lab.backend.runs.delete_run(run_id=line.id)).deleted
        if n % 20 == 0:
            await assert_holds(lab.reader, leaf.id, leaf.messages, leaf.events)
    await assert_holds(lab.reader, leaf.id, leaf.messages, leaf.events)
    new_id = await fork(lab, leaf.id, 3)
    await lab.backend.runs.delete_run(run_id=leaf.id)
    await assert_holds(lab.reader, new_id, leaf.messages[:3])


@proves(
    "RUN-D2",
    needs=("runs",),
    thorough=True,
    look_at="whether a chain can be taken down from its end",
)
async def test_a_long_chain_can_be_taken_down_from_its_end(lab: Lab) -> None:
    lines = await descend(lab, RANGES + 10, events=True)
    while len(lines) > 1:
        assert (await lab.backend.runs.delete_run(run_id=lines.pop().id)).deleted
        if len(lines) % 9 == 1:
            last = lines[-1]
            await assert_holds(lab.reader, last.id, last.messages, last.events)


@proves("RUN-D2", "RUN-D3", needs=("runs",), look_at="whether ids in use stand for one generation")
async def test_an_id_of_the_family_may_be_used_again(lab: Lab) -> None:
    root, child, leaf, other = await raise_family(lab, lab.backend)
    runs = lab.backend.runs
    await runs.delete_run(run_id=root.id)
    await runs.delete_run(run_id=child.id)
    answer = await runs.fork_run(run_id=leaf.id, new_run_id=root.id, at_message=5)
    assert answer.created
    assert answer.parent_id == leaf.id
    assert (await runs.create_run(run_id=child.id)).created
    await runs.append_messages(run_id=child.id, messages=turn(2, "anew"))
    await assert_holds(lab.reader, root.id, leaf.messages[:5])
    await assert_holds(lab.reader, child.id, turn(2, "anew"))
    for line in (leaf, other):
        await assert_holds(lab.reader, line.id, line.messages, line.events)
