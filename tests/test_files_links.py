"""A disk that gives files no second name (hard link): what would be shared is copied once."""

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from stores_core import Backend, Event, Message, ToolResult, open_backend
from stores_files.disk import Disk
from tests.files_interruptions import interruptions
from tests.files_power_cuts import examine
from tests.files_simulated import LinklessDisk
from tests.files_steps import ALL, prepared

T = TypeVar("T")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

REFUSALS = [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK]


@pytest.fixture(params=REFUSALS, ids=lambda code: errno.errorcode[code])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def link(*given: object) -> None:
        raise OSError(request.param, "no links")

    monkeypatch.setattr(Disk, "link", link)
    return tmp_path / "stores"


def used(folder: Path, work: Callable[[Backend], Awaitable[T]]) -> T:
    async def opened() -> T:
        async with open_backend(f"file:{folder}") as backend:
            return await work(backend)

    return asyncio.run(opened())


def said(*texts: str) -> list[Message]:
    return [Message(role="user", text=text) for text in texts]


async def heard(backend: Backend, id: str) -> tuple[list[str | None], int]:
    run = (await backend.runs.load_run(run_id=id)).run
    assert run is not None
    return [message.text for message in run.messages], len(run.events)


async def family(backend: Backend) -> None:
    """A run, a fork of it, and a fork of that which stops in the middle."""
    await backend.runs.create_run(run_id="a")
    await backend.runs.append_messages(
        run_id="a", messages=said("1", "2"), events=[Event(kind="x")], idempotency_key="k"
    )
    await backend.runs.fork_run(run_id="a", new_run_id="b")
    await backend.runs.append_messages(run_id="a", messages=said("a"))
    await backend.runs.append_messages(run_id="b", messages=said("b"))
    await backend.runs.fork_run(run_id="b", new_run_id="c", at_message=1)
    await backend.runs.append_messages(run_id="c", messages=said("c"))


async def found(backend: Backend) -> list[tuple[list[str | None], int]]:
    return [await heard(backend, id) for id in "abc"]


FAMILY = [(["1", "2", "a"], 1), (["1", "2", "b"], 1), (["1", "c"], 0)]


def test_forks_are_copies_that_go_their_own_ways(folder: Path) -> None:
    used(folder, family)
    assert used(folder, found) == FAMILY
    assert not [path for path in folder.rglob("*") if path.is_file() and path.stat().st_nlink > 1]

    async def without_the_parents(backend: Backend) -> tuple[list[str | None], int]:
        for id in "ab":
            assert (await backend.runs.delete_run(run_id=id)).deleted
        await backend.admin.sweep()
        assert not (await backend.admin.verify()).problems
        return await heard(backend, "c")

    assert used(folder, without_the_parents) == FAMILY[2]


def test_equal_results_are_there_once_for_each_ref(folder: Path) -> None:
    text = "same " * 1_000

    async def work(backend: Backend) -> None:
        result = ToolResult(content=[{"type": "text", "text": text}])
        for ref in "rst":
            await backend.tool_results.put_tool_result(ref=ref, result=result)
        await backend.tool_results.delete_tool_result(ref="r")
        for ref in "st":
            assert (await backend.tool_results.get_tool_result(ref=ref)).result == result
        assert not (await backend.admin.verify()).problems

    used(folder, work)
    copies = [path for path in folder.rglob("*") if path.is_file() and path.read_text() == text]
    assert len(copies) == 2


def test_check_says_what_a_disk_without_links_costs(folder: Path) -> None:
    async def work(backend: Backend) -> None:
        checked = await backend.admin.check()
        assert checked.settings["hard_links"] == "no"
        assert any("each fork copies" in warning for warning in checked.warnings)

    used(folder, work)
    assert [path.name for path in folder.iterdir()].count("agent-stores.json") == 1
    assert len(list(folder.iterdir())) == 2, "what was tried was left there"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_suite_of_forks_and_moving_passes_on_a_disk_without_links(tmp_path: Path) -> None:
    suite = subprocess.run(
        [
            *(sys.executable, "-m", "conformance_tests", "tests.files_linkless:open_backend"),
            *("--quick", "-k", "test_fork or test_moving or test_importing or test_parting"),
        ],
        env={**os.environ, "STORES_TEST_FOLDER": str(tmp_path / "stores")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FAILED" not in suite.stdout, suite.stdout[-4_000:]
    for number in range(1, 4):
        assert f"MOVE-{number}   proved" in suite.stdout, suite.stdout[-4_000:]


# On a simulated disk: what a power cut, or an error at any call, leaves of the copies.

SHARING = ["append to a fork", "fork", "fork at one", "put a result", "replace a result", "delete"]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "befores",
    [["fork"], ["append one", "delete"]],
    ids=["fork", "others"],
)
@pytest.mark.parametrize("last", SHARING)
def test_what_a_power_cut_leaves_of_copies_holds_what_was_acknowledged(
    last: str, befores: list[str]
) -> None:
    nodes, total = prepared(kind=LinklessDisk), 0
    for names in ([last], *([before, last] for before in befores)):
        looked, faults = examine(nodes, names, disk=LinklessDisk, kind=LinklessDisk, most=200)
        assert not faults, "\n".join(faults)
        total += looked
    assert total > 50, "too few states to prove anything"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("error", [None, errno.EIO], ids=["killed", "fails"])
@pytest.mark.parametrize("step", ["append to a fork", "fork", "put a result"])
def test_a_copy_that_is_cut_off_anywhere_leaves_nothing_in_the_way(
    step: str, error: int | None
) -> None:
    outcomes = list(interruptions(ALL[step], error, kind=LinklessDisk))
    assert not [fault for each in outcomes for fault in each.faults]
    assert ("killed" if error is None else "not applied") in {each.ending for each in outcomes}


def test_a_copy_that_is_not_synced_is_found() -> None:
    """The crash states show this mistake, so they would show it in what is tested above."""

    class NoSync(LinklessDisk):
        def sync(self, file: int) -> None:
            if not self.copying:
                super().sync(file)

        copying = False

        def link(self, folder: int, name: str, to: int, to_name: str) -> None:
            self.copying = True
            super().link(folder, name, to, to_name)

    _, faults = examine(prepared(kind=LinklessDisk), ["fork"], disk=NoSync, kind=LinklessDisk)
    assert faults
