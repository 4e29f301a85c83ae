"""What a backend gives up by itself: only where it was told to, and never runs or notes by age."""

from datetime import UTC, datetime

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import is_missing, listed, note, write
from conformance_tests.suite.steps import StoppedClock, header, sweep_all
from conformance_tests.suite.test_tool_results import (
    assert_unknown,
    kept,
    put,
    text_of,
    text_result,
    walk,
)
from stores_core import Backend, MemoryItem, Message

RESULTS = ("tool_results", "tenant")


async def work_off(client: Backend) -> None:
    """Let retention happen: a later put, and a sweep where there is one."""
    await put(client, "the latest", text_result("x"))
    if "admin" in client.offered:
        await sweep_all(client)


@proves(
    "MEM-11",
    needs=("memory", "tenant", "option:notes_per_namespace"),
    look_at="which note goes when a new key exceeds the cap",
)
async def test_a_new_key_beyond_the_cap_drops_the_oldest_others(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"), notes_per_namespace=3)
    for key in "abc":
        await write(client, "s", key, "needle")
        await write(client, "t", key, "needle")
    await write(client, "s", "a", "needle, put again")
    assert await listed(client, "s") == ["a", "b", "c"], "a put of a known key drops nothing"
    await write(client, "s", "d", "needle")
    assert await listed(client, "s") == ["b", "c", "d"]
    assert await is_missing(client, "s", "a")
    assert await listed(client, "s", query="needle") == ["b", "c", "d"]
    ancient = MemoryItem(key="e", value="", created_at=datetime(1990, 1, 1, tzinfo=UTC))
    await client.memory.put_memory(item=ancient, namespace="s")
    assert await listed(client, "s") == ["e", "c", "d"], "the new note itself is never dropped"
    items = [MemoryItem(key=key, value="") for key in ("f", "c", "g")]
    await client.memory.put_memories(items=items, namespace="s")
    assert sorted(await listed(client, "s")) == ["c", "f", "g"]
    assert await listed(client, "t") == ["a", "b", "c"], "another namespace lost notes"
    assert (await write(client, "s", "a", "new")).created


@proves(
    "MEM-11",
    "EMB-3",
    needs=("memory", "tenant", "embeddings", "option:notes_per_namespace"),
    look_at="vectors of notes that the cap dropped",
)
async def test_a_note_that_the_cap_dropped_is_not_recalled(lab: Lab) -> None:
    from conformance_tests.suite.spelled import Spelled, recalled, spell

    client = await lab.open(tenant=lab.new_id("tenant"), embedder=Spelled(), notes_per_namespace=2)
    for key in "abc":
        await write(client, "s", key, spell(1, 0))
    assert await recalled(client, "s", spell(1, 0), limit=3) == [("b", 1.0), ("c", 1.0)]


@proves(
    "TOOL-5",
    "TOOL-2",
    needs=(*RESULTS, "option:result_max_count"),
    look_at="what a later put and sweep evict by count",
)
async def test_beyond_the_count_the_oldest_results_go(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"), result_max_count=3)
    for n in range(6):
        await put(client, f"r{n}", text_result(f"needle {n}"))
    await work_off(client)
    refs = [info.ref for info in await walk(client, 10)]
    assert refs == ["the latest", "r5", "r4"]
    for n in range(4):
        await assert_unknown(client, f"r{n}")
    assert await text_of(client, "r5") == "needle 5"


@proves(
    "TOOL-5",
    needs=(*RESULTS, "option:result_max_bytes"),
    look_at="what a later put and sweep evict by bytes",
)
async def test_beyond_the_bytes_the_oldest_results_go(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"), result_max_bytes=10_000)
    for n in range(5):
        await put(client, f"r{n}", text_result(f"{n}" * 4_000))
    await work_off(client)
    left = await walk(client, 10)
    assert [info.ref for info in left] == ["the latest", "r4", "r3"]
    assert await text_of(client, "r4") == "4" * 4_000
    await assert_unknown(client, "r0")
    room = 10_000 - sum(info.bytes for info in left)
    extra = left[0].bytes - len("x")
    await put(client, "as much as there is room", text_result("y" * (room - extra)))
    assert await text_of(client, "r3") == "3" * 4_000, "what is no more than the cap was given up"


@proves(
    "TOOL-5",
    "TOOL-2",
    needs=(*RESULTS, "clock", "option:result_max_age"),
    look_at="which clock tells the age of a result",
)
async def test_beyond_the_age_results_go_and_younger_ones_stay(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock, result_max_age=60.0)
    await put(client, "old", text_result("x"))
    clock.move(50)
    await put(client, "young", text_result("x"))
    assert (await kept(client, "old")) is not None
    clock.move(20)
    await work_off(client)
    await assert_unknown(client, "old")
    assert [info.ref for info in await walk(client, 10)] == ["the latest", "young"]


@proves(
    "TOOL-5",
    needs=(*RESULTS, "admin", "clock", "option:result_max_age"),
    look_at="the budget of sweep, and the more that it answers",
)
async def test_a_sweep_keeps_to_its_budget_and_says_what_is_left(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock, result_max_age=60.0)
    for n in range(7):
        await put(client, f"r{n}", text_result("x"))
        clock.move(1)
    clock.move(600)
    freed: list[int] = []
    for _ in range(20):
        answer = await client.admin.sweep(budget=2)
        freed.append(sum(answer.freed.values()))
        if not answer.more:
            break
    assert max(freed) <= 2, "a sweep freed more than its budget"
    assert sum(freed) == 6
    assert [info.ref for info in await walk(client, 10)] == ["r6"], "the newest one stays"
    again = await client.admin.sweep()
    assert (dict(again.freed), again.more) == ({}, False)


@proves(
    "TOOL-5",
    needs=("runs", "memory", *RESULTS, "clock", "option:result_max_age"),
    look_at="an expiry that reaches runs or notes",
)
async def test_runs_and_notes_never_expire(lab: Lab) -> None:
    clock = StoppedClock()
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock, result_max_age=1.0)
    await client.runs.create_run(run_id="r")
    await client.runs.append_messages(run_id="r", messages=[Message(role="user", text="hi")])
    await write(client, "s", "k", "v")
    clock.move(20 * 365 * 86_400)
    await work_off(client)
    assert (await header(client, "r")).message_count == 1
    assert (await note(client, "s", "k")).value == "v"
