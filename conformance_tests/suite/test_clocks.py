"""Clocks that step back and jump ahead: order comes from positions alone."""

from conformance_tests.faults.clocks import SteppingClock
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import assert_holds, deltas, turn
from stores_core import MemoryItem

AMID = "faults"
ROUNDS = 13


@proves(
    "ALL-4",
    "RUN-A1",
    needs=("runs", "clock"),
    look_at="order that comes from the time of a write",
)
async def test_entries_are_in_the_order_of_their_appends_wherever_the_clock_goes(lab: Lab) -> None:
    client, run_id = await lab.open(clock=SteppingClock()), lab.new_id("run")
    await client.runs.create_run(run_id=run_id)
    for n in range(ROUNDS):
        answer = await client.runs.append_messages(
            run_id=run_id, messages=turn(2, first=2 * n), events=deltas(1, first=n)
        )
        assert (answer.message_count, answer.event_count) == (2 * n + 2, n + 1)
    await assert_holds(client, run_id, turn(2 * ROUNDS), deltas(ROUNDS))
    fork_id = (await client.runs.fork_run(run_id=run_id, at_message=5)).run_id
    await assert_holds(client, fork_id, turn(5))


@proves(
    "ALL-4",
    "MEM-1",
    needs=("memory", "clock"),
    look_at="which of two versions is taken for the newer one",
)
async def test_the_last_put_stands_wherever_the_clock_goes(lab: Lab) -> None:
    client, namespace = await lab.open(clock=SteppingClock()), lab.new_id("notes")
    for n in range(ROUNDS):
        await client.memory.put_memory(namespace=namespace, item=MemoryItem(key="k", value=f"{n}"))
        note = (await client.memory.get_memory(namespace=namespace, key="k")).item
        assert note is not None
        assert note.value == f"{n}", "an older version stands"
    assert (await client.memory.delete_memory(namespace=namespace, key="k")).deleted
    assert not (await client.memory.get_memory(namespace=namespace, key="k")).found
