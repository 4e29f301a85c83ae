"""A disk that is full at any byte of a write leaves all as it was, and goes on later."""

import asyncio
import sys
from pathlib import Path

import pytest

from conformance_tests.faults.crash_states import reachable
from stores_core.errors import StoreUnavailableError
from tests.conftest import Python
from tests.files_recovery import faults_of
from tests.files_simulated import SimulatedDisk
from tests.files_steps import ALL, on, prepared, repeatable, snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

NODES = prepared()


async def play(step: str, room: int) -> bool:
    """Whether a step fits into so many bytes; if not, all is as before, and it goes on later."""
    disk = SimulatedDisk(dict(NODES))
    stores = on(disk)
    await stores.runs.load_run(run_id="a")
    before, held = reachable(disk.nodes), snapshot(disk)
    disk.room = room
    try:
        await ALL[step](stores)
    except StoreUnavailableError:
        pass
    else:
        return True
    if step.startswith("append"):
        assert reachable(disk.nodes) == before, "not the same byte for byte"
    assert snapshot(disk) == held
    disk.room = None
    await ALL[step](stores)
    assert not faults_of(SimulatedDisk(disk.nodes), (snapshot(disk),))
    return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "step", [step for step in ALL if not step.startswith(("delete", "clear", "sweep"))]
)
def test_a_disk_without_room_leaves_all_as_it_was(step: str, every: int) -> None:
    with repeatable():
        room = 0
        while not asyncio.run(play(step, room)):
            room += every if step.startswith("append") else max(13, every)
    assert room > 100, "it wrote too little to tell anything"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_file_that_may_not_grow_is_the_same_byte_for_byte(
    root: Path, python: Python, tmp_path: Path
) -> None:
    ran = python("-m", "tests.files_full", tmp_path / "full", cwd=root, seconds=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(ran.stdout) > 300
