"""The backend keeps the contract, and is found under its scheme."""

import asyncio
import subprocess
import sys
from pathlib import Path

from stores_core import open_backend, schemes


def test_the_suite_finds_the_backend_conformant(tmp_path: Path) -> None:
    command = ["-m", "conformance_tests", "--url", f"lmdb:{tmp_path}", "--quick"]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr


async def _kept_beyond_closing(path: Path) -> bool:
    async with open_backend(f"lmdb:{path}") as backend:
        await backend.runs.create_run(run_id="r")
    async with open_backend(f"lmdb:{path}") as backend:
        return (await backend.runs.get_run(run_id="r")).found


def test_its_scheme_opens_what_was_kept(tmp_path: Path) -> None:
    assert "lmdb" in schemes()
    assert asyncio.run(_kept_beyond_closing(tmp_path))
