"""What is recorded of a process is what it did, and what a power cut may leave of it is found."""

import json
import mmap
import os
import random
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance_tests.broken.defects.power import instead
from conformance_tests.faults import system_calls
from conformance_tests.faults.calls import OPTIONS, RECORDED, NotUnderstoodError
from conformance_tests.faults.command import COULD_NOT_RUN, SOUND, TOO_LITTLE
from conformance_tests.faults.crash_states import (
    ROOT,
    Born,
    Change,
    Nodes,
    Platter,
    Renamed,
    Synced,
    Written,
    left_at,
)
from conformance_tests.faults.folder import (
    RecordedFolder,
    Said,
    differences,
    found_in,
    paths_of,
)
from conformance_tests.faults.replaying import Replay
from conformance_tests.opener import moved
from stores_core import Backend, open_backend
from tests.conftest import ROOT as CHECKOUT
from tests.conftest import run_python

pytestmark = pytest.mark.skipif(bool(system_calls.missing()), reason=system_calls.missing())

PROGRAM = """
import os, sys, mmap, threading
root = sys.argv[1]
folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
RW, NEW = os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL
"""
"""What all programs here begin with."""

EVERYTHING = """
os.mkdir("sub", dir_fd=folder); os.mkdir(f"{root}/gone"); os.rmdir(f"{root}/gone")
a = os.open("a, b>", NEW, 0o600, dir_fd=folder)
os.write(a, b"hello "); os.writev(a, [b"wor", b"", b"ld\\n"]); os.lseek(a, -3, os.SEEK_END)
os.write(a, b"LD"); os.pwrite(a, b"H", 0); os.pwritev(a, [b"E", b"L"], 1); os.fsync(a)
b = os.dup(a); os.read(os.open("a, b>", RW, dir_fd=folder), 4); os.write(b, b"?"); os.close(a)
os.dup2(b, 77); os.lseek(77, 40, os.SEEK_SET); os.write(b, b"behind a hole"); os.fdatasync(b)
os.pwritev(b, [b"!"], 60, os.RWF_DSYNC)
os.rename("a, b>", "sub/c", src_dir_fd=folder, dst_dir_fd=folder); os.fsync(folder)
os.link(f"{root}/sub/c", f"{root}/d"); os.rename(f"{root}/d", f"{root}/sub/c")
log = os.open(f"{root}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC, 0o600)
os.write(log, b"1"); os.lseek(log, 0, os.SEEK_SET); os.write(log, b"2")
e = os.open("e", NEW, 0o600, dir_fd=folder)
os.lseek(b, 0, os.SEEK_SET); os.copy_file_range(b, e, 5); os.copy_file_range(b, e, 3, 1, 20)
os.sendfile(e, b, 2, 4); os.sendfile(e, b, None, 6)
os.posix_fallocate(e, 0, 200); os.ftruncate(b, 50); os.truncate(f"{root}/e", 150)
with open(f"{root}/py", "w") as py: py.write("text")
with open(f"{root}/py", "r+") as py: py.seek(2); py.write("s")
with open(f"{root}/short", "w") as py: py.write("long")
with open(f"{root}/short", "w") as py: py.write("s")
os.chdir(f"{root}/sub"); os.rename("../py", "py"); os.symlink("x", "/tmp/" + str(os.getpid()))
os.unlink("/tmp/" + str(os.getpid())); os.rename("py", "/tmp/" + str(os.getpid()))
os.unlink("/tmp/" + str(os.getpid()))
unnamed = os.open(root, RW | os.O_TMPFILE, 0o600); os.write(unnamed, b"unnamed")
os.link(f"/proc/self/fd/{unnamed}", "named", src_dir_fd=folder)
held = os.open("held", NEW, 0o600); os.ftruncate(held, 4096)
seen = mmap.mmap(held, 4096); seen[:5] = b"bytes"
def write(n):
    for i in range(40):
        file = os.open(f"of{n}", RW | os.O_CREAT, 0o600, dir_fd=folder)
        os.pwrite(file, bytes([65 + n]) * (i + 1), 7 * i)
        os.pwrite(e, bytes([65 + n]), 1000 + 4 * i + n)
        os.fdatasync(file); os.close(file)
        os.rename(f"of{n}", f"of{n} again", src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        os.rename(f"of{n} again", f"of{n}", src_dir_fd=folder, dst_dir_fd=folder)
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.unlink("log", dir_fd=folder); os.sync()
"""


def recorded(folder: Path, program: str) -> tuple[RecordedFolder, Replay, str]:
    """A program, run and replayed: the folder as it was recorded, and the log."""
    live, log, script = folder / "live", folder / "log", folder / "program.py"
    live.mkdir()
    script.write_text(PROGRAM + program, "utf-8")
    calls = ",".join(f"?{call}" for call in RECORDED)
    subprocess.run(
        [
            *(system_calls.STRACE, "-f", "-qq", "-o", str(log), "-e", f"trace={calls}"),
            *("-e", "signal=none", *OPTIONS, sys.executable, "-I", str(script), str(live)),
        ],
        check=True,
        cwd=folder,
    )
    text = log.read_text("utf-8")
    found = RecordedFolder(str(live))
    replay = Replay(found, int(text.split()[0]), 0, str(folder))
    replay.play(text)
    return found, replay, text


def test_what_was_recorded_is_what_lies_there_byte_by_byte(tmp_path: Path) -> None:
    found, replay, log = recorded(tmp_path, EVERYTHING)
    assert {"d", "e", "short", "sub/c", "sub/named"} < paths_of(found.nodes).keys()
    assert differences(found.nodes, found_in(tmp_path / "live"), replay.unseen) == []
    assert replay.unseen == {paths_of(found.nodes)["sub/held"]}
    for call in (
        *("openat", "write", "writev", "pwrite64", "pwritev2", "sendfile", "copy_file_range"),
        *("fallocate", "ftruncate", "truncate", "fsync", "fdatasync", "sync", "mkdir", "mkdirat"),
        *("rename", "renameat", "link", "linkat", "unlink", "unlinkat", "rmdir", "lseek", "chdir"),
    ):
        assert f" {call}(" in log, f"the program made no call {call}"
    platter = Platter({ROOT: {}})
    for change in changes(found):
        platter.take(change)
    assert differences(platter.nodes, found.nodes, replay.unseen) == [], (
        "it ends with a sync of all"
    )


def changes(folder: RecordedFolder) -> list[Change]:
    return [each for each in folder.record if not isinstance(each, Said)]


def rng() -> random.Random:
    return random.Random(0)


@pytest.mark.parametrize(
    ("program", "call"),
    [
        ("os.symlink('x', f'{root}/y')", "symlink"),
        ("os.mkfifo(f'{root}/y')", "mknod"),
        ("open(f'{root}/../in', 'w'); os.rename(f'{root}/../in', f'{root}/y')", "rename"),
        (
            "r, w = os.pipe(); os.write(w, b'1'); f = os.open('f', NEW, dir_fd=folder)\n"
            "os.splice(r, f, 1)",
            "splice",
        ),
        ("os.fork() or os.mkdir('f', dir_fd=folder)", "mkdirat"),
        ("f = os.open('f', NEW, dir_fd=folder); os.sendfile(f, os.open(__file__, 0), 0, 3)", ""),
    ],
)
def test_what_is_not_known_is_refused_by_name(tmp_path: Path, program: str, call: str) -> None:
    with pytest.raises(NotUnderstoodError, match=f"it is not known what this does: {call}"):
        recorded(tmp_path, program)


@pytest.mark.parametrize(
    ("steps", "torn", "lost"),
    [
        ("put sync move folder", False, False),
        ("put move folder", True, True),
        ("put move folder sync", True, False),
        ("sync put move folder", True, True),
        ("put sync move", False, True),
        ("put sync folder move", False, True),
    ],
)
def test_a_lost_sync_is_found_in_a_store_of_one_file(
    tmp_path: Path, steps: str, torn: bool, lost: bool
) -> None:
    """``torn``: its name may stand for a part of it. ``lost``: at the end it may not be there."""
    step = {
        "put": "os.write(f, b'whole ' * 200)",
        "sync": "os.fsync(f)",
        "move": "os.rename(f'{root}/new', f'{root}/it')",
        "folder": "os.fsync(folder)",
    }
    program = "f = os.open('new', NEW, 0o600, dir_fd=folder)\n"
    found, _, _ = recorded(tmp_path, program + "\n".join(step[each] for each in steps.split()))
    made = changes(found)
    moments = dict.fromkeys(range(len(made) + 1), 50)
    seen = [(n, _it(left)) for n, left in left_at(Platter({ROOT: {}}), made, moments, rng())]
    whole = b"whole " * 200
    assert any(it not in (None, whole) for _, it in seen) is torn
    assert any(it != whole for n, it in seen if n == len(made)) is lost


def _it(nodes: Nodes) -> bytes | None:
    names = nodes[ROOT]
    assert isinstance(names, dict)
    it = nodes[names["it"]] if "it" in names else None
    assert not isinstance(it, dict)
    return it


LOG = """\
7 openat(AT_FDCWD, "{f}", O_RDWR|O_CREAT, 0600) = 3<{f}>
7 pwrite64(3<{f}>, "\\x31", 1, 0) = 1
7 fsync(3<{f}> <unfinished ...>
8 pwrite64(3<{f}>, "\\x32", 1, 1) = 1
7 <... fsync resumed>) = 0
7 close(3<{f}> <unfinished ...>
8 openat(AT_FDCWD, "{g}", O_RDWR|O_CREAT, 0600) = 3<{g}>
7 <... close resumed>) = 0
8 write(3<{g}>, "\\x33\\x33", 2) = 1
9 clone3({{flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}}, 88) = 8
"""


def test_threads_are_joined_and_a_sync_covers_what_was_done_when_it_began() -> None:
    folder = RecordedFolder("/r")
    path = {name: "".join(f"\\x{each:02x}" for each in f"/r/{name}".encode()) for name in "fg"}
    Replay(folder, 7, 0, "/").play(LOG.format(**path))
    assert folder.record == [
        *(Born(2, is_folder=False), Renamed(((ROOT, "f", 2),)), Written(2, 0, b"1")),
        *(Synced(2), Written(2, 1, b"2")),
        *(Born(3, is_folder=False), Renamed(((ROOT, "g", 3),)), Written(3, 0, b"3")),
    ]


def test_what_is_written_through_takes_nothing_along_that_lies_elsewhere() -> None:
    platter = Platter({ROOT: {"f": 2}, 2: b""})
    for change in (Written(2, 0, b"page"), Written(2, 8, b"meta", through=True)):
        platter.take(change)
    left = [nodes[2] for nodes in platter.states(rng(), 1_000)]
    assert b"\0\0\0\0\0\0\0\0meta" in left
    assert b"page\0\0\0\0meta" in left
    assert all(isinstance(each, bytes) and each.endswith(b"meta") for each in left)


def cut(*arguments: str, code: int, states: int = 100) -> dict[str, Any]:
    """What the command tells."""
    module = "conformance_tests.faults.power_cuts"
    ran = run_python(CHECKOUT, "-m", module, *arguments, "--states", str(states), seconds=200)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return {"said": ran.stderr} if code == COULD_NOT_RUN else json.loads(ran.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "states"),
    [("sqlite:a.db", 84), ("file:a", 84), ("sqlite:a.db?durability=client", 24)],
)
def test_our_stores_lose_nothing_and_hold_nothing_in_part(url: str, states: int) -> None:
    told = cut("--url", url, code=SOUND, states=states)
    assert told["states"] == states
    assert told["lost"] == 0
    assert told.get("unseen", []) == (["a.db-shm"] if url.startswith("sqlite") else [])


@pytest.mark.long
def test_what_is_not_on_the_disk_and_does_not_claim_to_be_may_be_lost() -> None:
    assert cut("--url", "file:a?durability=client", code=SOUND, states=24)["lost"] > 0


@asynccontextmanager
async def through_mappings(*, folder: str) -> AsyncGenerator[Backend]:
    """Files that are written through mappings."""

    def write(file: int, data: bytes, offset: int) -> int:
        size = max(os.fstat(file).st_size, offset + len(data))
        os.ftruncate(file, size)
        with mmap.mmap(file, size) as mapped:
            mapped[offset : offset + len(data)] = bytes(data)
        return len(data)

    with instead(pwrite=write):
        async with open_backend(f"file:{folder}/a") as backend:
            yield backend


@asynccontextmanager
async def elsewhere(*, folder: str) -> AsyncGenerator[Backend]:
    """What keeps nothing in its folder."""
    async with open_backend(f"memory:{folder}") as backend:
        yield backend


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("through_mappings", "a copy of all that was seen is not whole"),
        ("elsewhere", "it keeps no files in the folder that it was given"),
    ],
)
def test_of_what_is_not_seen_nothing_is_proved(name: str, why: str) -> None:
    told = cut(f"{__name__}:{name}", code=TOO_LITTLE)
    assert told["unproved"].startswith(why)
    assert told["states"] == 0


@pytest.mark.long
def test_a_few_states_prove_nothing() -> None:
    told = cut("--url", "file:a", code=TOO_LITTLE, states=10)
    assert (told["states"], told["not_run"]) == (0, 10)


@pytest.mark.parametrize("url", ["memory:a", "redis://localhost:6379/0", "postgresql://u@h/db"])
def test_what_has_no_place_is_told_so(url: str) -> None:
    assert moved(url, Path("/there")) == ""
    assert "its URL has no path" in cut("--url", url, code=COULD_NOT_RUN)["said"]
