"""``python -m tests.redis_failover --kills 300``: SIGKILL a primary under writers, let Sentinels
make its replica the primary, bring the old one back as a replica.

A write is acknowledged once the replica has it (``wait_replicas=1``), and the exit code is 0 only
if nothing was found.

With ``--wait-replicas 0`` it is counted how much of what was acknowledged is lost; only what is
there in part, or twice, or damaged, is a fault then.

A failover is mostly waiting: Sentinels must miss the primary, agree and choose. So they watch over
several pairs (``--pairs``), which are killed beside each other and know nothing of one another.
"""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis as TypedRedis
from redis.exceptions import RedisError

from conformance_tests.faults.command import Tally, add_number, conclude
from conformance_tests.faults.server import Open, kill_server
from stores_core import open_backend
from tests.redis_embedded import EmbeddedRedis, EmbeddedSentinel
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown

PAIRS = 5
"""So many pairs fail at a time: two cores are busy then, and a failover in each is under way."""

_DEADLINE = 60.0
_SENTINELS = 3
_DOWN_AFTER = 1_000
"""Milliseconds after which a Sentinel takes a server for gone."""

_PERIODS = {"info-period": 300, "publish-period": 300, "ask-period": 200, "ping-period": 200}
"""Milliseconds between what a Sentinel asks and tells; as it comes, that is up to ten seconds."""


class Watched:
    """A primary and a replica under Sentinels: ``kill`` what is the primary, and ``start`` it again
    as a replica of the other."""

    def __init__(
        self,
        name: str,
        servers: Sequence[EmbeddedRedis],
        sentinels: Sequence[EmbeddedRedis],
        password: str,
    ) -> None:
        self._name, self._password = name, password
        self._servers, self._sentinels = servers, sentinels
        self._killed = servers[0]

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self._sentinels)
        url = f"redis+sentinel://:{self._password}@{places}/{self._name}"
        return f"{url}?sentinel_password={self._password}"

    def watch(self) -> None:
        """Make the second a replica of the first, and let the Sentinels watch over both."""
        primary, replica = self._servers
        self._ask(replica, "REPLICAOF", "127.0.0.1", primary.port)
        for sentinel in self._sentinels:
            self._ask(sentinel, "SENTINEL MONITOR", self._name, "127.0.0.1", primary.port, 2)
            for option, value in (
                ("auth-pass", self._password),
                ("down-after-milliseconds", _DOWN_AFTER),
                ("failover-timeout", 2_000),
            ):
                self._ask(sentinel, "SENTINEL SET", self._name, option, value)

    def kill(self) -> None:
        self._killed = self._primary()
        self._killed.kill()

    def start(self) -> None:
        self._until(lambda: self._primary() is not self._killed)
        self._killed.start()
        # A Sentinel would say so too, some ten seconds later.
        self._ask(self._killed, "REPLICAOF", "127.0.0.1", self._primary().port)
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Until the Sentinels agree on a primary with a replica. Raises RuntimeError."""
        self._until(self._is_whole)

    def _primary(self) -> EmbeddedRedis:
        """The one that the Sentinels name; a busy machine may make them change their minds."""
        found = self._ask(self._sentinels[0], "SENTINEL GET-MASTER-ADDR-BY-NAME", self._name)
        return next(one for one in self._servers if one.port == int(found[1]))

    def _is_whole(self) -> bool:
        """Whether all Sentinels see the one primary, each other and a replica that follows."""
        try:
            for sentinel in self._sentinels:
                told = self._ask(sentinel, "SENTINEL MASTER", self._name)
                told = {_text(name): _text(value) for name, value in told.items()}
                counts = told["num-other-sentinels"], told["num-slaves"]
                if counts != (str(_SENTINELS - 1), "1") or told["flags"] != "master":
                    return False
            info = self._ask(self._primary(), "INFO", "replication")
            return info["role"] == "master" and info.get("slave0", {}).get("state") == "online"
        except RedisError:
            return False

    def _ask(self, server: EmbeddedRedis, *command: Any) -> Any:
        with Redis(port=server.port, password=self._password) as client:
            return client.execute_command(*command)

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + _DEADLINE
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError("no primary with a replica comes to be")
            time.sleep(0.02)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def watched_redis(pairs: int = 1) -> Generator[Sequence[Watched]]:
    """Pairs of a primary and a replica, and three Sentinels, which end with the context."""
    password = secrets.token_urlsafe(16)
    with ExitStack() as stack:

        def started(kind: type[EmbeddedRedis], **settings: str | int) -> EmbeddedRedis:
            folder = Path(tempfile.mkdtemp(prefix="redis-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            named = {name.replace("_", "-"): value for name, value in settings.items()}
            server = kind(folder, named, password=password)
            server.start()
            stack.callback(server.stop)
            return server

        sentinels = [started(EmbeddedSentinel) for _ in range(_SENTINELS)]
        for sentinel in sentinels:
            with Redis(port=sentinel.port, password=password) as client:
                for period in _PERIODS.items():
                    client.execute_command("SENTINEL DEBUG", *period)
        every: list[Watched] = []
        for number in range(pairs):
            servers = [
                started(
                    EmbeddedRedis,
                    masterauth=password,
                    repl_diskless_sync_delay=0,
                    shutdown_timeout=0,
                )
                for _ in range(2)
            ]
            every.append(Watched(f"pair-{number}", servers, sentinels, password))
            every[-1].watch()
        for watched in every:
            watched.wait_until_whole()
        yield every


async def kill_beside(pairs: Sequence[Watched], kills: int, seed: int, wait_replicas: int) -> Tally:
    """Let all pairs together fail so often, under writers to storages of their own."""

    def killed(number: int, watched: Watched) -> Awaitable[Tally]:
        url = f"{watched.url}&wait_replicas={wait_replicas}"
        share = kills // len(pairs) + (number < kills % len(pairs))

        async def storage() -> Open:
            return partial(open_backend, with_prefix(url))

        may_lose = not wait_replicas
        return kill_server(watched, storage, share, seed + number, may_lose=may_lose)

    total = Tally()
    for tally in await asyncio.gather(*(killed(n, watched) for n, watched in enumerate(pairs))):
        total.made += tally.made
        total.not_run += tally.not_run
        total.acknowledged += tally.acknowledged
        total.lost += tally.lost
        total.faults += tally.faults
    return total


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.redis_failover", description=__doc__)
    parser.add_argument("--wait-replicas", type=int, choices=[0, 1], default=1)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    add_number(parser, "kills")
    options = parser.parse_args()
    with watched_redis(min(options.pairs, options.number)) as pairs:
        tally = asyncio.run(kill_beside(pairs, options.number, options.seed, options.wait_replicas))
        return conclude(options, "kills", tally)


if __name__ == "__main__":
    sys.exit(main())
