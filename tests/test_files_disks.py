"""Disks and systems that files cannot be kept on are refused by name; links do not lead out."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stores_core import Backend, InvalidRequestError, Message, disks, open_backend
from stores_core.errors import CorruptRecordError, StoreError
from tests.conftest import Python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")


def use(folder: Path, work: Callable[[Backend], Awaitable[object]] | None = None) -> None:
    async def opened() -> None:
        async with open_backend(f"file:{folder}") as backend:
            if work is not None:
                await work(backend)

    asyncio.run(opened())


async def write(backend: Backend, id: str = "r") -> None:
    await backend.runs.create_run(run_id=id)
    await backend.runs.append_messages(run_id=id, messages=[Message(role="user", text="hi")])


async def write_everywhere(backend: Backend) -> None:
    await write(backend, "s")
    await write(backend)
    await backend.runs.fork_run(run_id="r", new_run_id="f")


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "file_system_of", lambda folder: "nfs4")  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with pytest.raises(InvalidRequestError, match="network"):
        use(tmp_path / "a")
    assert not (tmp_path / "a").exists()


WINDOWS = """
import asyncio, sys
from stores_core import InvalidRequestError, open_backend
sys.platform = "win32"
sys.modules["fcntl"] = None
async def work():
    async with open_backend("file:a"):
        pass
try:
    asyncio.run(work())
except InvalidRequestError as error:
    print(error)
"""


def test_windows_is_refused_by_name(python: Python) -> None:
    ran = python("-c", WINDOWS)
    assert "Windows" in ran.stdout, ran.stderr


PLANTED = [
    "agent-stores.json",
    "tenants",
    "tenants/%",
    "tenants/%/runs.jsonl",
    "tenants/%/runs",
    "tenants/%/runs/r",
    "tenants/%/runs/r/run.json",
    "tenants/%/runs/r/journal.jsonl",
    "tenants/%/logs",
    "tenants/%/staging",
]


@pytest.mark.parametrize("place", PLANTED)
def test_a_link_in_place_of_ours_is_not_followed(tmp_path: Path, place: str) -> None:
    use(tmp_path / "a", write)
    ours, outside = tmp_path / "a" / place, tmp_path / "outside"
    ours.rename(outside)
    ours.symlink_to(outside)
    before = {path: path.lstat() for path in [outside, *outside.rglob("*")]}
    with pytest.raises(StoreError):
        use(tmp_path / "a", write_everywhere)
    after = {path: path.lstat() for path in [outside, *outside.rglob("*")]}
    assert {path: (found.st_size, found.st_mtime_ns) for path, found in before.items()} == {
        path: (found.st_size, found.st_mtime_ns) for path, found in after.items()
    }


def test_a_pipe_in_place_of_a_journal_does_not_hang(tmp_path: Path) -> None:
    use(tmp_path / "a", write)
    journal = tmp_path / "a/tenants/%/runs/r/journal.jsonl"
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(CorruptRecordError):
        use(tmp_path / "a", lambda backend: backend.runs.load_run(run_id="r"))


def test_what_a_stranger_left_is_reported_and_left_alone(tmp_path: Path) -> None:
    use(tmp_path / "a", write)
    strangers = [
        tmp_path / "a/tenants/%/notes.txt",
        tmp_path / "a/tenants/%/runs/Diary",
        tmp_path / "a/tenants/%/logs/x.bak",
        tmp_path / "a/tenants/%/logs/x.jsonl",
    ]
    for stranger in strangers:
        stranger.write_text("dear diary", "utf-8")
        os.utime(stranger, (0, 0))
    found: list[str] = []

    async def work(backend: Backend) -> None:
        await backend.admin.sweep()
        found.extend(problem.id for problem in (await backend.admin.verify()).problems)

    use(tmp_path / "a", work)
    assert all(stranger.name in found for stranger in strangers)
    assert all(stranger.read_text("utf-8") == "dear diary" for stranger in strangers)


def test_modes_are_those_of_the_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        use(tmp_path / "a", write)
    finally:
        os.umask(old)
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
