"""A Redis Cluster of our own on loopback: three primaries with a replica each, in some seconds.

``python -m tests.redis_cluster [--primaries N] [--replicas N] [--version 6.2] -- COMMAND ...`` runs
a command on one: ``{url}`` in its arguments becomes its URL with a new prefix.
"""

import argparse
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as TypedRedis

from tests.postgres_embedded import free_port
from tests.redis_embedded import WHEELS, EmbeddedRedis
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown

SLOTS = 16_384
NODE_TIMEOUT = 15_000
"""Milliseconds after which nodes take another for dead: a busy machine is no failure."""

_DEADLINE = 60.0
_BUS_BEHIND = 10_000
"""So far behind its port the bus of a node is, where nothing else is said."""


class EmbeddedCluster:
    """Nodes that run. The first ``primaries`` of them began as such."""

    def __init__(self, nodes: Sequence[EmbeddedRedis], primaries: int, password: str) -> None:
        self.nodes, self.primaries, self.password = nodes, primaries, password
        self.ids: list[str] = []

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])
        return f"redis+cluster://:{self.password}@{places}"

    def ask(self, number: int, *command: Any) -> Any:
        """The reply of one node."""
        with Redis(port=self.nodes[number].port, password=self.password) as client:
            return client.execute_command(*command)

    def form(self) -> None:
        """Make one cluster of the nodes, and wait until all of them say that it is."""
        self.ids = [self.ask(n, "CLUSTER MYID").decode() for n in range(len(self.nodes))]
        for number in range(self.primaries):
            first = SLOTS * number // self.primaries
            last = SLOTS * (number + 1) // self.primaries - 1
            self.ask(number, "CLUSTER ADDSLOTS", *range(first, last + 1))  # 6.2 knows no ranges
            self.ask(number, "CLUSTER SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            self.ask(0, "CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)
        everyone = range(len(self.nodes))
        self._until(lambda: all(self._knows(n, "known_nodes", len(everyone)) for n in everyone))
        for number in range(self.primaries, len(self.nodes)):
            self.ask(number, "CLUSTER REPLICATE", self.ids[number % self.primaries])
        self._until(lambda: all(self._knows(n, "state", "ok") for n in everyone))
        self._until(lambda: all(self._is_linked(n) for n in everyone[self.primaries :]))

    def _knows(self, number: int, name: str, value: object) -> bool:
        told = self.ask(number, "CLUSTER INFO")
        return str(told[f"cluster_{name}"]) == str(value)

    def _is_linked(self, number: int) -> bool:
        return self.ask(number, "INFO", "replication").get("master_link_status") == "up"

    def _until(self, holds: Any) -> None:
        end = time.monotonic() + _DEADLINE
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError("the cluster does not come to be")
            time.sleep(0.02)


@contextmanager
def redis_cluster(
    primaries: int = 3, replicas: int = 1, *, version: str = "8.2", node_timeout: int = NODE_TIMEOUT
) -> Generator[EmbeddedCluster]:
    """A cluster that runs as long as the context, and leaves nothing behind. ``node_timeout`` is in
    milliseconds."""
    password = secrets.token_urlsafe(16)
    nodes: list[EmbeddedRedis] = []
    with ExitStack() as stack:
        for _ in range(primaries * (1 + replicas)):
            folder = Path(tempfile.mkdtemp(prefix="redis-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            port, bus_port, told = _ports(version)
            settings: dict[str, str | int] = {
                **told,
                "cluster-enabled": "yes",
                "cluster-node-timeout": node_timeout,
                "masterauth": password,
                "repl-diskless-sync-delay": 0,
            }
            node = EmbeddedRedis(folder, settings, version, password)
            node.port, node.bus_port = port, bus_port
            node.start()
            stack.callback(node.stop)
            nodes.append(node)
        cluster = EmbeddedCluster(nodes, primaries, password)
        cluster.form()
        yield cluster


def _ports(version: str) -> tuple[int, int, dict[str, str | int]]:
    """The port of a node, 0 where any will do; that of its bus; and what it is to be told."""
    if version != "6.2":
        bus_port = free_port()
        return 0, bus_port, {"cluster-port": bus_port}
    while True:  # there the one follows from the other
        port = free_port()
        with suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + _BUS_BEHIND))
            return port, port + _BUS_BEHIND, {}


@pytest.fixture(scope="session")
def small_cluster() -> Iterator[EmbeddedCluster]:
    """Three primaries without replicas, for what only asks that there are slots."""
    with redis_cluster(replicas=0) as running:
        yield running


Meanwhile = Callable[[EmbeddedCluster, str], AbstractContextManager[object]]
"""What goes on with a cluster while a command runs on it that has the prefix."""


def nothing(cluster: EmbeddedCluster, prefix: str) -> AbstractContextManager[None]:
    """Nothing goes on."""
    return nullcontext()


def main(arguments: Sequence[str] | None = None, *, meanwhile: Meanwhile = nothing) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options, command = arguments, list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        options, command = arguments[:cut], list(arguments[cut + 1 :])
    parser = argparse.ArgumentParser(prog="python -m tests.redis_cluster -- COMMAND ...")
    parser.add_argument("--primaries", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--version", choices=list(WHEELS), default="8.2")
    chosen = parser.parse_args(options)
    if not command:
        parser.error("a command after -- is needed")
    with redis_cluster(chosen.primaries, chosen.replicas, version=chosen.version) as cluster:
        url = with_prefix(cluster.url)
        prefix = url.rpartition("prefix=")[2]
        told = [argument.replace("{url}", url) for argument in command]
        with meanwhile(cluster, prefix):
            return subprocess.run(told, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
