"""Notes in files: what lies on the disk, what it costs, and what becomes of damage."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    Backend,
    CorruptRecordError,
    MemoryItem,
    OutcomeUnknownError,
    WordEmbedder,
)
from stores_files import note_folders
from stores_files.disk import Disk
from tests.files_notes import WIDE, listed, notes_of, put, used


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stores"


def lines_of(folder: Path, namespace: str = "n") -> list[dict[str, Any]]:
    """What a person sees with cat and jq."""
    text = (notes_of(folder, namespace) / "notes.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def put_one(backend: Backend) -> None:
    await put(backend, "k0")


def test_notes_are_lines_that_people_can_read(folder: Path) -> None:
    async def work(backend: Backend) -> None:
        await put(backend, "red", "apples", metadata={"n": 1})
        await put(backend, "green", "pears")
        await backend.memory.delete_memory(key="green", namespace="n")

    used(folder, work)
    lines = [line for line in lines_of(folder) if "commit" not in line]
    assert [next(iter(line)) for line in lines] == ["journal", "namespace", "put", "put", "gone"]
    assert lines[2]["value"] == "apples"
    assert lines[2]["metadata"] == {"n": 1}


def test_one_note_more_writes_one_note(folder: Path) -> None:
    async def fill(backend: Backend) -> None:
        for start in range(0, 10_000, 1_000):
            items = [MemoryItem(key=f"{n}", value="x" * 50) for n in range(start, start + 1_000)]
            await backend.memory.put_memories(items=items, namespace="n")

    async def one_more(backend: Backend) -> int:
        before = sizes(folder)
        await put(backend, "one more")
        await put(backend, "7", "another value")
        return sizes(folder) - before

    used(folder, fill)
    assert 0 < used(folder, one_more) < 2_000


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_clients_see_what_others_wrote_also_after_a_journal_was_written_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_folders, "SPARE", 5)

    async def work(one: Backend, other: Backend) -> None:
        for n in range(6):
            await put(one, f"k{n}")
        version = 0
        for _ in range(12):
            version = await put(other, "k3", "again")
        assert await put(one, "gone") == 1
        await other.memory.delete_memory(key="gone", namespace="n")
        assert await listed(one) == ["k0", "k1", "k2", "k3", "k4", "k5"]
        before = (notes_of(folder) / "notes.jsonl").stat().st_size
        assert other.admin is not None
        assert (await other.admin.sweep()).more is False
        assert (notes_of(folder) / "notes.jsonl").stat().st_size < before
        assert await listed(one) == await listed(other) == [f"k{n}" for n in range(6)]
        assert await put(one, "k3") == version + 1
        assert await put(other, "gone") == 2, "a version that the key had is used again"
        assert await listed(one) == [*(f"k{n}" for n in range(6)), "gone"]

    used(folder, work, clients=2)


def test_a_journal_is_written_anew_by_a_write_once_little_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_folders, "_MOST_SPARE", 20)

    async def work(backend: Backend) -> None:
        for n in range(200):
            assert await put(backend, "k", f"value {n}") == n + 1

    used(folder, work, embedder=WordEmbedder(WIDE))
    puts = [line for line in lines_of(folder) if "put" in line]
    assert len(puts) < 40
    assert puts[-1]["version"] == 200
    assert len(list(notes_of(folder).iterdir())) == 2

    async def recall(backend: Backend) -> None:
        assert await listed(backend, "value 199") == ["k"]

    used(folder, recall, embedder=WordEmbedder(WIDE))


def test_a_cursor_goes_on_after_the_journal_was_written_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_folders, "SPARE", 0)

    async def work(backend: Backend) -> None:
        memory, clock = backend.memory, None
        for n in range(6):
            await put(backend, f"k{n}", created_at=clock)
            note = (await memory.get_memory(key="k0", namespace="n")).item
            assert note is not None
            clock = note.created_at  # so that the order of arrival decides
        first = await memory.list_memories(namespace="n", limit=3)
        for n in (0, 1):
            await memory.delete_memory(key=f"k{n}", namespace="n")
        for _ in range(20):
            await put(backend, "k5")
        assert backend.admin is not None
        assert (await backend.admin.sweep()).freed.get("files", 0) == 0
        rest = await memory.list_memories(namespace="n", limit=3, cursor=first.next_cursor)
        assert [scored.item.key for scored in rest.items] == ["k3", "k4", "k5"]

    used(folder, work)


def test_a_namespace_that_lost_its_last_note_leaves_no_folder_and_no_version_twice(
    folder: Path,
) -> None:
    async def work(one: Backend, other: Backend) -> None:
        for _ in range(3):
            await put(one, "k")
        assert (await other.memory.delete_memory(key="k", namespace="n")).deleted
        assert not notes_of(folder).exists()
        assert (await one.memory.list_namespaces()).namespaces == ()
        assert await put(one, "k") == 4
        assert (await other.memory.clear_namespace(namespace="n")).deleted == 1
        assert not notes_of(folder).exists()
        assert await put(other, "k") == 5

    used(folder, work, clients=2)


def test_a_torn_tail_never_counts_and_is_named(folder: Path) -> None:
    used(folder, put_one)
    with (notes_of(folder) / "notes.jsonl").open("ab") as file:
        file.write(b'{"put":"k1","value":"half')

    async def look(backend: Backend) -> None:
        assert backend.admin is not None
        (problem,) = (await backend.admin.verify()).problems
        assert "no whole batch" in problem.what
        assert await listed(backend) == ["k0"]
        await put(backend, "k2")
        assert (await backend.admin.verify()).problems == ()

    used(folder, look)
    assert used(folder, listed) == ["k0", "k2"]


def test_damage_in_the_middle_is_never_skipped(folder: Path) -> None:
    async def fill(backend: Backend) -> None:
        for n in range(4):
            await put(backend, f"k{n}", "secret words")

    async def look(backend: Backend) -> None:
        for call in (listed(backend), put(backend, "k9")):
            with pytest.raises(CorruptRecordError) as damaged:
                await call
            assert "secret" not in str(damaged.value)
        assert backend.admin is not None
        (problem,) = (await backend.admin.verify()).problems
        assert (problem.store, problem.id) == ("memory", "n")

    used(folder, fill)
    file = notes_of(folder) / "notes.jsonl"
    data = bytearray(file.read_bytes())
    data[data.index(b"secret")] ^= 1
    file.write_bytes(data)
    used(folder, look)
    assert file.read_bytes() == data


def test_after_a_failed_sync_the_file_is_not_written_to_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    def sync(self: Disk, file: int) -> None:
        if not failed and os.fstat(file).st_size > 200:
            failed.append(os.fstat(file).st_ino)
            raise OSError(5, "input/output error")
        assert os.fstat(file).st_ino not in failed, "a file whose sync failed was synced again"
        os.fdatasync(file)

    async def work(backend: Backend) -> None:
        await put(backend, "k0")
        monkeypatch.setattr(Disk, "sync", sync)
        with pytest.raises(OutcomeUnknownError):
            await put(backend, "k1")
        assert failed
        await put(backend, "k2")
        assert await listed(backend) == ["k0", "k2"]

    used(folder, work)
    assert used(folder, listed) == ["k0", "k2"]


def test_strange_files_among_the_notes_are_named_and_left_alone(folder: Path) -> None:
    used(folder, put_one)
    notes = notes_of(folder)
    (notes / "README").write_text("mine")
    (notes.parent / ".DS_Store").write_text("mine")

    async def look(backend: Backend) -> None:
        assert backend.admin is not None
        problems = (await backend.admin.verify()).problems
        assert sorted(problem.id for problem in problems) == [".DS_Store", "README"]
        assert (await backend.memory.list_namespaces()).namespaces == ("n",)
        await backend.admin.sweep()

    used(folder, look)
    assert (notes / "README").read_text() == (notes.parent / ".DS_Store").read_text() == "mine"
