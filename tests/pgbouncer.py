"""A real PgBouncer before a server, where one is installed (Debian: ``apt-get install pgbouncer``).

It is in transaction mode: each transaction, and each statement outside of one, may run on another
of a few connections to the server.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tests.postgres_embedded import free_port, give, running_as, unprivileged

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_DEADLINE = 10.0


@contextmanager
def pgbouncer(url: str, *, connections: int = 2) -> Generator[str]:
    """The same database by way of a pooler with so many connections to the server."""
    assert PROGRAM
    parts = urlsplit(url)
    port, user = free_port(), unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    users = folder / "users"
    users.write_text(f'"{parts.username}" "{unquote(parts.password or "")}"\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={parts.hostname} port={parts.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = scram-sha-256\nauth_file = {users}\nlogfile = {folder / 'log'}\n"
        f"pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 500\n"
    )
    settings.chmod(0o600)
    users.chmod(0o600)
    for place in (folder, users, settings):
        give(place, user)
    process: subprocess.Popen[Any] = subprocess.Popen([PROGRAM, "-q", settings], **running_as(user))
    try:
        _await_port(process, port)
        who = parts.netloc.rpartition("@")[0]
        yield urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{port}"))
    finally:
        process.terminate()
        process.wait(_DEADLINE)
        shutil.rmtree(folder)


def _await_port(process: subprocess.Popen[Any], port: int) -> None:
    end = time.monotonic() + _DEADLINE
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("PgBouncer does not start")
