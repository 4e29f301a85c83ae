"""Two clients of a server: one by way of a proxy that cuts, and one that goes straight."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from conformance_tests.faults.proxy import Proxy, proxied
from stores_core import AppendMessagesResponse, Backend, Message, open_backend

TURN = [Message(role="user", text=f"message {n}") for n in range(3)]


@dataclass
class Lines:
    """A client with one connection by way of a proxy, and one that goes straight."""

    backend: Backend
    proxy: Proxy
    straight: Backend

    async def append(self, key: str = "", **options: float) -> AppendMessagesResponse:
        return await self.backend.runs.append_messages(
            run_id="r", messages=TURN, idempotency_key=key, timeout=options.get("timeout")
        )

    async def count(self) -> int:
        info = (await self.straight.runs.get_run(run_id="r")).info
        assert info
        return info.message_count


@asynccontextmanager
async def lines(url: str) -> AsyncGenerator[Lines]:
    async with (
        proxied(url) as proxy,
        open_backend(url) as straight,
        open_backend(proxy.url(url), pool_size=1) as backend,
    ):
        await straight.runs.create_run(run_id="r")
        both = Lines(backend, proxy, straight)
        await both.append()
        yield both
