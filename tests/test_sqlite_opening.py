"""Opening a SQLite file: who may read it, what is refused, many at once, versions."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stores_core import Backend, InvalidRequestError, SchemaVersionError, disks
from stores_sql.sqlite.backend import open_sqlite
from tests.conftest import Python


def use(path: Path, work: Callable[[Backend], Awaitable[Any]], **options: Any) -> Any:
    """Open the file, do something with it, close it; what came of it."""

    async def run() -> Any:
        async with open_sqlite(f"sqlite:{path}", **options) as backend:
            return await work(backend)

    return asyncio.run(run())


async def create(backend: Backend) -> bool:
    return (await backend.runs.create_run(run_id="r")).created


@pytest.fixture(params=[0o000, 0o777, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_only_the_owner_may_read_the_files_whatever_the_umask(tmp_path: Path) -> None:
    async def modes(backend: Backend) -> dict[str, int]:
        await create(backend)
        return {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}

    found = use(tmp_path / "a.db", modes)
    assert set(found) == {"a.db", "a.db-wal", "a.db-shm", "a.db-lock"}
    assert set(found.values()) == {0o600}


def test_a_file_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert use(path, lambda backend: backend.admin.check()).warnings == ()
    path.chmod(0o644)
    (warning,) = use(path, lambda backend: backend.admin.check()).warnings
    assert "0644" in warning


def test_a_symbolic_link_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "a.db"
    link.symlink_to(target)
    with pytest.raises(InvalidRequestError, match="symbolic link"):
        use(link, create)
    assert not target.exists()
    target.write_bytes(b"")
    (tmp_path / "b.db-lock").symlink_to(target)
    with pytest.raises(Exception, match="lock file"):
        use(tmp_path / "b.db", create)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "no path"),
        (":memory:", "no path"),
        ("missing/a.db", "a folder that does not exist"),
        (".", "no regular file"),
        ("a%00b", "NUL"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequestError, match=said):
        use(Path(place) if place and "%" not in place else place, create)  # pyright: ignore[reportArgumentType] - any text stands in a URL
    assert list(tmp_path.iterdir()) == []


def test_a_second_name_of_the_file_is_refused(tmp_path: Path) -> None:
    assert use(tmp_path / "a.db", create)
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(InvalidRequestError, match="several names"):
        use(tmp_path / "b.db", create)


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "file_system_of", lambda folder: "nfs4")  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with pytest.raises(InvalidRequestError, match="network"):
        use(tmp_path / "a.db", create)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.close()


def _text(path: Path) -> None:
    path.write_bytes(b"Dear diary, this is no database at all." * 100)


def _newer(path: Path) -> None:
    use(path, create)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _with_trigger(path: Path) -> None:
    use(path, create)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM entries; END")
    connection.close()


@pytest.mark.parametrize("make", [_foreign, _text, _newer, _with_trigger])
def test_what_is_not_ours_or_newer_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "a.db"
    make(path)
    before = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(SchemaVersionError):
        use(path, create)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_the_refusal_of_a_newer_file_names_both_versions(tmp_path: Path) -> None:
    _newer(tmp_path / "a.db")
    with pytest.raises(SchemaVersionError, match=r"format 0099, this code knows 000\d.*update"):
        use(tmp_path / "a.db", create)


@pytest.mark.long
def test_eight_processes_may_open_a_new_file_at_once(tmp_path: Path, root: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from stores_sql.sqlite.backend import open_sqlite\n"
        "async def main():\n"
        "    sys.stdin.readline()\n"
        "    for n in range(10):\n"
        "        async with open_sqlite(f'sqlite:{sys.argv[1]}/{n}.db') as backend:\n"
        "            await backend.runs.create_run(run_id=sys.argv[2])\n"
        "            await backend.runs.create_run(run_id='one')\n"
        "asyncio.run(main())\n"
    )
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program, tmp_path, f"run {number}"],
                    stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root, text=True,
                )
            )
            for number in range(8)
        ]  # fmt: skip
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=100)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 8, said
    for n in range(10):
        listed = use(tmp_path / f"{n}.db", lambda backend: backend.runs.list_runs())
        assert len({run.id for run in listed.runs}) == len(listed.runs) == 9


@pytest.mark.parametrize("ending", ["return", "raise SystemExit", "await asyncio.sleep(0)"])
def test_a_program_that_forgets_to_close_exits(
    tmp_path: Path, root: Path, python: Python, ending: str
) -> None:
    program = (
        "import asyncio\n"
        "from stores_sql.sqlite.backend import open_sqlite\n"
        "async def main():\n"
        f"    opened = open_sqlite('sqlite:{tmp_path / 'a.db'}')\n"
        "    backend = await opened.__aenter__()\n"
        "    kept.append((opened, backend))\n"
        "    await backend.runs.create_run(run_id='r')\n"
        "    await backend.runs.get_run(run_id='r')\n"
        f"    {ending}\n"
        "kept = []\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(main())\n"
    )
    ran = python("-W", "ignore", "-c", program, cwd=root, seconds=20)
    assert ran.returncode == 0, ran.stderr
    assert use(tmp_path / "a.db", lambda backend: backend.runs.get_run(run_id="r")).found


def test_closing_leaves_everything_in_the_one_file(tmp_path: Path) -> None:
    use(tmp_path / "a.db", create)
    shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
    assert not (tmp_path / "a.db-wal").exists()
    assert use(tmp_path / "copy.db", lambda backend: backend.runs.get_run(run_id="r")).found
