"""Vectors in files: flat, mapped, made anew where they are damaged or another embedder's."""

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from stores_core import (
    Backend,
    ListMemoriesRequest,
    MemoryItem,
    StoreUnavailableError,
    WordEmbedder,
)
from stores_files.backend import open_files
from stores_files.disk import Disk
from stores_files.layout import VECTORS
from tests.conftest import Python
from tests.files_notes import WIDE, listed, notes_of, put, used


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stores"


class Renamed(WordEmbedder):
    """The same vectors under another name."""

    def __init__(self) -> None:
        super().__init__(WIDE)
        self.name = "another"


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


@pytest.mark.long
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
