"""A primary that Sentinels watch over, and replace by a replica where it fails."""

from collections.abc import Mapping

from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_redis.routing import SLOTS, Address, Named, RoutedStorage
from stores_redis.storage import WAITS_MILLISECONDS, Storage


class SentinelStorage(RoutedStorage):
    """As :class:`stores_redis.storage.Storage`, on whichever server is the primary.

    ``named`` has the Sentinels, and behind the slash the name of what they watch over, of which
    ``sentinels`` is for their own connections.
    """

    def __init__(
        self,
        named: Named,
        sentinels: Named,
        prefix: str,
        wait_replicas: int = 0,
        wait_milliseconds: int = WAITS_MILLISECONDS,
    ) -> None:
        super().__init__(named, prefix, wait_replicas, wait_milliseconds)
        self._watched = named.rest.strip("/")
        if not self._watched:
            raise InvalidRequestError(
                field="url",
                found="no name of what the Sentinels watch over",
                allowed="redis+sentinel://user:password@host:port,host:port/name",
            )
        self._sentinels = {
            address: Storage(sentinels.new_source(address), prefix) for address in sentinels.seeds
        }

    async def look(self) -> Mapping[int, Address]:
        problem = StoreUnavailableError("no Sentinel knows of a primary by that name")
        for sentinel in self._sentinels.values():
            try:
                found = await sentinel.read("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._watched)
            except StoreUnavailableError as error:
                problem = error
                continue
            if found:
                primary = Address(found[0].decode(), int(found[1]))
                return dict.fromkeys(range(SLOTS), primary)
        raise problem

    async def close(self) -> None:
        await super().close()
        for sentinel in self._sentinels.values():
            await sentinel.close()
