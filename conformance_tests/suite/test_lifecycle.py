"""Closing, other loops and processes, programs that forget, and what interceptors may not break."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite import forgetful
from conformance_tests.suite.operations import PROTOCOLS, bound, operations, requests, unused
from conformance_tests.suite.steps import assert_holds, header, load, start_run, turn
from stores_core import Backend, Capability, InvalidRequestError, StoreClosedError

EVERY_OPERATION = [(store, name) for store in PROTOCOLS for name in operations(store)]


@pytest.mark.parametrize(("store", "name"), EVERY_OPERATION)
@proves("ALL-12", look_at="the front: it refuses before it looks at the request")
async def test_after_closing_every_operation_says_that_the_store_is_closed(
    lab: Lab, store: str, name: str
) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend offers no `{store}`")
    client = await lab.open()
    operation = bound(client, store, name)
    await lab.close(client)
    for call in (operation, bound(client, store, name)):
        with pytest.raises(StoreClosedError):
            await call(**requests(store, name, unused(lab))[0])


@proves("ALL-12", needs=("runs",), look_at="what clients of one storage share, and who closes it")
async def test_closing_one_client_leaves_the_others_open(lab: Lab) -> None:
    run_id = await start_run(lab, turn(2))
    first, second = await lab.open(), await lab.open()
    await lab.close(first)
    await lab.close(first)
    other = await start_run(lab, turn(1), client=second)
    await lab.close(second)
    await assert_holds(lab.reader, run_id, turn(2))
    if Capability.SHARED in lab.backend.capabilities:
        await assert_holds(lab.reader, other, turn(1))


@proves(
    "ALL-12", "ALL-9", needs=("runs",), look_at="operations that are under way when a client closes"
)
async def test_closing_while_operations_are_under_way_neither_hangs_nor_halves_them(
    lab: Lab,
) -> None:
    client = await lab.open()
    run_id = await start_run(lab, client=client)
    calls = [
        asyncio.create_task(client.runs.append_messages(run_id=run_id, messages=turn(3, f"{n}")))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await lab.close(client)
        await asyncio.wait(calls)
    applied = sum(call.exception() is None and call.result().applied for call in calls)
    with pytest.raises(StoreClosedError):
        await client.runs.get_run(run_id=run_id)
    if Capability.SHARED in lab.backend.capabilities:
        held = (await header(lab.backend, run_id)).message_count
        assert held % 3 == 0
        assert held >= 3 * applied


@proves("ALL-7", needs=("runs",), look_at="a client that is used from another event loop")
async def test_from_another_event_loop_a_client_refuses_at_once_or_works(lab: Lab) -> None:
    client = await lab.open()
    run_id = await start_run(lab, turn(2), client=client)

    def elsewhere() -> Any:
        return asyncio.run(_get(client, run_id))

    async with asyncio.timeout(20):
        if client.opened.loop_bound:
            with pytest.raises(InvalidRequestError) as refused:
                await asyncio.to_thread(elsewhere)
            assert "loop" in str(refused.value)
        else:
            assert (await asyncio.to_thread(elsewhere)).message_count == 2
    await client.runs.append_messages(run_id=run_id, messages=turn(1, first=2))
    assert len((await load(client, run_id)).messages) == 3


async def _get(client: Backend, run_id: str) -> Any:
    return (await client.runs.get_run(run_id=run_id)).info


async def _program(lab: Lab, config: pytest.Config, run_id: str, *, fork: bool) -> None:
    """Run the forgetful program on the storage under examination."""
    told = {"opener": config.option.opener, "url": config.option.url}
    text = json.dumps({**told, "run_id": run_id, "fork": fork})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", forgetful.__name__],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, f"the program ended with {done.returncode}: {done.stderr[-2000:]}"
    assert done.stdout.strip().endswith("done")


@proves(
    "ALL-12",
    needs=("runs",),
    thorough=True,
    look_at="threads and connections that keep a process from ending",
)
async def test_a_program_that_forgets_to_close_still_exits(
    lab: Lab, pytestconfig: pytest.Config
) -> None:
    run_id = lab.new_id("run")
    await _program(lab, pytestconfig, run_id, fork=False)
    if Capability.SHARED in lab.backend.capabilities:
        assert (await header(lab.reader, run_id)).message_count == 1


@proves("ALL-7", needs=("runs",), thorough=True, look_at="a client that a forked process inherits")
async def test_in_a_forked_process_a_client_refuses_at_once_or_works(
    lab: Lab, pytestconfig: pytest.Config
) -> None:
    if not hasattr(os, "fork"):
        lab.not_applicable("this system cannot fork")
    await _program(lab, pytestconfig, lab.new_id("run"), fork=True)
