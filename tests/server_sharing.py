"""One server for all workers of a session, kept by a process that ends with their parent."""

import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

_DEADLINE = 60.0


def is_shared(named: str) -> bool:
    """Whether these tests are one of several workers that need a server of their own to share.

    ``named`` is the environment's variable that names one which is there already.
    """
    return "PYTEST_XDIST_WORKER" in os.environ and not os.environ.get(named)


def shared_url(factory: pytest.TempPathFactory, name: str, module: str) -> str:
    """The URL of the server, which the first worker to come starts.

    ``python -m <module> --keep FILE PID`` has to call :func:`keep`.
    """
    folder = factory.getbasetemp().parent / name
    told = folder / "url"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        command = [sys.executable, "-m", module, "--keep", told, str(os.getppid())]
        root = Path(__file__).parent.parent
        with (folder / "log").open("wb") as log:
            subprocess.run(command, cwd=root, stdout=log, stderr=log, check=True)
    end = time.monotonic() + _DEADLINE
    while not told.exists():
        if time.monotonic() > end:
            raise RuntimeError(f"no {name}:\n{(folder / 'log').read_text()[-2_000:]}")
        time.sleep(0.05)
    return told.read_text()


def keep(server: AbstractContextManager[str], told: Path, pid: int) -> None:
    """Keep a server, in the background, as long as the process ``pid`` lives.

    Its URL is in the file ``told`` once it can be used.
    """
    if os.fork():
        return
    os.setsid()
    with server as url:
        part = told.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(url)
        part.replace(told)
        while psutil.pid_exists(pid):
            time.sleep(0.1)
