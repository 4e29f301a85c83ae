"""What forks, listings and deletions cost, by counting bytes and entries looked at."""

from collections.abc import Awaitable, Callable

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import write
from conformance_tests.suite.spelled import Spelled, spell
from conformance_tests.suite.steps import (
    assert_holds,
    bytes_held,
    deltas,
    entries_read,
    fork,
    ids,
    side_by_side,
    start_run,
    sweep_all,
    turn,
    walk,
)
from conformance_tests.suite.test_tool_results import put, text_result
from stores_core import Backend, ListRunsRequest

KIB = 1024
WORDS = "w" * 200
"""Makes a message long enough for a copy of many to show among headers and pages."""


async def grow(client: Backend, run_id: str, count: int, first: int = 0) -> None:
    """Add ``count`` messages and as many events of some 250 bytes, 500 of each at a time."""
    for start in range(first, first + count, 500):
        size = min(500, first + count - start)
        await client.runs.append_messages(
            run_id=run_id,
            messages=turn(size, WORDS, start),
            events=deltas(size, WORDS, start),
        )


async def _added_by_forks(lab: Lab, client: Backend, run_id: str, at_message: int) -> int:
    """Bytes that 20 forks add."""
    before = await bytes_held(lab, client)
    for _ in range(20):
        await fork(lab, run_id, at_message, client=client)
    return await bytes_held(lab, client) - before


@proves("RUN-Q4", "RUN-L2", needs=("runs", "admin"), look_at="what is looked at and not counted")
async def test_what_is_looked_at_is_counted(lab: Lab) -> None:
    client = await lab.open()
    run_id = await start_run(lab, turn(50), deltas(20), client=client)
    before = await entries_read(lab, client)
    await client.runs.load_run(run_id=run_id)
    loaded = await entries_read(lab, client)
    assert loaded - before >= 70, "a load counts less than it gives"
    await client.runs.read_messages(run_id=run_id)
    assert await entries_read(lab, client) - loaded >= 50, "a page counts less than it gives"


@proves("RUN-Q4", "RUN-L2", needs=("runs", "admin"), look_at="what is counted and not looked at")
async def test_of_a_run_that_is_not_there_one_record_is_looked_at_at_most(lab: Lab) -> None:
    client = await lab.open()
    runs, absent = client.runs, lab.new_id("run")
    for look in (runs.get_run, runs.load_run, runs.read_messages, runs.read_events):
        before = await entries_read(lab, client)
        assert not (await look(run_id=absent)).found
        assert await entries_read(lab, client) - before <= 1


@proves("RUN-F12", needs=("runs", "admin", "tenant"), look_at="whether a fork copies its prefix")
async def test_a_fork_of_a_long_run_adds_no_more_bytes_than_that_of_a_short_one(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    length = 2_000 if lab.quick else 10_000
    short, long = await start_run(lab, client=client), await start_run(lab, client=client)
    await grow(client, short, 10)
    await grow(client, long, length)
    of_short = await _added_by_forks(lab, client, short, 0)
    for at_message in (0, length - 1, length // 2):
        of_long = await _added_by_forks(lab, client, long, at_message)
        assert of_long <= 2 * of_short + 64 * KIB, (
            f"20 forks at {at_message or length} of {length} messages add {of_long} bytes, "
            f"20 forks of 10 messages {of_short}"
        )


@proves("RUN-F12", needs=("runs", "admin", "tenant"), look_at="whether a fork reads its prefix")
async def test_a_fork_of_a_long_run_looks_at_no_more_entries(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    run_id = await start_run(lab, client=client)
    await grow(client, run_id, 2_000)
    before = await entries_read(lab, client)
    for at_message in (0, 1, 1_000, 1_999):
        await fork(lab, run_id, at_message, client=client)
    cost = await entries_read(lab, client) - before
    assert cost <= 400, f"4 forks of 2,000 messages looked at {cost} entries"


@proves(
    "RUN-F12",
    needs=("runs", "admin", "tenant"),
    thorough=True,
    look_at="whether a fork copies its ancestors",
)
async def test_a_late_generation_adds_no_more_bytes_than_an_early_one(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    generations, step = 400, 50
    run_id = await start_run(lab, client=client)
    held = [await bytes_held(lab, client)]
    for n in range(generations):
        await client.runs.append_messages(run_id=run_id, messages=turn(1, WORDS, n))
        run_id = await fork(lab, run_id, client=client)
        if (n + 1) % step == 0:
            held.append(await bytes_held(lab, client))
    early, late = held[1] - held[0], held[-1] - held[-2]
    assert late <= 4 * early + 256 * KIB, (
        f"generations 1 to {step} added {early} bytes, the last {step} of {generations} {late}"
    )


@proves(
    "RUN-F12",
    "RUN-L2",
    needs=("runs", "admin", "tenant"),
    thorough=True,
    look_at="what reading a deep run costs",
)
async def test_a_page_of_a_deep_run_costs_the_page(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    run_id = await start_run(lab, client=client)
    for n in range(200):
        await client.runs.append_messages(run_id=run_id, messages=turn(1, first=n))
        run_id = await fork(lab, run_id, client=client)
    await grow(client, run_id, 500, first=200)
    before = await entries_read(lab, client)
    await client.runs.load_run(run_id=run_id, last_messages=5)
    cost = await entries_read(lab, client) - before
    assert cost <= 200, f"the newest 5 of 700 messages were had by looking at {cost} entries"


# Bytes held


LARGE = "x" * 100_000


async def _many_labels(lab: Lab, client: Backend, run_id: str) -> None:
    for n in range(20):
        await start_run(lab, labels={f"label {n}": LARGE[:250]}, client=client)


async def _many_keys(lab: Lab, client: Backend, run_id: str) -> None:
    for n in range(20):
        await client.runs.append_messages(
            run_id=run_id, messages=turn(1), idempotency_key=f"{n}" + LARGE[:250]
        )


MEASURED: dict[str, tuple[str, int, Callable[[Lab, Backend, str], Awaitable[object]]]] = {
    "message": (
        "runs",
        len(LARGE),
        lambda _, client, run_id: client.runs.append_messages(
            run_id=run_id, messages=turn(1, LARGE)
        ),
    ),
    "event": (
        "runs",
        len(LARGE),
        lambda _, client, run_id: client.runs.append_events(run_id=run_id, events=deltas(1, LARGE)),
    ),
    "labels": ("runs", 20 * 250, _many_labels),
    "key": ("runs", 20 * 250, _many_keys),
    "note": ("memory", len(LARGE), lambda _, client, __: write(client, "space", "k", LARGE)),
    "metadata": (
        "memory",
        len(LARGE),
        lambda _, client, __: write(client, "space", "k", "", {"large": LARGE}),
    ),
    "result": (
        "tool_results",
        len(LARGE),
        lambda _, client, __: put(client, "r", text_result(LARGE)),
    ),
}
"""What is written, to which store, how many bytes that is at least, and how."""


@pytest.mark.parametrize("what", MEASURED)
@proves("RUN-F12", needs=("runs", "admin", "tenant"), look_at="what admin.measure does not count")
async def test_what_is_large_is_measured_wherever_it_lies(lab: Lab, what: str) -> None:
    store, size, write_it = MEASURED[what]
    client = await lab.open(tenant=lab.new_id("tenant"))
    if store not in client.offered:
        lab.not_applicable(f"the backend offers no `{store}`")
    run_id = await start_run(lab, client=client)
    before = await bytes_held(lab, client)
    await write_it(lab, client, run_id)
    held = await bytes_held(lab, client) - before
    assert held >= size, f"{what}: {held} bytes are measured of {size} and more"


@proves(
    "RUN-F12",
    needs=("runs", "memory", "embeddings", "admin", "tenant"),
    look_at="whether admin.measure counts vectors",
)
async def test_vectors_are_measured(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"), embedder=Spelled(4_000))
    before = await bytes_held(lab, client)
    for n in range(5):
        await write(client, "space", f"k{n}", spell(1, n))
    held = await bytes_held(lab, client) - before
    assert held >= 5 * 4_000 * 4, f"{held} bytes are measured of 5 vectors of 16,000"


# Storage after deletions


@proves("RUN-D2", needs=("runs", "admin", "tenant"), look_at="what sweep frees of a deleted run")
async def test_after_a_sweep_nothing_is_held_for_deleted_runs(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    empty = await bytes_held(lab, client)
    run_id = await start_run(lab, client=client)
    await grow(client, run_id, 1_000)
    child = await fork(lab, run_id, client=client)
    await grow(client, child, 200, first=1_000)
    full = await bytes_held(lab, client)
    assert full - empty >= 1_000 * len(WORDS), "the bytes of the messages are not measured"
    await client.runs.delete_run(run_id=run_id)
    await client.runs.delete_run(run_id=child)
    await sweep_all(client)
    left = await bytes_held(lab, client) - empty
    assert left <= (full - empty) // 20, f"{left} of {full - empty} bytes are held for nothing"


@proves(
    "RUN-D2",
    needs=("runs", "admin", "tenant"),
    look_at="whether sweep cuts a log that is shared in part",
)
async def test_after_a_sweep_a_fork_holds_only_the_prefix_that_it_shares(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    empty = await bytes_held(lab, client)
    run_id = await start_run(lab, client=client)
    await grow(client, run_id, 2_000)
    child = await fork(lab, run_id, 10, client=client)
    full = await bytes_held(lab, client) - empty
    await client.runs.delete_run(run_id=run_id)
    await sweep_all(client)
    left = await bytes_held(lab, client) - empty
    assert left <= full // 10, f"a fork of 10 of 2,000 messages holds {left} of {full} bytes"
    await assert_holds(client, child, turn(10, WORDS))
    await grow(client, child, 5, first=10)
    await assert_holds(client, child, turn(15, WORDS), deltas(5, WORDS, 10))


@proves(
    "RUN-D2",
    needs=("runs", "admin", "tenant"),
    thorough=True,
    look_at="whether sweep looks at who shares a prefix",
)
async def test_a_sweep_frees_nothing_that_a_run_still_needs(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    run_id = await start_run(lab, client=client)
    await grow(client, run_id, 300)
    forks = {n: await fork(lab, run_id, n, client=client) for n in (1, 150, 299, 300)}
    await client.runs.delete_run(run_id=run_id)
    for n in (300, 1, 299):
        for m, fork_id in forks.items():
            await assert_holds(
                client, fork_id, turn(m, WORDS), deltas(300, WORDS) if m == 300 else []
            )
        await client.runs.delete_run(run_id=forks.pop(n))
        await sweep_all(client)
    await assert_holds(client, forks[150], turn(150, WORDS))


# Listings


async def _cost_of_page(lab: Lab, client: Backend, request: ListRunsRequest) -> int:
    before = await entries_read(lab, client)
    await client.runs.list_runs(request)
    return await entries_read(lab, client) - before


@proves(
    "RUN-Q4",
    needs=("runs", "admin", "tenant"),
    thorough=True,
    look_at="whether a page sorts or reads all runs",
)
async def test_a_page_without_filters_looks_at_its_own_headers(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    await side_by_side(client.runs.create_run() for _ in range(300))
    for limit in (1, 10, 50):
        cost = await _cost_of_page(lab, client, ListRunsRequest(limit=limit))
        assert cost <= 2 * limit + 10, f"a page of {limit} of 300 runs looked at {cost} entries"
    first = await client.runs.list_runs(limit=200)
    late = ListRunsRequest(limit=10, cursor=first.next_cursor)
    cost = await _cost_of_page(lab, client, late)
    assert cost <= 30, f"a late page of 10 of 300 runs looked at {cost} entries"


@proves("RUN-Q4", needs=("runs", "admin", "tenant"), look_at="which of the given filters is walked")
async def test_a_filtered_page_walks_the_rarest_filter(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    count = 200 if lab.quick else 2_000
    rare = {"all": "x", "some": "y"}
    made = [await start_run(lab, client=client, labels=rare) for _ in range(3)]
    await side_by_side(client.runs.create_run(labels={"all": "x"}) for _ in range(count))
    found = await walk(client, 10, labels=rare)
    assert sorted(ids(found)) == sorted(made)
    before = await entries_read(lab, client)
    page = await client.runs.list_runs(limit=1, labels=rare)
    cost = await entries_read(lab, client) - before
    assert cost <= 1_010, f"3 runs of {count} were had by looking at {cost} entries"
    assert len(page.runs) == 1, "a page found nothing although its rarest filter has three runs"


@proves(
    "RUN-Q4", "RUN-Q2", needs=("runs", "admin", "tenant"), look_at="where a filtered page gives up"
)
async def test_a_filtered_page_gives_up_early_and_goes_on_from_there(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    each = 150 if lab.quick else 1_300
    wanted = await start_run(lab, client=client, labels={"a": "x", "b": "x"})
    for labels in ({"a": "x"}, {"b": "x"}):
        await side_by_side(client.runs.create_run(labels=labels) for _ in range(each))
    request = ListRunsRequest(limit=1, labels={"a": "x", "b": "x"})
    cost = await _cost_of_page(lab, client, request)
    assert cost <= 1_010, f"a page of 1 looked at {cost} entries"
    assert ids(await walk(client, 1, labels={"a": "x", "b": "x"})) == [wanted]
