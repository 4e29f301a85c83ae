"""A pytest plugin: where the tests of the MCP SDK make an event store, they get ours behind it.

It is loaded into a run of the SDK's own tests, on the storage that AGENT_STORES_PROBE names. Those
tests expect the ids 1, 2, 3, so each of ours is given a number; all else is ours. The last line of
such a run says how long the slowest event took to be stored.
"""

import asyncio
import os
import secrets
from time import monotonic
from typing import Any, cast
from weakref import WeakKeyDictionary

import pytest
from mcp.server.streamable_http import EventCallback, EventMessage
from mcp_types import JSONRPCMessage

from stores_adapters.mcp import BackendEventStore
from stores_core import Backend, open_backend

BACKENDS = WeakKeyDictionary[asyncio.AbstractEventLoop, Backend]()
OPENED: list[object] = []
"""Kept, and so kept open: the tests end with the process."""
SECONDS = [0.0]
"""How long each event took to be stored."""


async def backend_of_this_loop() -> Backend:
    loop = asyncio.get_running_loop()
    if loop not in BACKENDS:
        opening = open_backend(os.environ["AGENT_STORES_PROBE"])
        BACKENDS[loop] = await opening.__aenter__()
        OPENED.append(opening)
    return BACKENDS[loop]


def standing_in(original: Any) -> Any:
    class StandIn(original):
        def __init__(self) -> None:
            super().__init__()  # type: ignore[reportUnknownMemberType] - of a class not known here
            self._kept: BackendEventStore | None = None
            self._numbers: dict[str, str] = {}
            self._numbered = asyncio.Condition()

        async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
            begun = monotonic()
            ours = await (await self._store()).store_event(stream_id, message)
            SECONDS.append(monotonic() - begun)
            number: str = await super().store_event(stream_id, message)  # type: ignore[reportUnknownMemberType] - as above
            async with self._numbered:
                self._numbers[ours] = number
                self._numbered.notify_all()
            return number  # type: ignore[reportUnknownVariableType] - as above

        async def replay_events_after(
            self, last_event_id: str, send_callback: EventCallback
        ) -> str | None:
            async def send(event: EventMessage) -> None:
                # A replay may read an event before the task that stores it goes on.
                async with self._numbered:
                    await self._numbered.wait_for(lambda: event.event_id in self._numbers)
                await send_callback(EventMessage(event.message, self._numbers[str(event.event_id)]))

            ours = {number: ours for ours, number in self._numbers.items()}.get(
                last_event_id, last_event_id
            )
            return await (await self._store()).replay_events_after(ours, send)

        async def _store(self) -> BackendEventStore:
            if self._kept is None:
                made = BackendEventStore(await backend_of_this_loop(), secrets.token_hex(8))
                self._kept = self._kept or made  # another task may have been faster
            return self._kept

    return StandIn


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests that make an event store, and puts ours in its place."""
    kept: list[pytest.Item] = []
    for item in items:
        parent: Any = item.getparent(pytest.Module)
        module = cast("dict[str, Any]", vars(parent.obj))
        for name in ("SimpleEventStore", "SequencedEventStore"):
            if name in module and not hasattr(module[name], "_store"):
                module[name] = standing_in(module[name])
        function: Any = cast(Any, item).function
        used = {*function.__code__.co_names, *cast(Any, item).fixturenames}
        if used & {"SimpleEventStore", "SequencedEventStore", "event_store", "event_app"}:
            kept.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_unconfigure() -> None:
    print(f"slowest: {max(SECONDS):.3f}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
