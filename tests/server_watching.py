"""Somebody who ends a server, and clears up, where the process that started it is killed itself."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

_WATCH = """
while kill -0 "$1" 2>/dev/null; do sleep 1; done
kill -"$2" "$3"; sleep 2; rm -rf "$4"
"""


class Watch:
    """Watches over one server, which ends by ``ends_by`` and has its data in ``folder``."""

    def __init__(self, folder: Path, ends_by: signal.Signals) -> None:
        self._folder, self._ends_by = folder, ends_by
        self._process: subprocess.Popen[Any] | None = None

    def begin(self, server: int) -> None:
        """Watch over the process ``server`` until :meth:`end`, or until we are gone."""
        said = [str(os.getpid()), str(int(self._ends_by)), str(server), self._folder]
        self._process = subprocess.Popen(
            ["sh", "-c", _WATCH, "watch", *said], start_new_session=True
        )

    def end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
