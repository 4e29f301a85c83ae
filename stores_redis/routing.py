"""Storage over several servers, of which others serve a key from time to time.

The driver's own clients for clusters and for Sentinel are not used, since they send writes again by
themselves. Here only what a server refused, and so has not done, is sent again: to the server that
it names, or later, while a slot is on its way or a server is replaced.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError

from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_core.sending import nothing_sent, seconds_left
from stores_redis.connections import Source, own_pool
from stores_redis.failures import code_of, not_applied, of_write
from stores_redis.storage import WAITS_MILLISECONDS, Command, Storage

PATIENCE = 20.0
"""Seconds for which what was refused is sent again, where no timeout of a caller says how long."""

MARGIN = 0.1
"""Seconds before the end of a timeout at which one gives up: the error says why then, and nothing
is under way when the timeout ends."""

SLOTS = 16_384
"""A key lies in one of so many."""

_FIRST_PAUSE, _LAST_PAUSE = 0.005, 0.25
_LOOKS_AGAIN_AFTER = 0.1
_FOLLOWS = 5
"""So often a server's word is taken for which other has a slot, before one looks around."""

_LATER = {"ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "READONLY"}

_KEY_AT = {b"EVAL": 3, b"EVALSHA": 3, b"MEMORY": 2}
_KEYLESS = {b"MULTI", b"EXEC"}


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class Named(NamedTuple):
    """What a URL names: whom to ask, ``rest`` behind a slash, and how to connect to a server."""

    seeds: Sequence[Address]
    rest: str
    new_source: Callable[[Address], Source]


class _Unit(NamedTuple):
    """Commands of one slot, in order, with their places among all that are sent."""

    slot: int
    places: list[int]
    commands: list[Command]


class RoutedStorage(Storage, ABC):
    """As :class:`Storage`; each slot has a server, which :meth:`look` finds out."""

    def __init__(
        self,
        named: Named,
        prefix: str,
        wait_replicas: int = 0,
        wait_milliseconds: int = WAITS_MILLISECONDS,
    ) -> None:
        """Nothing is known until :meth:`refresh`."""
        self.seeds, self._new_source = named.seeds, named.new_source
        first = self._new_source(self.seeds[0])
        super().__init__(first, prefix, wait_replicas, wait_milliseconds)
        self._nodes = {self.seeds[0]: Storage(first, prefix)}
        self._slots: Mapping[int, Address] = {}
        self._moved: dict[int, Address] = {}
        self._looking = asyncio.Lock()
        self._looked = float("-inf")

    @abstractmethod
    async def look(self) -> Mapping[int, Address]:
        """Ask which server has which slot. Raises StoreUnavailableError where none says so."""

    def nodes(self) -> Sequence[Storage]:
        """The servers that have slots, each alone."""
        return [self.node(address) for address in self.serving()]

    def serving(self) -> Sequence[Address]:
        """The servers that had slots when one looked last."""
        return list(dict.fromkeys(self._slots.values()))

    def node(self, address: Address) -> Storage:
        """One server alone."""
        if address not in self._nodes:
            self._nodes[address] = Storage(self._new_source(address), self.prefix)
        return self._nodes[address]

    async def refresh(self) -> None:
        async with self._looking:
            if time.monotonic() - self._looked < _LOOKS_AGAIN_AFTER:
                return
            self._slots = await self.look()
            self._moved.clear()
            self._looked = time.monotonic()

    async def _sent(
        self, commands: Sequence[Command], writes: bool, *, repeats: bool = False
    ) -> list[Any]:
        units = _units_of(commands, together=not repeats)
        replies: list[Any] = [None] * len(commands)
        waited: Any = self.wait_replicas
        until = time.monotonic() + seconds_left(PATIENCE + MARGIN) - MARGIN
        pause, follows = 0.0, 0
        while True:
            again: list[tuple[_Unit, Exception]] = []
            answers = await self._asked(units, writes, repeats=repeats)
            for unit, answer in zip(units, answers, strict=True):
                if isinstance(answer, Exception):
                    again.append((unit, answer))
                    continue
                if writes and self.wait_replicas:
                    waited = answer.pop()
                for place, reply in zip(unit.places, answer, strict=True):
                    replies[place] = reply
                refused = [reply for reply in answer if _is_refused(reply)]
                if len(refused) >= (1 if repeats else len(unit.commands)):
                    again.append((unit, refused[0]))
            if not again:
                break
            units = [unit for unit, _ in again]
            follows += 1
            followed = [self._follow(unit.slot, why) for unit, why in again]
            if all(followed) and follows < _FOLLOWS:
                continue
            pause = min(max(2 * pause, _FIRST_PAUSE), _LAST_PAUSE, until - time.monotonic())
            if pause > 0:
                with nothing_sent():  # all of it was refused
                    await asyncio.sleep(pause)
                    with suppress(StoreUnavailableError):
                        await self.refresh()
            if time.monotonic() >= until:
                for _, problem in again:
                    if isinstance(problem, StoreUnavailableError):
                        raise problem
                break
        return [*replies, waited] if writes and self.wait_replicas else replies

    def _follow(self, slot: int, refused: Exception) -> bool:
        """Whether a server named another one that has the slot now."""
        if not isinstance(refused, MovedError):
            return False
        named: Any = refused  # whose types are unknown
        address = Address(named.host, int(named.port))
        if not address.host or self._at(slot) == address:
            return False
        self._moved[slot] = address
        return True

    def _at(self, slot: int) -> Address:
        return self._moved.get(slot) or self._slots.get(slot) or self.seeds[0]

    async def _asked(
        self, units: Sequence[_Unit], writes: bool, *, repeats: bool
    ) -> list[list[Any] | Exception]:
        """What the nodes reply to each unit; an error where a node cannot be reached, or where the
        replies to what may be sent again were lost."""
        by_node: dict[Address, list[int]] = {}
        for number, unit in enumerate(units):
            by_node.setdefault(self._at(unit.slot), []).append(number)
        answers: dict[int, list[Any] | Exception] = {}
        failures: list[Exception] = []

        async def ask(address: Address, numbers: list[int]) -> None:
            try:
                found = await self._of_node(address, [units[n] for n in numbers], writes, repeats)
                answers.update(zip(numbers, found, strict=True))
            except Exception as error:
                failures.append(error)

        if len(by_node) == 1:
            [(address, numbers)] = by_node.items()
            await ask(address, numbers)
        else:
            async with asyncio.TaskGroup() as group:
                for address, numbers in by_node.items():
                    group.create_task(ask(address, numbers))
        if failures:
            raise failures[0]
        return [answers[number] for number in range(len(units))]

    async def _of_node(
        self, address: Address, units: Sequence[_Unit], writes: bool, repeats: bool
    ) -> list[list[Any] | Exception]:
        node = self.node(address)
        try:
            driver = await node.taken()
        except StoreUnavailableError as error:
            return [error] * len(units)
        commands = [command for unit in units for command in unit.commands]
        waits = [self.wait] if writes and self.wait_replicas else []
        try:
            replies = await node.exchanged(
                driver, [*commands, *waits], of_write if writes else not_applied
            )
        except StoreUnavailableError as error:
            if not repeats:
                raise
            return [error] * len(units)
        # A node that ended the connection has not replied to the rest.
        replies += replies[-1:] * (len(commands) + len(waits) - len(replies))
        found: list[list[Any] | Exception] = []
        for unit in units:
            taken, replies = replies[: len(unit.commands)], replies[len(unit.commands) :]
            found.append([*taken, *replies] if waits else taken)
        return found

    async def close(self) -> None:
        self.is_closed = True
        for node in list(self._nodes.values()):
            await node.close()


def named_by(
    url: str,
    size: int,
    *,
    tls: bool,
    connect_timeout: float,
    password: str | None = None,
    **files: str,
) -> Named:
    """What ``scheme://user:password@host:port,host:port/rest`` names, where each server may get
    ``size`` connections. A ``password`` stands in for what the URL says, and "" is none; the rest
    is as for one server. Raises InvalidRequestError."""
    scheme, _, rest = url.partition("://")
    user, at, places = rest.rpartition("@")
    places, _, behind = places.partition("/")
    if password is not None:
        user, at = (f":{quote(password, safe='')}", "@") if password else ("", "")
    of_servers = "rediss" if tls else "redis"

    def new_source(address: Address) -> Source:
        host = f"[{address.host}]" if ":" in address.host else address.host
        of_server = f"{of_servers}://{user}{at}{host}:{address.port}/0"
        return own_pool(of_server, size, connect_timeout=connect_timeout, **files)

    return Named([_address_of(scheme, place) for place in places.split(",")], behind, new_source)


def _address_of(scheme: str, place: str) -> Address:
    host, colon, port = place.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidRequestError(
            field="url",
            found="a server without a host or port",
            allowed=f"{scheme}://user:password@host:port,host:port, with one at least",
        )
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _is_refused(reply: object) -> bool:
    """Whether the node has not done it, and it, or another, will do later."""
    return isinstance(reply, AskError) or (
        isinstance(reply, Exception) and code_of(reply) in _LATER
    )


def _units_of(commands: Sequence[Command], *, together: bool) -> list[_Unit]:
    """Commands by slots; ``together`` they are all of one."""
    units: dict[int, _Unit] = {}
    slot = -1
    for place, command in enumerate(commands):
        name = command[0] if isinstance(command[0], bytes) else str(command[0]).encode()
        if name not in _KEYLESS and not (together and slot >= 0):
            key = command[_KEY_AT.get(name, 1)]
            slot = int(key_slot(key if isinstance(key, bytes) else str(key).encode()))
        units.setdefault(slot, _Unit(slot, [], []))
        units[slot].places.append(place)
        units[slot].commands.append(command)
    return list(units.values())
