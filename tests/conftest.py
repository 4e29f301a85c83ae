"""What the tests share: event loops, where the repository is, other processes."""

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.postgres_notes import index_early
from tests.postgres_server import postgres, postgres_url, shared_postgres_url
from tests.redis_cluster import small_cluster
from tests.redis_server import own_redis, redis, redis_url, wheel_version
from tests.storages import shared_url, url, url_alone

# fixtures of all tests
__all__ = [
    "index_early",
    "own_redis",
    "postgres",
    "postgres_url",
    "redis",
    "redis_url",
    "shared_postgres_url",
    "shared_url",
    "small_cluster",
    "url",
    "url_alone",
    "wheel_version",
]

ROOT = Path(__file__).parent.parent

Python = Callable[..., CompletedProcess[str]]


@pytest.fixture
def root() -> Path:
    """The folder of the repository."""
    return ROOT


def run_python(
    cwd: Path,
    *arguments: str | Path,
    executable: str | Path = sys.executable,
    seconds: float = 60,
    warnings: str = "error",
) -> CompletedProcess[str]:
    """Runs Python in a folder. ``warnings`` is what becomes of them, in its children too."""
    # No PYTHONPATH and no pytest settings of the outer run may reach the inner one.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "COV_"))
    }
    return subprocess.run(
        [executable, *arguments],
        cwd=cwd,
        env=kept | {"PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": warnings},
        timeout=seconds,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs Python in an empty folder: ``python("-c", "print(1)")``.

    ``cwd`` is another folder, ``executable`` another interpreter, ``seconds`` the time it has.
    """
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*arguments: str | Path, cwd: Path = empty, **how: Any) -> CompletedProcess[str]:
        return run_python(cwd, *arguments, **how)

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine function runs on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
