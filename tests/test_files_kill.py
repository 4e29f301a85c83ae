"""Processes that are killed lose nothing and leave nothing in the way; a listing opens few files.

The long runs are ``python -m tests.prove --check kills`` and ``python -m tests.files_strace``.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stores_core import open_backend
from tests.conftest import Python
from tests.files_strace import examine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

straced = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

RUNS, PAGE = 300, 50


@pytest.mark.long
@pytest.mark.timeout(300)
def test_twenty_kills_lose_nothing_and_leave_nothing_in_part(
    root: Path, python: Python, tmp_path: Path
) -> None:
    url, killing = f"file:{tmp_path}/{{n}}", "conformance_tests.faults.killing"
    ran = python("-m", killing, "--url", url, "--kills", "20", cwd=root, seconds=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["kills"] == 20


@pytest.mark.long
@straced
@pytest.mark.timeout(300)
def test_a_kill_at_a_system_call_loses_nothing() -> None:
    kills, faults = examine(12)
    assert faults == []
    assert kills > 4, "too few kills to tell anything"


LISTS = """
import asyncio, sys
from stores_core import open_backend

async def work():
    async with open_backend(f"file:{sys.argv[1]}") as backend:
        runs = (await backend.runs.list_runs(limit=int(sys.argv[2]))).runs
        print(len(runs))

asyncio.run(work())
"""


@straced
@pytest.mark.timeout(300)
def test_the_newest_of_many_runs_open_no_more_headers_than_they_are(
    tmp_path: Path, python: Python
) -> None:
    folder = tmp_path / "many"

    async def fill() -> None:
        async with open_backend(f"file:{folder}?durability=client") as backend:
            for n in range(RUNS):
                await backend.runs.create_run(run_id=f"run-{n}")

    asyncio.run(fill())
    log = tmp_path / "log"
    command = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=openat", sys.executable, "-c"]
    listed = subprocess.run(
        [*command, LISTS, str(folder), str(PAGE)], check=True, capture_output=True
    )
    assert listed.stdout.split() == [b"%d" % PAGE]
    opened = re.findall(r'openat\(\d+, "run\.json".* = \d+$', log.read_text("utf-8"), re.MULTILINE)
    assert len(opened) == PAGE
