"""A TCP proxy before a server: it counts round trips, and cuts, delays or swallows on demand.

It knows no protocol. A request is all that a client sends until the server answers, so that one
request and its answer are one round trip, in however many pieces they travel.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from conformance_tests.opener import at

_PIECE = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing throws away and resets


@dataclass(frozen=True)
class Fault:
    """A cut of the connection that one request travels on, at a byte of it or of its answer.

    ``after`` requests pass first, on any connection, and all that do not begin with a piece that
    has the bytes ``having``: where a server answers parts of a long request, each part behind an
    answer counts as one. The counts are bytes that still get through:
    ``request=0`` loses the request, ``reply=0`` lets the server do it and loses the answer. A cut
    is an orderly end, or with ``reset`` an abrupt one.
    """

    request: int | None = None
    reply: int | None = None
    after: int = 0
    having: bytes = b""
    reset: bool = False


@dataclass
class Proxy:
    """What passes, and what shall happen to it. Set the fields at any time."""

    host: str
    port: int
    here: int = 0
    """The port on 127.0.0.1 that clients connect to."""
    delay: float = 0.0
    """Seconds by which each piece of an answer comes later."""
    pieces: int = 0
    """Bytes of the pieces in which an answer comes, each ``delay`` later; 0: as it came."""
    silent: bool = False
    """Black hole: whatever is sent is taken and goes nowhere, in both directions."""
    refusing: bool = False
    """New connections are closed as soon as they are made."""
    connections: int = 0
    round_trips: int = 0
    open: int = 0
    """Connections that are open now."""
    cuts: int = 0
    """Faults that happened."""
    replies: list[int] = field(default_factory=list[int])
    """The size in bytes of the answer to each request so far."""
    _fault: Fault | None = None
    _passed: int = 0
    _listening: asyncio.Server | None = None
    _links: "set[_Link]" = field(default_factory=lambda: set[_Link]())
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _serving: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _coming: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])

    def url(self, url: str) -> str:
        """The same URL, by way of the proxy."""
        return at(url, f"127.0.0.1:{self.here}")

    def cut(self, fault: Fault | None) -> None:
        """Have the fault happen, once, to the request that it says; None: nothing more happens."""
        self._fault, self._passed = fault, 0

    def next_fault(self, piece: bytes) -> Fault | None:
        """The fault of the request that begins with this piece."""
        self.round_trips += 1
        self.replies.append(0)
        fault = self._fault
        if fault is None or fault.having not in piece:
            return None
        self._passed += 1
        if self._passed <= fault.after:
            return None
        self._fault = None
        return fault

    async def listen(self) -> None:
        """Take connections, on the same port again if they were refused."""
        if self._listening is None:
            self._listening = await asyncio.start_server(self.serve, "127.0.0.1", self.here)
            self.here = self._listening.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Nobody listens any more; what is open stays open."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def forget_all(self) -> None:
        """Half-open: the server's ends of all connections are gone, and clients do not hear of it.

        New connections are served.
        """
        for link in self._links:
            link.forgotten = True

    async def mend(self) -> None:
        """Whatever was set happens no more, and nothing that was swallowed stays open."""
        swallowed = self.silent or any(link.forgotten for link in self._links)
        self.delay, self.pieces, self.silent, self.refusing = 0.0, 0, False, False
        self.cut(None)
        while self._coming:
            self._coming.pop().cancel()
        await self.listen()
        if swallowed:
            self.cut_all()

    def cut_all(self) -> None:
        """Reset every connection that is open."""
        for writer in set(self._writers):
            _end(writer, reset=True)

    def cut_again(self, times: int, *, every: float) -> None:
        """Reset every connection that is open so many times, now and each ``every`` seconds."""
        loop = asyncio.get_running_loop()
        self._coming += (loop.call_later(every * n, self.cut_all) for n in range(times))

    async def finish(self) -> None:
        """Reset every connection and wait until nothing is left of it."""
        self.cut_all()
        await asyncio.gather(*self._serving)
        await asyncio.sleep(0)  # the transports say farewell

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refusing:
            _end(writer, reset=True)
            return
        try:
            theirs = await asyncio.open_connection(self.host, self.port)
        except OSError:
            _end(writer, reset=True)
            return
        link = _Link(self, reader, writer, *theirs)
        ours = {writer, theirs[1]}
        self._writers |= ours
        self._links.add(link)
        self.open += 1
        try:
            await link.run()
        finally:
            self.open -= 1
            self._links.discard(link)
            self._writers -= ours
            for each in ours:
                _end(each, reset=False)


@asynccontextmanager
async def proxied(url: str) -> AsyncGenerator[Proxy]:
    """A proxy before the server that ``url`` names, as long as the context."""
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    proxy = Proxy(parts.hostname, parts.port)
    await proxy.listen()
    try:
        yield proxy
    finally:
        proxy.refuse()
        await proxy.finish()


class _Cut(Exception):
    """The fault has happened."""


class _Link:
    """One connection of a client, and the proxy's own to the server."""

    forgotten = False
    """Whatever is sent on it is taken and goes nowhere."""

    def __init__(
        self,
        proxy: Proxy,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._proxy, self._answered = proxy, True
        self._client, self._to_client = client, to_client
        self._server, self._to_server = server, to_server
        self._fault: Fault | None = None
        self._request = self._reply = self._trip = 0

    async def run(self) -> None:
        """Until either side ends, or the fault happens."""
        ways = {asyncio.create_task(self._requests()), asyncio.create_task(self._replies())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            outcomes = await asyncio.gather(*ways, return_exceptions=True)
            if any(isinstance(outcome, _Cut) for outcome in outcomes):
                self._proxy.cuts += 1
                _end(self._to_client, reset=bool(self._fault and self._fault.reset))

    async def _requests(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._client.read(_PIECE):
                if self._proxy.silent or self.forgotten:
                    continue
                if self._answered:
                    self._answered, self._request, self._reply = False, 0, 0
                    self._fault = self._proxy.next_fault(data)
                    self._trip = len(self._proxy.replies) - 1
                limit = self._fault.request if self._fault else None
                self._request = await _pass(data, self._to_server, self._request, limit)

    async def _replies(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._server.read(_PIECE):
                if self._proxy.silent or self.forgotten:
                    continue
                self._answered = True
                if self._proxy.replies:
                    self._proxy.replies[self._trip] += len(data)
                limit = self._fault.reply if self._fault else None
                for piece in self._pieces(data):
                    if self._proxy.delay:
                        await asyncio.sleep(self._proxy.delay)
                    self._reply = await _pass(piece, self._to_client, self._reply, limit)

    def _pieces(self, data: bytes) -> list[bytes]:
        size = self._proxy.pieces or len(data)
        return [data[start : start + size] for start in range(0, len(data), size)]


async def _pass(data: bytes, to: asyncio.StreamWriter, passed: int, limit: int | None) -> int:
    """Pass data on, up to the limit of all that passes; how much passed by now."""
    if limit is None or passed + len(data) < limit:
        to.write(data)
        await to.drain()
        return passed + len(data)
    to.write(data[: limit - passed])
    await to.drain()
    raise _Cut


def _end(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        there: Any = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()
    else:
        writer.close()
