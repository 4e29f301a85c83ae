"""The proxy itself, before a server that answers each line with the line."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from conformance_tests.faults.proxy import Fault, Proxy, proxied


class Echo:
    """A server and a proxy before it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self.heard.append(line)
                if line.endswith(b"\n"):
                    writer.write(line)
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.ended.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Proxy]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with proxied(f"tcp://u:p@127.0.0.1:{port}/x") as proxy:
            yield proxy
        server.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, proxy: Proxy) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.here))

    async def ask(self, text: bytes = b"hello\n") -> bytes:
        """The answer to a line, as much of it as comes."""
        self._writer.write(text)
        return await self.rest()

    async def rest(self) -> bytes:
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b"reset"

    def close(self) -> None:
        self._writer.close()


async def test_it_counts_round_trips_and_connections() -> None:
    async with Echo().running() as proxy:
        clients = [await Client.of(proxy) for _ in range(2)]
        for client in clients * 3:
            assert await client.ask() == b"hello\n"
        assert (proxy.round_trips, proxy.connections, proxy.open) == (6, 2, 2)
        for client in clients:
            client.close()
        assert proxy.url("redis://u:p@h:1/2?a=b") == f"redis://u:p@127.0.0.1:{proxy.here}/2?a=b"


@pytest.mark.parametrize(
    ("fault", "heard", "answer"),
    [
        (Fault(request=0), b"", b""),
        (Fault(request=3), b"hel", b""),
        (Fault(reply=0), b"hello\n", b""),
        (Fault(reply=3), b"hello\n", b"hel"),
        (Fault(reply=0, reset=True), b"hello\n", b"reset"),
    ],
)
async def test_it_cuts_once_at_a_byte(fault: Fault, heard: bytes, answer: bytes) -> None:
    echo = Echo()
    async with echo.running() as proxy:
        client = await Client.of(proxy)
        proxy.cut(fault)
        assert await client.ask() == answer
        client.close()
        await echo.ended.wait()
        assert b"".join(echo.heard) == heard
        again = await Client.of(proxy)
        assert await again.ask() == b"hello\n"
        again.close()
        assert proxy.cuts == 1


async def test_it_lets_requests_pass_before_the_cut() -> None:
    echo = Echo()
    async with echo.running() as proxy:
        client = await Client.of(proxy)
        proxy.cut(Fault(reply=0, after=2))
        assert [await client.ask() for _ in range(3)] == [b"hello\n", b"hello\n", b""]
        client.close()
        assert len(echo.heard) == 3


async def test_it_delays_swallows_and_refuses() -> None:
    async with Echo().running() as proxy:
        client = await Client.of(proxy)
        proxy.delay = 0.05
        started = asyncio.get_running_loop().time()
        assert await client.ask() == b"hello\n"
        assert asyncio.get_running_loop().time() - started >= 0.05
        proxy.silent = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.ask()
        client.close()
        proxy.silent, proxy.refusing = False, True
        refused = await Client.of(proxy)
        assert await refused.rest() in (b"", b"reset")
        refused.close()
