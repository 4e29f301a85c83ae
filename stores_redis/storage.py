"""An opened server, and one tenant's part of it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis
from redis.exceptions import RedisError, ResponseError

from stores_core.capabilities import Durability
from stores_core.errors import OutcomeUnknownError, SchemaVersionError, StoreClosedError
from stores_core.sending import has_written, nothing_sent
from stores_redis.connections import Driver, Source
from stores_redis.failures import is_elsewhere, is_unknown_script, not_applied, of_write
from stores_redis.keys import Bucket, bucket_of
from stores_redis.scripts import Arg, Script

WAITS_MILLISECONDS = 1_000

Command = Sequence[Arg]
Call = tuple[Script, Sequence[bytes], Sequence[Arg]]
"""A script with its keys, all of one bucket, and its arguments."""

_packed: Callable[[tuple[Arg, ...]], bytes] = cast(Any, hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType] - it has no types


class Storage:
    """One opened server under one key prefix.

    ``version`` (as (8, 2, 0)), ``has_vector_sets``, ``durability`` and ``identity`` are what was
    found when it was opened. With ``wait_replicas`` a write is acknowledged once so many replicas
    have it, or is of unknown outcome after ``wait_milliseconds``. ``fenced`` says that scripts
    refuse to work on a slot that is on its way to another server.
    """

    fenced = False

    def __init__(
        self,
        source: Source,
        prefix: str,
        wait_replicas: int = 0,
        wait_milliseconds: int = WAITS_MILLISECONDS,
    ) -> None:
        self.prefix = prefix
        self.wait_replicas = wait_replicas
        self.version: tuple[int, ...] = (0,)
        self.has_vector_sets = False
        self.durability = Durability.UNVERIFIED
        self.identity = ""
        self._source = source
        self.wait: Command = (b"WAIT", wait_replicas, wait_milliseconds)
        self.is_closed = False

    def nodes(self) -> Sequence["Storage"]:
        """Each server of it alone, for what is asked of a server rather than of a key."""
        return [self]

    async def refresh(self) -> None:
        """Find out what there is of it; one server is itself."""

    async def run(
        self, script: Script, keys: Sequence[bytes], args: Sequence[Arg], *, writes: bool
    ) -> list[Any]:
        """Run a script, which is one step; its reply, in bytes.

        ``writes`` says that others see what it changes, so that a lost reply leaves the outcome
        unknown and replicas are waited for.
        """
        digest, text = script.prepared(headed=self.version >= (7,), fenced=self.fenced)
        call = (len(keys), *keys, *args)
        replies = await self._sent([(b"EVALSHA", digest, *call)], writes)
        if is_unknown_script(replies[0]):
            replies = await self._sent([(b"EVAL", text, *call)], writes)
        return self._checked(replies, writes)[0]

    async def run_many(self, calls: Sequence[Call]) -> list[list[Any]]:
        """Run scripts that change nothing, each of one bucket, sent at once; their replies."""
        prepared = [
            script.prepared(headed=self.version >= (7,), fenced=self.fenced)
            for script, _, _ in calls
        ]
        tails = [(len(keys), *keys, *args) for _, keys, args in calls]
        commands: list[Command] = [
            (b"EVALSHA", digest, *tail) for (digest, _), tail in zip(prepared, tails, strict=True)
        ]
        replies = await self._sent(commands, writes=False, repeats=True)
        unknown = [n for n, reply in enumerate(replies) if is_unknown_script(reply)]
        if unknown:
            commands = [(b"EVAL", prepared[n][1], *tails[n]) for n in unknown]
            again = await self._sent(commands, writes=False, repeats=True)
            for n, reply in zip(unknown, again, strict=True):
                replies[n] = reply
        return self._checked(replies, writes=False)

    async def read(self, *command: Arg) -> Any:
        """The reply to one command that changes nothing."""
        return (await self.read_many([command]))[0]

    async def read_many(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands that change nothing, sent at once. They are no single step.

        Maps come as flat lists; scores are not to be asked for, since their type depends on how a
        host's client was made.
        """
        return self._checked(await self._sent(commands, writes=False, repeats=True), writes=False)

    async def write_many(self, commands: Sequence[Command]) -> list[Any]:
        """As :meth:`read_many`, of commands that write."""
        return self._checked(await self._sent(commands, writes=True), writes=True)

    async def stage_many(self, commands: Sequence[Command]) -> None:
        """Send commands that write what nobody sees yet: whatever fails, nothing was applied."""
        self._checked(await self._sent(commands, writes=False), writes=False)

    async def _sent(
        self, commands: Sequence[Command], writes: bool, *, repeats: bool = False
    ) -> list[Any]:
        """The replies to commands, and to the wait for replicas behind them if there is one.

        ``repeats`` says that they may be sent again where replies are lost. If not, all their keys
        are of one bucket.
        """
        if writes and self.wait_replicas:
            return await self._exchange([*commands, self.wait], of_write)
        return await self._exchange(commands, of_write if writes else not_applied)

    def _checked(self, replies: list[Any], writes: bool) -> list[Any]:
        """What commands replied. Raises what the server refused, and what too few replicas have."""
        waited = replies.pop() if writes and self.wait_replicas else self.wait_replicas
        refused = [reply for reply in replies if isinstance(reply, RedisError)]
        if refused:
            meant = not_applied(refused[0])
            if writes and len(refused) < len(replies):
                meant = OutcomeUnknownError("the server refused a part of what was to be written")
                meant.__cause__ = refused[0]
            raise meant from meant.__cause__
        if isinstance(waited, RedisError) or waited < self.wait_replicas:
            had = "nobody knows how many" if isinstance(waited, RedisError) else waited
            raise OutcomeUnknownError(
                f"{had} of {self.wait_replicas} replicas have it; it was written, and a failover "
                "may lose it"
            )
        if writes:
            has_written()
        return [_flat(reply) for reply in replies]

    async def _exchange(
        self, commands: Sequence[Command], meaning: Callable[[Exception], Exception]
    ) -> list[Any]:
        """Send all, then read a reply for each; the server's errors stand among them."""
        return await self.exchanged(await self.taken(), commands, meaning)

    async def exchanged(
        self,
        driver: Driver,
        commands: Sequence[Command],
        meaning: Callable[[Exception], Exception],
    ) -> list[Any]:
        """The same on a connection that was taken, which is given back."""
        try:
            replies = await _exchanged(driver, commands)
        except BaseException as error:
            # Whatever of it is still to come must not be taken for a later answer.
            await driver.disconnect(nowait=True)
            if not isinstance(error, Exception):
                raise
            meant = meaning(error)
            raise meant from meant.__cause__
        finally:
            await self._source.give_back(driver)
        return replies

    async def taken(self) -> Driver:
        """A connection. Raises StoreUnavailableError: nothing was sent."""
        if self.is_closed:
            raise StoreClosedError
        try:
            with nothing_sent():
                return await self._source.take()
        except Exception as error:
            meant = not_applied(error)
            raise meant from meant.__cause__

    async def close(self) -> None:
        """Finish what was begun and let go of the connections that are ours."""
        self.is_closed = True
        await self._source.close()


async def _exchanged(driver: Driver, commands: Sequence[Command]) -> list[Any]:
    packed = [_packed(tuple(command)) for command in commands]
    await driver.send_packed_command(packed, check_health=False)
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await driver.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
            if not driver.is_connected:
                break
    if any(is_elsewhere(reply) for reply in replies):
        await driver.disconnect(nowait=True)
    return replies


def _flat(reply: Any) -> Any:
    """A reply as the older protocol gives it: maps as flat lists."""
    if isinstance(reply, dict):
        pairs = cast("dict[Any, Any]", reply).items()
        return [part for pair in pairs for part in pair]
    return reply


class Tenant:
    """What belongs to one tenant: ``buckets`` small stores, each in one slot of a cluster.

    ``refused`` says why nothing of it is read or written, where its stored format is not ours.
    """

    def __init__(self, storage: Storage, name: str, buckets: int = 1) -> None:
        self.storage = storage
        self.name = name
        self.refused = ""
        self.buckets = [Bucket(storage.prefix, name, number) for number in range(buckets)]

    def home(self, name: str) -> Bucket:
        """The bucket of a run id, a namespace or a ref."""
        return self.buckets[bucket_of(name, len(self.buckets))]

    @property
    def is_spread(self) -> bool:
        """Whether there is more than one bucket."""
        return len(self.buckets) > 1

    def _check(self) -> None:
        if self.refused:
            raise SchemaVersionError(self.refused)

    async def run(
        self, script: Script, keys: Sequence[bytes], args: Sequence[Arg], *, writes: bool
    ) -> list[Any]:
        """As :meth:`Storage.run`. All ``keys`` are of one bucket."""
        self._check()
        return await self.storage.run(script, keys, args, writes=writes)

    async def run_many(self, calls: Sequence[Call]) -> list[list[Any]]:
        """As :meth:`Storage.run_many`."""
        self._check()
        return await self.storage.run_many(calls)

    async def read(self, *command: Arg) -> Any:
        """As :meth:`Storage.read`."""
        self._check()
        return await self.storage.read(*command)

    async def read_many(self, commands: Sequence[Command]) -> list[Any]:
        """As :meth:`Storage.read_many`."""
        self._check()
        return await self.storage.read_many(commands)

    async def write_many(self, commands: Sequence[Command]) -> list[Any]:
        """As :meth:`Storage.write_many`. All keys are of one bucket."""
        self._check()
        return await self.storage.write_many(commands)

    async def stage_many(self, commands: Sequence[Command]) -> None:
        """As :meth:`Storage.stage_many`. All keys are of one bucket."""
        self._check()
        await self.storage.stage_many(commands)
