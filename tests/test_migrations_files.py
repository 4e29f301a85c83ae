"""Folders of older and newer revisions: what an operator does, and what must not happen."""

import asyncio
import io
import json
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    Backend,
    InvalidRequestError,
    Message,
    SchemaVersionError,
    StoreError,
    StoreUnavailableError,
    open_backend,
)
from stores_core.revisions import Revision
from stores_files import versions
from stores_files.backend import open_files
from stores_files.disk import Disk
from tests.golden.filling import exported
from tests.golden.opened import export_of, packed

FIRST = "files-0001"
SAID = [Message(role="user", text="hello")]


def use(folder: Path, work: Callable[[Backend], Awaitable[Any]], **options: Any) -> Any:
    """Open the folder, do something with it, close it; what came of it."""

    async def run() -> Any:
        async with open_backend(f"file:{folder}", **options) as backend:
            return await work(backend)

    return asyncio.run(run())


def contents_of(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, None for a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder that the code of the first revision made and filled."""
    folder = tmp_path / "old"
    with tarfile.open(fileobj=io.BytesIO(packed(f"{FIRST}.tar"))) as tar:
        tar.extractall(folder, filter="data")
    folder.chmod(0o700)
    return folder


def test_an_old_folder_survives_the_way_up_and_back(old: Path) -> None:
    before = contents_of(old)

    async def up(backend: Backend) -> None:
        assert backend.admin is not None
        assert (await backend.admin.check()).schema_state == "behind"
        applied = (await backend.admin.migrate()).applied
        assert [sentence[:5] for sentence in applied] == ["0002:"]
        assert (await backend.admin.check()).schema_state == "current"
        verified = await backend.admin.verify()
        assert verified.problems == ()
        assert verified.checked["notes"] == 12
        assert (await backend.admin.migrate()).applied == ()

    async def down(backend: Backend) -> None:
        assert backend.admin is not None
        assert (await backend.runs.get_run(run_id="root")).found
        assert len((await backend.admin.migrate(target="1")).applied) == 1
        with pytest.raises(SchemaVersionError):
            await backend.runs.get_run(run_id="root")
        assert (await backend.admin.check()).schema_state == "behind"

    use(old, up)
    assert asyncio.run(exported(f"file:{old}")) == export_of(FIRST)
    use(old, down)
    assert contents_of(old) == before
    use(old, lambda backend: backend.admin.migrate())  # pyright: ignore[reportOptionalMemberAccess]
    assert asyncio.run(exported(f"file:{old}")) == export_of(FIRST)


def test_an_older_folder_is_refused_by_stores_and_named_with_the_way_out(old: Path) -> None:
    before = contents_of(old)

    async def work(backend: Backend) -> None:
        assert backend.admin is not None
        for refused in (
            backend.runs.get_run(run_id="root"),
            backend.runs.create_run(run_id="s"),
            backend.runs.append_messages(run_id="root", messages=SAID),
            backend.memory.list_memories(),
            backend.tool_results.list_tool_results(),
        ):
            with pytest.raises(SchemaVersionError, match=r"format 0001, .* needs 0002.*admin\.mig"):
                await refused
        plan = await backend.admin.plan_migration()
        assert len(plan.steps) == 1
        assert "copy the folder" in plan.advice[0]
        check = await backend.admin.check()
        assert check.versions["format"] == f"0001 (code: {versions.CODE})"

    use(old, work)
    assert contents_of(old) == before


@pytest.mark.parametrize("target", ["0", "3", "head"])
def test_a_target_that_is_not_known_changes_nothing(old: Path, target: str) -> None:
    before = contents_of(old)

    async def work(backend: Backend) -> None:
        assert backend.admin is not None
        for refused in (backend.admin.migrate, backend.admin.plan_migration):
            with pytest.raises(InvalidRequestError, match="target"):
                await refused(target=target)

    use(old, work)
    assert contents_of(old) == before


def test_a_newer_folder_is_refused_and_left_as_it_is(old: Path) -> None:
    (old / "agent-stores.json").write_text(json.dumps({"format": 3, "identity": "x"}))
    before = contents_of(old)
    with pytest.raises(SchemaVersionError, match=r"0003.*update"):
        use(old, lambda backend: asyncio.sleep(0))
    assert contents_of(old) == before


def test_a_newer_folder_that_says_it_is_for_this_code_too_is_worked_on(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    use(folder, lambda backend: backend.runs.create_run(run_id="r"))
    newer = {"format": Revision(3, 2).packed, "identity": "x"}
    (folder / "agent-stores.json").write_text(json.dumps(newer))
    assert use(folder, lambda backend: backend.runs.get_run(run_id="r")).found


def test_the_format_stays_as_it_is_while_others_have_the_folder_open(old: Path) -> None:
    async def work() -> None:
        short = open_files(f"file:{old}", lock_timeout=0.1)
        async with open_files(f"file:{old}") as other, short as backend:
            assert backend.admin is not None
            assert other.admin is not None
            with pytest.raises(StoreUnavailableError, match="others have the folder open"):
                await backend.admin.migrate()
            assert (await backend.admin.check()).schema_state == "behind"
        async with open_files(f"file:{old}") as backend:
            assert backend.admin is not None
            assert len((await backend.admin.migrate()).applied) == 1
            assert (await backend.runs.get_run(run_id="root")).found

    asyncio.run(work())


@pytest.mark.parametrize("target", ["", "1"])
def test_a_step_that_was_cut_off_is_gone_on_with_or_taken_back(
    old: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    calls, before = 0, contents_of(old)
    rename = Disk.rename

    def fail_once(self: Disk, folder: int, name: str, to: int, to_name: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise OSError(28, "no room")
        rename(self, folder, name, to, to_name)

    async def cut(backend: Backend) -> None:
        assert backend.admin is not None
        with pytest.raises(StoreError, match="ENOSPC"):
            await backend.admin.migrate()
        assert (await backend.admin.check()).schema_state == "behind"
        with pytest.raises(SchemaVersionError, match="half-way"):
            await backend.runs.get_run(run_id="root")

    async def go_on(backend: Backend) -> None:
        assert backend.admin is not None
        with pytest.raises(SchemaVersionError, match="half-way"):
            await backend.runs.get_run(run_id="root")
        assert len((await backend.admin.migrate(target=target)).applied) == 1

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "rename", fail_once)
        use(old, cut)
    assert calls == 8
    assert contents_of(old) != before
    use(old, go_on)
    if target:
        left = {name for name in contents_of(old) if ".new-" in name}
        assert {name: data for name, data in contents_of(old).items() if name not in left} == before
    else:
        assert asyncio.run(exported(f"file:{old}")) == export_of(FIRST)


def test_the_last_change_of_a_run_is_kept_by_the_step(tmp_path: Path) -> None:
    folder = tmp_path / "stores"

    async def fill(backend: Backend) -> None:
        for run in ("appended", "relabelled"):
            await backend.runs.create_run(run_id=run)
            await backend.runs.append_messages(run_id=run, messages=SAID)
        await backend.runs.update_run(run_id="relabelled", labels={"a": "b"})

    async def times(backend: Backend) -> list[Any]:
        assert backend.admin is not None
        return [
            info.updated_at
            for run in ("appended", "relabelled")
            if (info := (await backend.runs.get_run(run_id=run)).info)
        ]

    async def there_and_back(backend: Backend) -> None:
        assert backend.admin is not None
        await backend.admin.migrate(target="1")
        await backend.admin.migrate()

    use(folder, fill)
    before = use(folder, times)
    assert len(before) == 2
    use(folder, there_and_back)
    assert use(folder, times) == before
