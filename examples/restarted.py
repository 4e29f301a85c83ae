"""Plays an example in two processes, of which the second knows only what the first one stored."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from tempfile import TemporaryDirectory
from typing import Any

Act = Callable[[str], Coroutine[Any, Any, None]]


def play(first: Act, second: Act) -> None:
    """Both get the URL of the storage: the program's argument, or a file that goes afterwards."""
    if len(sys.argv) > 2:
        asyncio.run(second(sys.argv[1]))
        return
    with TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:{folder}/agent.db"
        asyncio.run(first(url))
        sys.stdout.flush()
        subprocess.run([sys.executable, sys.argv[0], url, "again"], check=True)
