"""The journal of files: what was committed is read back, and a torn tail never counts."""

import dataclasses
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores_core.errors import CorruptRecordError
from stores_files import commits
from stores_files.commits import EVENTS, MESSAGES, Batch
from stores_files.disk import Disk
from stores_files.journal import Journal
from stores_files.names import id_of, name_of

NAME, ID = "journal.jsonl", "0" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    opened = Disk().open_root(str(tmp_path))
    yield opened
    os.close(opened)


def batch(n: int, messages: int = 2, events: int = 1) -> Batch:
    return Batch(
        [b'{"role":"user","text":"%d.%d"}' % (n, i) for i in range(messages)],
        [b'{"kind":"x","step":%d}' % n for _ in range(events)],
        at=n,
        key=f"k{n}" if n % 2 else "",
        digest="d" if n % 2 else "",
    )


def written(folder: int, count: int) -> list[Batch]:
    batches = [batch(n, n % 4, n % 3) for n in range(1, count + 1)]
    journal = Journal.make(Disk(), folder, NAME, ID)
    for each in batches:
        journal.append([each])
    journal.close()
    return batches


def test_what_was_committed_is_read_from_any_position(folder: int) -> None:
    batches = written(folder, 60)
    journal = Journal.open(Disk(), folder, NAME)
    for kind, texts in (
        (MESSAGES, [text for each in batches for text in each.messages]),
        (EVENTS, [text for each in batches for text in each.events]),
    ):
        assert journal.length(kind) == len(texts)
        for begin in range(len(texts)):
            assert journal.read(kind, begin, begin + 5) == texts[begin : begin + 5]
    for size in (40, 41):
        journal.append([batch(99, size, 2)])
        texts = batch(99, size, 2).messages
        start = journal.length(MESSAGES) - size
        for low, high in itertools.combinations(range(size + 1), 2):
            assert journal.read(MESSAGES, start + low, start + high) == texts[low:high]
    journal.close()
    journal = Journal.open(Disk(), folder, NAME)
    assert [commit.key for commit in journal.keyed(5)] == ["k99", "k99", "k59", "k57", "k55"]
    journal.close()


@pytest.mark.parametrize("log", [ID, 'é\n"\\', "x" * 512, "\x01" * 512])
@pytest.mark.parametrize("key", ["", "k", "\x01" * 512])
def test_a_commit_is_what_its_line_says(log: str, key: str) -> None:
    first = commits.Commit(100, 150, 50, 50, -1, (3, 2), (0, 0), (7, 0, 0), "", "")
    for previous, counts in itertools.product([None, first], [(0, 1), (2, 0), (3, 4)]):
        new = dataclasses.replace(batch(8, *counts), at=-(10**17), key=key, digest="d")
        lines, commit = commits.written(log, new, previous, 150, 150)
        entries, line = lines[: commit.offset - 150], lines[commit.offset - 150 :]
        assert entries == b"".join(text + b"\n" for text in (*new.messages, *new.events))
        assert commits.is_whole(entries, line)
        assert commits.parsed(log, line, commit.offset) == commit
        assert commit.end == 150 + len(lines)


@pytest.mark.long
def test_a_tail_cut_at_any_byte_leaves_whole_batches_and_takes_new_ones(
    folder: int, tmp_path: Path
) -> None:
    written(folder, 7)
    whole, file = (tmp_path / NAME).read_bytes(), tmp_path / NAME
    lengths: dict[int, int] = {}
    for size in range(len(whole), len(whole.partition(b"\n")[0]), -1):
        file.write_bytes(whole[:size])
        journal = Journal.open(Disk(), folder, NAME)
        length = journal.length(MESSAGES)
        lengths[length] = size
        journal.append([batch(99)])
        assert journal.length(MESSAGES) == length + 2
        journal.close()
        again = Journal.open(Disk(), folder, NAME)
        assert again.read(MESSAGES, length, length + 2) == list(batch(99).messages)
        assert len(again.read(MESSAGES, 0, length)) == length
        again.close()
    assert len(lengths) > 4, "the cuts went through several batches"


def test_damage_before_a_later_write_is_told_and_never_skipped(folder: int, tmp_path: Path) -> None:
    written(folder, 6)
    file = tmp_path / NAME
    data = bytearray(file.read_bytes())
    place = data.index(b'"2.0"')
    data[place + 1] ^= 1
    file.write_bytes(data)
    journal = Journal.open(Disk(), folder, NAME)
    with pytest.raises(CorruptRecordError):
        journal.read(MESSAGES, 0, journal.length(MESSAGES))
    journal.close()


@pytest.mark.parametrize(
    "id",
    ["", "plain-1", "Run", "run", "../x", "a/b", "CON", "nul.txt", "é", "e\u0301", ".", "x" * 512],
)
def test_a_name_is_safe_and_tells_ids_apart(id: str) -> None:
    name = name_of(id)
    assert 0 < len(name) <= 255
    assert name == name.lower()
    assert name.isascii()
    assert name[0] not in ".-"
    assert not set(name) & set('/\\:*?"<>|')
    assert id_of(name) in (id, None)
    assert len({name_of(other) for other in ("Run", "run", "RUN", "é", "e\u0301", id)}) >= 5
