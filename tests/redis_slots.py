"""Slots of a cluster that move from node to node, back and forth, and forks that cross them.

``python -m tests.redis_slots -- COMMAND ...`` runs a command as tests.redis_cluster does, while the
slots of the tenant without a name move. It prints how many forks crossed buckets and slots, and
fails where they were too few to prove anything.
"""

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from redis import Redis as TypedRedis
from redis.crc import key_slot

from stores_redis.backend import CLUSTER_BUCKETS
from stores_redis.keys import Bucket, Place, bucket_of
from tests.redis_cluster import EmbeddedCluster, main

Redis: Any = TypedRedis  # its types are partly unknown

LEAST = 20
"""Forks that crossed slots, or slots that moved, below which a test of forks was not run."""

KEYS_AT_ONCE = 3
"""So many keys of a slot are brought first: a test wants them here and there for a while. Each
piece has one more than the last, or a slot of 10,000 forks were half-way for longer than callers
wait."""


def slot_of(number: int) -> int:
    """The slot of a bucket of the tenant without a name, whatever the prefix."""
    return int(key_slot(Bucket("", "", number).tag))


SLOTS = tuple(slot_of(number) for number in range(CLUSTER_BUCKETS))
"""Those of all of its buckets."""


class SlotMover:
    """Moves slots from each primary to the next. ``moved`` counts them, ``pieces`` in how many
    their keys were brought."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.moved = self.pieces = 0

    def move(self, slot: int, pause: float = 0.02) -> None:
        """Move one; it is half-way for ``pause`` seconds and some more."""
        ends = self.begin(slot)
        self.bring(slot, *ends, pause=pause / 10)
        time.sleep(pause)
        self.end(slot, *ends)
        self.moved += 1

    def begin(self, slot: int) -> tuple[int, int]:
        """Let a slot be on its way: the numbers of the node that has it, and of the next one."""
        at = self._owner(slot)
        to = (at + 1) % self._cluster.primaries
        ids, ask = self._cluster.ids, self._cluster.ask
        ask(to, "CLUSTER SETSLOT", slot, "IMPORTING", ids[at])
        ask(at, "CLUSTER SETSLOT", slot, "MIGRATING", ids[to])
        return at, to

    def bring(self, slot: int, at: int, to: int, *, pause: float = 0.0) -> None:
        """Bring what lies in it."""
        ask, password = self._cluster.ask, self._cluster.password
        target = "127.0.0.1", self._cluster.nodes[to].port
        size = KEYS_AT_ONCE
        while keys := ask(at, "CLUSTER GETKEYSINSLOT", slot, size):
            ask(at, "MIGRATE", *target, "", 0, 5_000, "AUTH", password, "KEYS", *keys)
            self.pieces, size = self.pieces + 1, size + 1
            time.sleep(pause)

    def end(self, slot: int, at: int, to: int) -> None:
        """The slot has arrived."""
        for number in (to, at, *range(self._cluster.primaries)):
            self._cluster.ask(number, "CLUSTER SETSLOT", slot, "NODE", self._cluster.ids[to])

    def _owner(self, slot: int) -> int:
        """The number of the node that serves a slot."""
        for first, last, (_, port, *_), *_ in self._cluster.ask(0, "CLUSTER SLOTS"):
            if first <= slot <= last:
                return [node.port for node in self._cluster.nodes].index(port)
        raise RuntimeError("nobody serves the slot")


@contextmanager
def slots_moving(
    cluster: EmbeddedCluster, slots: Iterable[int] = SLOTS, pause: float = 0.01
) -> Generator[SlotMover]:
    """Slots move in turn, ``pause`` seconds between two, as long as the context."""
    mover, stop = SlotMover(cluster), threading.Event()
    failed: list[Exception] = []
    taken: Sequence[int] = tuple(slots)

    def move_on() -> None:
        try:
            while not stop.is_set():
                mover.move(taken[mover.moved % len(taken)])
                stop.wait(pause)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=move_on)
    thread.start()
    try:
        yield mover
    finally:
        stop.set()
        thread.join()
    if failed:
        raise RuntimeError("the slots did not move on") from failed[0]


def forks_crossed(cluster: EmbeddedCluster, prefix: str) -> Counter[str]:
    """How many of the forks that are there have the home of their id in another bucket ("buckets"),
    and in another slot ("slots"), than they lie in."""
    crossed = Counter[str]()
    for node in cluster.nodes:
        with Redis(port=node.port, password=cluster.password) as client:
            if client.role()[0] == b"master":
                for key in client.scan_iter(f"{prefix}:*:births", count=1_000):
                    for member in client.zrange(key, 0, -1):
                        _count(client, key, member.decode(), crossed)
    return crossed


def _count(client: Any, key: bytes, member: str, crossed: Counter[str]) -> None:
    bucket = Bucket("", "", 0)
    bucket.tag = key.removesuffix(b"births")
    place = Place.of(bucket, member)
    token, imported = client.hmget(place.run, "token", "imported")
    if not token or imported:
        return
    home = re.sub(rb"\.\d+}", b".%d}" % bucket_of(place.id, CLUSTER_BUCKETS), bucket.tag)
    crossed["buckets"] += home != bucket.tag
    crossed["slots"] += key_slot(home) != key_slot(bucket.tag)


@contextmanager
def moving_under_forks(cluster: EmbeddedCluster, prefix: str) -> Generator[None]:
    """Slots move. Raises RuntimeError afterwards, as :func:`check_crossed` does."""
    with slots_moving(cluster) as mover:
        yield
    check_crossed(forks_crossed(cluster, prefix), mover)


def check_crossed(crossed: Counter[str], mover: SlotMover) -> None:
    """Print how many forks crossed and slots moved. Raises RuntimeError where they are too few."""
    print(f"{crossed['buckets']} forks crossed buckets, {crossed['slots']} slots; ", end="")
    print(f"{mover.moved} slots moved, in {mover.pieces} pieces")
    if crossed["slots"] < LEAST or mover.moved < LEAST:
        raise RuntimeError(f"not run: fewer than {LEAST} forks crossed slots, or slots moved")


if __name__ == "__main__":
    sys.exit(main(meanwhile=moving_under_forks))
