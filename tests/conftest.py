"""What the tests share: where the repository is, and Python in a process of its own."""

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs Python in an empty folder, warnings being errors: ``python("-c", "print(1)")``.

    ``executable`` is another interpreter, ``seconds`` how long it may take.
    """

    def run(
        *arguments: str | Path,
        executable: str | Path = sys.executable,
        seconds: float = 60,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        empty = tmp_path / "cwd"
        empty.mkdir(exist_ok=True)
        # No PYTHONPATH and no pytest settings of the outer run may reach the inner one.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST", "COV_"))
        }
        environment = kept | {"PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
        return subprocess.run(
            [executable, *arguments],
            cwd=cwd or empty,
            env=environment,
            timeout=seconds,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
