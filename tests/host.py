"""A project of somebody else, in which the conformance suite is run."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN = """
import sys
from pathlib import Path
from conformance_tests.__main__ import main
sys.exit(main(sys.argv[2:], suite=Path(sys.argv[1])))
"""

IMPORTS = """
import asyncio
import warnings

import pytest

from conformance_tests.contract import UNPROVABLE, guarantees
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from stores_core import Capability
"""

ALL_PROVED = """
@proves(*(set(guarantees()) - set(UNPROVABLE)), look_at="nothing")
async def test_everything(lab: Lab) -> None:
    assert lab.backend.name
"""

OPENERS = """
import asyncio
from contextlib import asynccontextmanager

from stores_core import Backend, Capability
from stores_core.in_memory.backend import open_memory


class Changed:
    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)


class WrongForkPoint(Changed):
    async def fork_run(self, request):
        answer = await self._store.fork_run(request)
        return answer.model_copy(update={"fork_point": answer.fork_point + 1})


@asynccontextmanager
async def whole(*, tenant="", embedder=None, **options):
    async with open_memory("memory:whole", tenant=tenant, embedder=embedder, **options) as backend:
        yield backend


@asynccontextmanager
async def shared(*, tenant=""):
    # Insists, as many drivers do, on being left by the task that entered it.
    owner = asyncio.current_task()
    async with open_memory("memory:shared", tenant=tenant) as inner:
        yield Backend(
            name="shared",
            runs=inner.runs.store,
            capabilities=frozenset({Capability.SHARED}),
        )
    assert asyncio.current_task() is owner


@asynccontextmanager
async def wrong_fork_point(*, tenant=""):
    async with open_memory("memory:wrong", tenant=tenant) as inner:
        yield Backend(name="wrong", runs=WrongForkPoint(inner.runs.store))


@asynccontextmanager
async def without_tenants():
    async with open_memory() as inner:
        yield Backend(name="bare", tool_results=inner.tool_results.store)


@asynccontextmanager
async def fails_to_open():
    raise OSError("cannot reach db://user:hunter2@host")
    yield


@asynccontextmanager
async def fails_to_close():
    async with open_memory() as backend:
        yield backend
    raise OSError("hunter2")


@asynccontextmanager
async def opens_once():
    global opened
    if globals().get("opened"):
        raise RuntimeError("already open")
    opened = True
    async with open_memory() as inner:
        yield Backend(
            name="once", runs=inner.runs.store, capabilities=frozenset({Capability.SHARED})
        )


@asynccontextmanager
async def yields_a_store():
    async with open_memory() as backend:
        yield backend.runs


async def forgot_the_decorator():
    yield None


number = 7
"""


@dataclass
class Ran:
    """What came of a run: its exit code, all that it printed, its verdict as JSON."""

    code: int
    said: str
    verdict: dict[str, Any]

    def state(self, number: str) -> str:
        return self.of(number)["state"]

    def of(self, number: str) -> dict[str, Any]:
        return next(g for g in self.verdict["guarantees"] if g["number"] == number)


class Host:
    """The project's folder, with openers in it and a suite of a few lines."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.suite = folder / "a_suite"
        self.suite.mkdir()
        self._root = root
        self.write("openers.py", OPENERS)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    def tests(self, *texts: str, name: str = "test_sample.py") -> None:
        body = "\n".join(textwrap.dedent(text) for text in texts)
        (self.suite / name).write_text(IMPORTS + body, encoding="utf-8")

    def examine(
        self, *arguments: str, real: bool = False, settings: dict[str, str] | None = None
    ) -> Ran:
        """Run the suite of ``tests``, or the real one; ``settings`` go to the environment."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
        path = os.pathsep.join([str(self._root), str(self.folder)])
        report = self.folder / "verdict.json"
        report.unlink(missing_ok=True)
        start: list[str] = ["-m", "conformance_tests"] if real else ["-c", RUN, str(self.suite)]
        ran = subprocess.run(
            [sys.executable, *start, *arguments, "--json", str(report)],
            cwd=self.folder,
            env={**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **(settings or {})},
            capture_output=True,
            encoding="utf-8",
            timeout=110,
            check=False,
        )
        verdict: dict[str, Any] = json.loads(report.read_text("utf-8")) if report.exists() else {}
        return Ran(ran.returncode, ran.stdout + ran.stderr, verdict)
