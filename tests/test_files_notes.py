"""Notes in files: what lies on the disk, what it costs, and what becomes of damage."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stores_core import (
    Backend,
    CorruptRecordError,
    ListMemoriesRequest,
    MemoryItem,
    OutcomeUnknownError,
    StoreUnavailableError,
    WordEmbedder,
)
from stores_files import note_folders
from stores_files.backend import open_files
from stores_files.disk import Disk
from stores_files.layout import VECTORS
from tests.conftest import Python

WIDE = 8


class Renamed(WordEmbedder):
    """The same vectors under another name."""

    def __init__(self) -> None:
        super().__init__(WIDE)
        self.name = "another"


def used(
    folder: Path, work: Callable[..., Awaitable[Any]], clients: int = 1, **options: Any
) -> Any:
    """Open the folder, some times at once, do something with it, close it; what came of it."""

    async def run() -> Any:
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(open_files(f"file:{folder}", **options))
                for _ in range(clients)
            ]
            return await work(*opened)

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stores"


def notes_of(folder: Path, namespace: str = "n") -> Path:
    return folder / "tenants" / "%" / "notes" / namespace


def lines_of(folder: Path, namespace: str = "n") -> list[dict[str, Any]]:
    """What a person sees with cat and jq."""
    text = (notes_of(folder, namespace) / "notes.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def put_one(backend: Backend) -> None:
    await put(backend, "k0")


async def put(backend: Backend, key: str, value: str = "v", **fields: Any) -> int:
    item = MemoryItem(key=key, value=value, **fields)
    return (await backend.memory.put_memory(item=item, namespace="n")).version


async def listed(backend: Backend, query: str = "", limit: int = 0) -> list[str]:
    answer = await backend.memory.list_memories(namespace="n", query=query, limit=limit)
    return [scored.item.key for scored in answer.items]


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


def test_numpy_maps_the_vectors(folder: Path) -> None:
    async def work(backend: Backend) -> list[bytes | None]:
        for n in range(3):
            await put(backend, f"k{n}", f"word {n}")
        assert backend.moving is not None
        records = (await backend.moving.export_memories()).memories
        return [record.vector for record in records]

    vectors = used(folder, work, embedder=WordEmbedder(WIDE))
    (file,) = notes_of(folder).glob("vectors-*.f32")
    rows = np.memmap(file, dtype="<f4", mode="r").reshape(-1, WIDE)
    assert [row.tobytes() for row in rows] == vectors


WRITES = """
import asyncio, sys
from stores_core import MemoryItem, WordEmbedder, open_backend
async def work(folder, first, count):
    async with open_backend(f"file:{folder}", embedder=WordEmbedder(8)) as backend:
        items = [
            MemoryItem(key=f"k{n}", value=f"word {n} of {count}")
            for n in range(int(first), int(first) + int(count))
        ]
        await backend.memory.put_memories(items=items, namespace="n")
        if first == "0":
            await backend.memory.delete_memory(key="k1", namespace="n")
        if first == "100":
            await backend.admin.sweep()
asyncio.run(work(*sys.argv[1:]))
"""


def maps_vectors() -> bool:
    return VECTORS in Path("/proc/self/maps").read_text("utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system what is mapped")
def test_vectors_are_mapped_and_follow_what_another_process_writes(
    folder: Path, python: Python
) -> None:
    async def work(backend: Backend) -> list[bool]:
        mapped = list[bool]()

        async def look() -> None:
            """As one that opens the folder now, however it holds the vectors."""
            query = ListMemoriesRequest(query="word 3 of 50", limit=20, namespace="n")
            answer = await backend.memory.list_memories(query)
            mapped.append(maps_vectors())
            async with open_files(f"file:{folder}", embedder=WordEmbedder(WIDE)) as fresh:
                assert (await fresh.memory.list_memories(query)) == answer
            assert answer.items

        await put(backend, "begin", "word 3")
        await look()
        for first, count in ((10, 50), (60, 5), (12, 3), (0, 10), (100, 1_000), (3_000, 1)):
            arguments = "-c", WRITES, folder, str(first), str(count)
            assert not (await asyncio.to_thread(python, *arguments)).returncode
            await look()
        return mapped

    mapped = used(folder, work, embedder=WordEmbedder(WIDE))
    assert mapped[:3] == [True, True, True], "rows that all count are mapped, further ones too"


def test_a_file_of_vectors_that_is_cut_while_it_is_mapped_ends_no_process(folder: Path) -> None:
    async def work(backend: Backend) -> None:
        items = [MemoryItem(key=f"m{n}", value=f"word {n}") for n in range(900)]
        await backend.memory.put_memories(items=items, namespace="n")
        before = await listed(backend, "word 7", limit=5)
        (file,) = notes_of(folder).glob("vectors-*.f32")
        os.truncate(file, 100)
        assert await listed(backend, "word 7", limit=5) == before  # made anew
        assert (await backend.admin.verify()).problems == ()

    used(folder, work, embedder=WordEmbedder(512))


def test_what_another_embedder_left_is_freed_by_sweep(folder: Path) -> None:
    async def fill(backend: Backend) -> None:
        await put(backend, "k0", "red apples")
        await put(backend, "k1", "green pears")

    async def take_over(backend: Backend) -> None:
        assert backend.admin is not None
        assert (await backend.admin.reembed(limit=1)).done is False
        await backend.admin.sweep()  # keeps what is being filled
        assert (await backend.admin.reembed(limit=1)).done
        assert len(list(notes_of(folder).glob("vectors-*"))) == 2
        assert (await backend.admin.sweep()).freed["files"] == 1
        assert len(list(notes_of(folder).glob("vectors-*"))) == 1
        assert await listed(backend, "green", limit=1) == ["k1"]
        assert (await backend.admin.verify()).problems == ()

    used(folder, fill, embedder=WordEmbedder(WIDE))
    used(folder, take_over, embedder=Renamed())


@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_a_damaged_vector_is_named_and_made_anew(folder: Path, how: str) -> None:
    async def fill(backend: Backend) -> None:
        await put(backend, "k0", "red apples")
        await put(backend, "k1", "green pears")

    async def look(backend: Backend) -> None:
        assert backend.admin is not None
        (problem,) = (await backend.admin.verify()).problems
        assert "vectors cannot be read" in problem.what
        assert await listed(backend, "green", limit=1) == ["k1"]
        assert (await backend.admin.verify()).problems == ()

    used(folder, fill, embedder=WordEmbedder(WIDE))
    (file,) = notes_of(folder).glob("vectors-*.f32")
    data = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-5] if how == "cut" else data[:-1] + bytes([data[-1] ^ 0x40]))
    used(folder, look, embedder=WordEmbedder(WIDE))


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


def test_vectors_that_cannot_be_written_leave_the_note_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Disk.write

    def full(self: Disk, file: int, offset: int, data: bytes) -> None:
        if len(data) == 4 * WIDE:
            raise OSError(28, "no room")
        write(self, file, offset, data)

    async def work(backend: Backend) -> None:
        await put(backend, "k0", "red")
        with monkeypatch.context() as patch:
            patch.setattr(Disk, "write", full)
            with pytest.raises(StoreUnavailableError):
                await put(backend, "k0", "green")
        assert await put(backend, "k1", "blue") == 1
        note = (await backend.memory.get_memory(key="k0", namespace="n")).item
        assert note is not None
        assert (note.value, note.version) == ("red", 1)
        assert await listed(backend, "blue", limit=1) == ["k1"]

    used(folder, work, embedder=WordEmbedder(WIDE))


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
