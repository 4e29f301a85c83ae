"""Runs share journals until the disk, or the contract, wants a copy; what is cut off meanwhile."""

import asyncio
import errno
import sys

import pytest

from conformance_tests.faults.crash_states import Nodes
from stores_core import Message
from stores_core.ranges import MAX_RANGES
from tests.files_interruptions import interruptions
from tests.files_recovery import faults_of
from tests.files_simulated import SimulatedDisk
from tests.files_steps import On, Step, on, prepared, repeatable, snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

FORKS = 12


def append(id: str, text: str) -> Step:
    messages = [Message(role="user", text=text)]
    return lambda on: on.runs.append_messages(run_id=id, messages=messages)


def fork(id: str, new: str) -> Step:
    return lambda on: on.runs.fork_run(run_id=id, new_run_id=new)


async def texts(stores: On, id: str) -> list[str]:
    run = (await stores.runs.load_run(run_id=id)).run
    assert run is not None
    return [message.text or "" for message in run.messages]


def test_a_disk_without_names_left_gets_one_copy_and_forks_go_on() -> None:
    nodes = prepared()

    async def work() -> None:
        disk = SimulatedDisk(nodes)
        disk.most_links = 5
        stores = on(disk)
        whole = await texts(stores, "a")
        for n in range(FORKS):
            assert (await stores.runs.fork_run(run_id="a", new_run_id=f"copy-{n}")).created
            await append("a", f"later {n}")(stores)
        for n in range(FORKS):
            assert await texts(stores, f"copy-{n}") == whole + [f"later {m}" for m in range(n)]
        assert not faults_of(SimulatedDisk(disk.nodes), (snapshot(disk),))

    with repeatable():
        asyncio.run(work())


def delete(id: str) -> Step:
    return lambda on: on.runs.delete_run(run_id=id)


def deep() -> Nodes:
    """A run that refers to as many ranges as one may."""
    steps: list[Step] = [lambda on: on.runs.create_run(run_id="0"), append("0", "0")]
    for n in range(1, MAX_RANGES):
        steps += [fork(f"{n - 1}", f"{n}"), append(f"{n}", f"{n}")]
    steps += [delete(f"{n}") for n in range(MAX_RANGES - 1)]
    return prepared(steps)


JOIN = fork(f"{MAX_RANGES - 1}", "joined")


def test_a_fork_of_many_ranges_joins_them_and_keeps_all() -> None:
    nodes = deep()

    async def work() -> None:
        stores = on(SimulatedDisk(nodes))
        await JOIN(stores)
        assert await texts(stores, "joined") == [f"{n}" for n in range(MAX_RANGES)]

    asyncio.run(work())


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("every", [131, 17])
@pytest.mark.parametrize("error", [None, errno.EIO], ids=["killed", "fails"])
def test_a_join_that_is_cut_off_anywhere_leaves_all_as_it_was(
    error: int | None, every: int
) -> None:
    outcomes = list(interruptions(JOIN, error, every=every, nodes=deep()))
    assert not [fault for each in outcomes for fault in each.faults]
    assert len(outcomes) > 170 / every


@pytest.mark.timeout(300)
@pytest.mark.parametrize("error", [None, errno.EIO], ids=["killed", "fails"])
@pytest.mark.parametrize("name", ["runs.jsonl", "journal.jsonl"])
def test_recovery_that_is_cut_off_anywhere_goes_on(name: str, error: int | None) -> None:
    """A file with a torn tail is cut back by the next write, which is interrupted."""
    nodes = prepared()
    for inode, node in list(nodes.items()):
        if isinstance(node, bytes) and node.startswith(STARTS[name]):
            nodes[inode] = node + node[-40:-3]
    steps: list[Step] = [append("a", "x"), fork("a", "f")]
    for step in steps:
        outcomes = list(interruptions(step, error, nodes=nodes))
        assert not [fault for each in outcomes for fault in each.faults]


STARTS = {"runs.jsonl": b'{"id":"a"', "journal.jsonl": b'{"journal":'}
