"""What check says of a folder."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    CheckResponse,
    Durability,
    MemoryItem,
    Message,
    ToolResult,
    open_backend,
)
from stores_files import admin
from stores_files.backend import open_files


def checked(folder: Path, **options: Any) -> CheckResponse:
    async def run() -> CheckResponse:
        async with open_files(f"file:{folder}", **options) as backend:
            assert backend.admin is not None
            return await backend.admin.check()

    return asyncio.run(run())


def test_a_folder_as_we_make_it_is_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_MEMORY", set[str]())
    found = checked(tmp_path / "stores")
    assert (found.schema_state, found.durability) == ("current", Durability.DISK)
    assert found.warnings == ()


def test_what_loses_data_or_shows_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stores"
    kind = checked(folder).settings.get("file_system", "")
    monkeypatch.setattr(admin, "_MEMORY", {kind})
    folder.chmod(0o750)
    found = checked(folder, durability="client")
    assert found.durability is Durability.CLIENT
    crash, memory, mode = found.warnings
    assert "crash of the machine" in crash
    assert "is memory" in memory
    assert "mode 0750" in mode
    assert "chmod 700" in mode


@pytest.mark.parametrize(("durability", "waits"), [("disk", True), ("client", False)])
async def test_only_disk_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, waits: bool
) -> None:
    calls: list[int] = []
    for name in ("fsync", "fdatasync"):
        sync = getattr(os, name)

        def counted(file: int, sync: Any = sync) -> None:
            calls.append(file)
            sync(file)

        monkeypatch.setattr(os, name, counted)
    async with open_backend(f"file:{tmp_path / 'stores'}?durability={durability}") as backend:
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(
            run_id="r", messages=[Message(role="user", text="x")], idempotency_key="k"
        )
        await backend.runs.fork_run(run_id="r", new_run_id="f")
        await backend.runs.delete_run(run_id="r")
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
        await backend.tool_results.put_tool_result(
            ref="t", result=ToolResult(content=[{"type": "text", "text": "x"}])
        )
    assert bool(calls) is waits
