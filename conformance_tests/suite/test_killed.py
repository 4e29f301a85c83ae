"""Processes that are killed while they write, and clients that come back."""

import os

from conformance_tests.compare import assert_same
from conformance_tests.faults import killing
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.apart import told_by
from conformance_tests.suite.steps import assert_holds, deltas, turn
from stores_core import MemoryItem, ToolResult

AMID = "faults"
KILLS = 24


@proves(
    "ALL-6",
    "RUN-A4",
    "RUN-A7",
    "RUN-C4",
    "RUN-F7",
    "TOOL-3",
    needs=("lasting", "elsewhere"),
    thorough=True,
    within=300,
    look_at="what is acknowledged before it is written, and locks that outlive their process",
)
async def test_processes_that_are_killed_lose_nothing_and_leave_nothing_in_part(lab: Lab) -> None:
    if not hasattr(os, "fork"):
        lab.not_applicable("this system cannot fork")
    told = await told_by(lab, killing.__name__, "kills", KILLS, lab.seed)
    if told["kills"] < KILLS:
        lab.not_run("too little was acknowledged between the kills")


@proves(
    "ALL-6", "RUN-A7", needs=("runs", "lasting"), look_at="what is written when a client is closed"
)
async def test_a_client_that_comes_back_finds_its_runs(lab: Lab) -> None:
    run_id, fork_id = lab.new_id("run"), lab.new_id("fork")
    client = await lab.open()
    await client.runs.create_run(run_id=run_id, labels={"a": "b"})
    for n in range(3):
        await client.runs.append_messages(
            run_id=run_id, messages=turn(2, first=2 * n), idempotency_key=f"key {n}"
        )
    await client.runs.append_events(run_id=run_id, events=deltas(3))
    await client.runs.fork_run(run_id=run_id, new_run_id=fork_id, at_message=4)
    before = (await client.runs.get_run(run_id=run_id)).info
    await lab.close(client)
    client = await lab.open()
    assert_same((await client.runs.get_run(run_id=run_id)).info, before, "the header")
    await assert_holds(client, run_id, turn(6), deltas(3))
    await assert_holds(client, fork_id, turn(4))
    again = await client.runs.append_messages(
        run_id=run_id, messages=turn(2, first=2), idempotency_key="key 1"
    )
    assert (again.found, again.applied, again.message_count) == (True, False, 4)


@proves("ALL-6", needs=("memory", "lasting"), look_at="notes that are kept until a client closes")
async def test_a_client_that_comes_back_finds_its_notes(lab: Lab) -> None:
    namespace = lab.new_id("notes")
    client = await lab.open()
    for value in ("one", "two"):
        await client.memory.put_memory(
            namespace=namespace, item=MemoryItem(key="k", value=value, metadata={"v": value})
        )
    await client.memory.put_memory(namespace=namespace, item=MemoryItem(key="gone", value=""))
    await client.memory.delete_memory(namespace=namespace, key="gone")
    before = (await client.memory.get_memory(namespace=namespace, key="k")).item
    assert before is not None
    await lab.close(client)
    client = await lab.open()
    assert_same((await client.memory.get_memory(namespace=namespace, key="k")).item, before, "k")
    listed = (await client.memory.list_memories(namespace=namespace)).items
    assert [one.item.key for one in listed] == ["k"]
    put = await client.memory.put_memory(
        namespace=namespace,
        item=MemoryItem(key="k", value="three"),
        expected_version=before.version,
    )
    assert (put.conflict, put.version) == (False, before.version + 1)


@proves(
    "ALL-6",
    "TOOL-3",
    needs=("tool_results", "lasting"),
    look_at="results that are kept until a client closes",
)
async def test_a_client_that_comes_back_finds_its_results(lab: Lab) -> None:
    ref = lab.new_id("ref")
    client = await lab.open()
    result = ToolResult(content=[{"type": "text", "text": "line\n" * 20_000}])
    await client.tool_results.put_tool_result(ref=ref, result=ToolResult(content=["old"]))
    await client.tool_results.put_tool_result(ref=ref, result=result)
    await lab.close(client)
    client = await lab.open()
    found = (await client.tool_results.get_tool_result(ref=ref)).result
    assert_same(found, result, "the result")
    assert (await client.tool_results.read_tool_result(ref=ref, offset=99_999)).text == "\n"
