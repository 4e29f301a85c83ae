"""The writer of a SQLite file: shared commits, waiting, full disks, damage, several processes."""

import asyncio
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    Backend,
    CorruptRecordError,
    InvalidRequestError,
    Message,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from stores_sql.sqlite import writer
from stores_sql.sqlite.backend import open_sqlite
from stores_sql.sqlite.locking import LockFile
from stores_sql.sqlite.statements import Connection
from tests.conftest import Python

TEXT = "private words"


def use(path: Path, work: Callable[[Backend], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with open_sqlite(f"sqlite:{path}", **options) as backend:
            return await work(backend)

    return asyncio.run(run())


def messages(count: int, text: str = TEXT) -> list[Message]:
    return [Message(role="user", text=text) for _ in range(count)]


async def ask_writer(backend: Backend, work: Callable[[Connection], Any]) -> Any:
    """Run something on the writer's connection."""
    return await backend.runs.store._tenant.storage.maintain(work)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


async def pragma(backend: Backend, text: str) -> tuple[int]:
    return await ask_writer(backend, lambda connection: connection.execute(text).fetchone())


async def count_of(backend: Backend, run_id: str = "r") -> int:
    info = (await backend.runs.get_run(run_id=run_id)).info
    assert info is not None
    return info.message_count


def test_appends_that_wait_share_a_commit(tmp_path: Path) -> None:
    async def work(backend: Backend) -> tuple[int, int]:
        commits: list[str] = []

        def see(text: str) -> None:
            commits.extend([text] if text == "COMMIT" else [])

        for n in range(16):
            await backend.runs.create_run(run_id=f"r{n}")
        await ask_writer(backend, lambda connection: connection.set_trace_callback(see))
        commits.clear()
        appends = (
            backend.runs.append_messages(run_id=f"r{n % 16}", messages=messages(2))
            for n in range(160)
        )
        answers = await asyncio.gather(*appends)
        assert all(answer.applied for answer in answers)
        return len(commits), sum([await count_of(backend, f"r{n}") for n in range(16)])

    commits, count = use(tmp_path / "a.db", work)
    assert count == 320
    assert 1 <= commits < 80


def test_an_operation_that_fails_takes_none_of_its_commit_with_it(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        append = backend.runs.append_messages
        await append(run_id="r", messages=messages(1), idempotency_key="k")
        appends = (
            append(run_id="r", messages=messages(2), idempotency_key="k" if n % 3 == 1 else f"{n}")
            for n in range(30)
        )
        answers = await asyncio.gather(*appends, return_exceptions=True)
        for n, answer in enumerate(answers):
            if n % 3 == 1:
                assert isinstance(answer, InvalidRequestError)
                assert TEXT not in str(answer)
            else:
                assert not isinstance(answer, BaseException)
                assert answer.applied
        assert await count_of(backend) == 1 + 20 * 2

    use(tmp_path / "a.db", work)


def test_a_write_that_waits_for_another_process_is_not_applied_when_its_time_ends(
    tmp_path: Path,
) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        other = LockFile(tmp_path / "a.db-lock")
        with other.held(1):
            with pytest.raises(StoreUnavailableError, match="nothing was applied"):
                await backend.runs.append_messages(run_id="r", messages=messages(1), timeout=0.2)
            assert (await backend.runs.get_run(run_id="r")).found, "reads do not wait"
        await backend.runs.create_run(run_id="later")
        assert await count_of(backend) == 0
        with other.held(1), pytest.raises(StoreUnavailableError, match="busy_timeout"):
            await backend.runs.append_messages(run_id="r", messages=messages(1))
        await backend.runs.create_run(run_id="last")
        assert await count_of(backend) == 0
        other.close()

    use(tmp_path / "a.db", work, busy_timeout=0.6)


def test_a_write_that_has_begun_is_of_unknown_outcome_when_its_time_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = writer.begin

    def begin_and_wait(connection: Connection) -> None:
        begin(connection)
        connection.create_function("wait", 0, lambda: slow.wait(5))

    slow = threading.Event()
    monkeypatch.setattr(writer, "begin", begin_and_wait)

    async def work(backend: Backend) -> None:
        tenant: Any = backend.runs.store
        real = tenant._tenant.write

        async def slowed(work: Any) -> Any:
            def then(connection: Connection, number: int) -> Any:
                connection.execute("SELECT wait()")
                return work(connection, number)

            return await real(then)

        tenant._tenant.write = slowed
        with pytest.raises(OutcomeUnknownError) as caught:
            await backend.runs.create_run(run_id="r", timeout=0.2)
        assert caught.value.retry_with == {"run_id": "r"}
        slow.set()
        assert not (await backend.runs.create_run(run_id="r")).created, "it was applied after all"

    use(tmp_path / "a.db", work)


def test_a_cancelled_write_leaves_nothing_open(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        for n in range(200):
            task = asyncio.create_task(
                backend.runs.append_messages(run_id="r", messages=messages(3), timeout=5)
            )
            await asyncio.sleep(n % 20 / 10_000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        answer = await backend.runs.append_messages(run_id="r", messages=messages(3), timeout=5)
        assert answer.applied
        assert answer.message_count % 3 == 0

    use(tmp_path / "a.db", work)


def test_a_full_disk_applies_nothing_and_is_over_when_there_is_room(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=messages(5))
        (pages,) = await pragma(backend, "PRAGMA page_count")
        await pragma(backend, f"PRAGMA max_page_count = {pages + 4}")
        large = "y" * 500_000
        answers = await asyncio.gather(
            *(
                backend.runs.append_messages(run_id="r", messages=messages(1, text))
                for text in (TEXT, large, TEXT, large, TEXT)
            ),
            return_exceptions=True,
        )
        for n, answer in enumerate(answers):
            assert isinstance(answer, StoreUnavailableError) == (n in (1, 3)), answer
        assert await count_of(backend) == 8
        await pragma(backend, "PRAGMA max_page_count = 100000")
        assert (await backend.runs.append_messages(run_id="r", messages=messages(1, large))).applied
        assert not (await backend.admin.verify()).problems

    use(tmp_path / "a.db", work)


def test_a_file_that_may_not_grow_refuses_and_works_again_later(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / "a.db-wal").stat().st_size
        for more in (0, 100, 5_000, 20_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, before[1]))
            try:
                with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
                    await backend.runs.append_messages(
                        run_id="r", messages=messages(1, "z" * 90_000)
                    )
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            assert await count_of(backend) == 0
        assert (await backend.runs.append_messages(run_id="r", messages=messages(2))).applied
        assert not (await backend.admin.verify()).problems

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        use(tmp_path / "a.db", work)
    finally:
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.long
def test_two_processes_append_to_one_run_and_a_third_reads(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "a.db"
    program = (
        "import asyncio, sys\n"
        "from stores_sql.sqlite.backend import open_sqlite\n"
        "async def main():\n"
        "    async with open_sqlite('sqlite:' + sys.argv[1]) as backend:\n"
        "        for n in range(200):\n"
        "            batch = [{'role': 'user', 'text': f'{sys.argv[2]} {n}'}] * 2\n"
        "            await backend.runs.append_messages(run_id='r', messages=batch)\n"
        "asyncio.run(main())\n"
    )

    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        command = [sys.executable, "-c", program, str(path)]
        writers = [
            await asyncio.create_subprocess_exec(*command, name, cwd=root) for name in ("a", "b")
        ]
        seen = 0
        while any(process.returncode is None for process in writers):
            run = (await backend.runs.load_run(run_id="r")).run
            assert run is not None
            assert len(run.messages) >= seen
            assert len(run.messages) % 2 == 0
            seen = len(run.messages)
            await asyncio.sleep(0.01)
        assert [await process.wait() for process in writers] == [0, 0]
        run = (await backend.runs.load_run(run_id="r")).run
        assert run is not None
        texts = [message.text or "" for message in run.messages]
        assert texts[::2] == texts[1::2], "batches stay in one piece"
        for name in ("a", "b"):
            assert [text for text in texts[::2] if text.startswith(name)] == [
                f"{name} {n}" for n in range(200)
            ]

    use(path, work)


def test_a_damaged_file_is_an_error_of_ours_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def fill(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        for _ in range(20):
            await backend.runs.append_messages(run_id="r", messages=messages(20, TEXT * 100))

    use(path, fill)
    data = bytearray(path.read_bytes())
    for start in range(8192 * 30, len(data), 8192):
        data[start : start + 64] = b"\xa5" * 64
    path.write_bytes(data)

    async def look(backend: Backend) -> None:
        with pytest.raises(CorruptRecordError) as caught:
            await backend.runs.load_run(run_id="r")
        assert TEXT not in str(caught.value)
        assert isinstance(caught.value.__cause__, sqlite3.Error)
        problems = (await backend.admin.verify()).problems
        assert problems
        assert TEXT not in repr(problems)

    use(path, look)
    assert path.read_bytes()[8192 * 30 :] == data[8192 * 30 :]


def test_a_damaged_entry_names_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def fill(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=messages(5))

    use(path, fill)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET body = x'7b' WHERE place % 4294967296 = 3")
    connection.close()

    async def look(backend: Backend) -> None:
        with pytest.raises(CorruptRecordError) as caught:
            await backend.runs.load_run(run_id="r")
        assert (caught.value.store, caught.value.id, caught.value.position) == ("runs", "r", 3)
        (problem,) = (await backend.admin.verify()).problems
        assert (problem.store, problem.id, problem.position) == ("runs", "r", 3)
        page = await backend.runs.read_messages(run_id="r", limit=3)
        assert len(page.entries) == 3, "what is not damaged is read"

    use(path, look)


def test_a_child_of_fork_does_not_hold_the_lock_of_a_dead_parent(
    tmp_path: Path, root: Path, python: Python
) -> None:
    program = (
        "import asyncio, os, sys, time\n"
        "from pathlib import Path\n"
        "from stores_sql.sqlite.locking import LockFile\n"
        "lock = LockFile(Path(sys.argv[1]))\n"
        "with lock.held(1):\n"
        "    if os.fork() == 0:\n"
        "        os.close(1); os.close(2)\n"
        "        time.sleep(5)\n"
        "        os._exit(0)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ran = python("-W", "ignore", "-c", program, tmp_path / "lock", cwd=root)
    assert ran.returncode == -signal.SIGKILL
    lock = LockFile(tmp_path / "lock")
    with lock.held(0.5):
        pass
    lock.close()
