"""A Model Context Protocol stream that outlives its process: broken off, resumed, forked."""

from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification
from restarted import play

from stores_adapters.mcp import BackendEventStore
from stores_core import open_backend


async def sent_after(store: BackendEventStore, last_event_id: str) -> str:
    sent: list[str] = []

    async def send(event: EventMessage) -> None:
        assert isinstance(event.message, JSONRPCNotification)
        sent.append(event.message.method)

    assert await store.replay_events_after(last_event_id, send) == "1"
    return ", ".join(sent)


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendEventStore(backend, "session-7")
        steps = [f"step {n}" for n in (1, 2, 3)]
        for step in steps:
            await store.store_event("1", JSONRPCNotification(jsonrpc="2.0", method=step))
    print(f"sent: {', '.join(steps)}; the client saw step 1")


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendEventStore(backend, "session-7")
        print("resumed:", await sent_after(store, store.event_id("1", 0)))

        fork = BackendEventStore(backend, "session-8")
        await backend.runs.fork_run(run_id=store.run_id("1"), new_run_id=fork.run_id("1"))
        own = JSONRPCNotification(jsonrpc="2.0", method="the fork alone")
        await fork.store_event("1", own)
        print("forked:", await sent_after(fork, fork.event_id("1", 0)))
        assert await sent_after(store, store.event_id("1", 0)) == "step 2, step 3"


if __name__ == "__main__":
    play(first, second)
