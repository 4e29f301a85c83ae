"""Damage in the middle is told as such, and what it left becomes a new run."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stores_core import Backend, Event, Message, ToolResult, open_backend
from stores_core.errors import CorruptRecordError
from tests.conftest import Python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

BATCHES = 20


def use(folder: Path, work: Callable[[Backend], Awaitable[object]]) -> None:
    async def opened() -> None:
        async with open_backend(f"file:{folder}") as backend:
            await work(backend)

    asyncio.run(opened())


def texts(folder: Path, run_id: str) -> list[str]:
    found: list[str] = []

    async def work(backend: Backend) -> None:
        run = (await backend.runs.load_run(run_id=run_id)).run
        assert run is not None
        found.extend(message.text or "" for message in run.messages)

    use(folder, work)
    return found


def problems(folder: Path) -> list[str]:
    found: list[str] = []

    async def work(backend: Backend) -> None:
        found.extend(problem.what for problem in (await backend.admin.verify()).problems)

    use(folder, work)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of twenty batches, and a fork of it with one more."""

    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r", labels={"a": "b"})
        for n in range(BATCHES):
            messages = [Message(role="user", text=f"{n}")]
            await backend.runs.append_messages(
                run_id="r", messages=messages, events=[Event(kind="e")]
            )
        await backend.runs.fork_run(run_id="r", new_run_id="f")
        await backend.tool_results.put_tool_result(ref="t", result=ToolResult(content=[]))
        await backend.runs.append_messages(run_id="f", messages=[Message(role="user", text="own")])

    use(tmp_path / "a", work)
    return tmp_path / "a"


def journal(folder: Path) -> Path:
    return folder / "tenants/%/runs/r/journal.jsonl"


def damaged(data: bytes, kind: str) -> bytes:
    at = data.index(b'"text":"9"')
    line = data.rindex(b"\n", 0, at) + 1
    match kind:
        case "a flipped bit":
            return data[: at + 8] + b"8" + data[at + 9 :]
        case "zeroes":
            return data[:line] + bytes(300) + data[line + 300 :]
        case "a line cut short":
            return data[: at + 5] + data[data.index(b"\n", at) :]
        case _:
            return data[:line] + data[data.index(b"\n", line) + 1 :]


@pytest.mark.parametrize("kind", ["a flipped bit", "zeroes", "a line cut short", "a line less"])
def test_damage_in_the_middle_is_told_and_the_rest_is_saved(
    folder: Path, python: Python, kind: str
) -> None:
    journal(folder).write_bytes(damaged(journal(folder).read_bytes(), kind))
    with pytest.raises(CorruptRecordError, match="repair"):
        texts(folder, "r")
    assert problems(folder)
    saved = python("-m", "stores_files", folder, "r", "saved", cwd=folder.parent)
    assert saved.returncode == 0, saved.stderr
    left = texts(folder, "saved")
    lost = [f"{n}" for n in range(BATCHES) if f"{n}" not in left]
    assert left == [f"{n}" for n in range(BATCHES) if f"{n}" not in lost]
    assert "9" in lost
    assert len(lost) <= 2
    assert "lost: messages 9" in saved.stdout
    again = python("-m", "stores_files", folder, "f", "saved-too", cwd=folder.parent)
    assert again.returncode == 0, again.stderr
    assert texts(folder, "saved-too") == [*left, "own"]


def test_a_run_without_its_header_gives_what_it_wrote_itself(folder: Path, python: Python) -> None:
    (folder / "tenants/%/runs/r/run.json").write_text("{", "utf-8")
    with pytest.raises(CorruptRecordError):
        texts(folder, "r")
    saved = python("-m", "stores_files", folder, "r", "saved", cwd=folder.parent)
    assert "lost: run.json" in saved.stdout, saved.stderr
    assert texts(folder, "saved") == [f"{n}" for n in range(BATCHES)]


def test_a_new_run_must_be_new_and_the_old_one_there(folder: Path, python: Python) -> None:
    for old, new in (("r", "f"), ("nothing", "new")):
        ran = python("-m", "stores_files", folder, old, new, cwd=folder.parent)
        assert ran.returncode == 1
        assert "Traceback" not in ran.stderr
    assert len(texts(folder, "f")) == BATCHES + 1
    assert len(list((folder / "tenants/%/logs").iterdir())) == 2


def test_a_torn_tail_is_reported_dropped_and_never_glued(folder: Path) -> None:
    with journal(folder).open("ab") as file:
        file.write(b'{"role":"user","te')
    assert len(texts(folder, "r")) == BATCHES
    assert any("no whole batch" in problem for problem in problems(folder))

    async def work(backend: Backend) -> None:
        await backend.runs.append_messages(run_id="r", messages=[Message(role="user", text="x")])

    use(folder, work)
    assert texts(folder, "r")[-1] == "x"
    assert problems(folder) == []


def test_a_copy_without_links_is_told_and_linked_again(folder: Path, python: Python) -> None:
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)  # which knows nothing of hard links
    assert any("hard links" in problem for problem in problems(copy))
    assert len(texts(copy, "f")) == BATCHES + 1
    for name in ("runs.jsonl", "results.jsonl"):
        (copy / "tenants/%" / name).unlink()
    assert sum("not listed" in problem for problem in problems(copy)) == 3
    ran = python("-m", "stores_files", copy, cwd=copy.parent)
    assert ran.returncode == 0, ran.stderr
    assert problems(copy) == []
    assert len(texts(copy, "f")) == BATCHES + 1
    assert python("-m", "stores_files", copy, cwd=copy.parent).stdout.endswith(": 0\n")
