"""A cluster of Redis servers: each bucket of a tenant lies in one slot, and each slot on one node.

A script reaches keys that no one declares, and while a slot is on its way these may be here or
there. So nothing follows a slot half-way (ASK): it waits until the slot has arrived.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stores_core.errors import StoreUnavailableError
from stores_redis.routing import Address, RoutedStorage


class ClusterStorage(RoutedStorage):
    """As :class:`stores_redis.storage.Storage`, over all nodes of a cluster."""

    fenced = True

    async def look(self) -> Mapping[int, Address]:
        problem = StoreUnavailableError("no node of the cluster is known")
        for address in dict.fromkeys([*self.serving(), *self.seeds]):
            try:
                ranges: list[Any] = await self.node(address).read("CLUSTER", "SLOTS")
            except StoreUnavailableError as error:
                problem = error
            else:
                return _slots_of(ranges, address)
        raise problem


def _slots_of(ranges: Sequence[Any], asked: Address) -> dict[int, Address]:
    """The reply of CLUSTER SLOTS. A node without a name of its own is the one that was asked."""
    found: dict[int, Address] = {}
    for first, last, primary, *_ in ranges:
        host = primary[0].decode() if primary[0] else asked.host
        address = Address(host, int(primary[1]))
        found.update(dict.fromkeys(range(int(first), int(last) + 1), address))
    return found
