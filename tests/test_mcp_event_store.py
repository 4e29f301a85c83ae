"""The MCP event store: by the SDK's own tests, and by what those do not ask."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp.server import Server
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from stores_adapters.mcp import BackendEventStore, ResumableSessionManager
from stores_core import Backend, Call, InvalidRequestError, Proceed, open_backend
from stores_core.shape import Response
from tests.meanwhile import repeating
from tests.sdists import source_of

FILES = [
    "tests/interaction/transports/test_client_transport_http.py",
    "tests/interaction/transports/test_hosting_resume.py",
    "tests/shared/test_streamable_http.py",
]


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Backend, BackendEventStore]]:
    async with open_backend(url) as backend:
        yield backend, BackendEventStore(backend, "s")


def says(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="n", params={"text": text})


async def replayed(
    store: BackendEventStore, after: str
) -> tuple[str | None, list[tuple[JSONRPCMessage, str | None]]]:
    """The stream, and what was sent: messages with their ids."""
    sent: list[EventMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event)

    stream = await store.replay_events_after(after, send)
    return stream, [(event.message, event.event_id) for event in sent]


async def test_a_replay_gives_what_came_after_in_its_stream_alone(url: str) -> None:
    async with opened(url) as (_, store):
        first = await store.store_event("1", says("a"))
        await store.store_event("2", says("of another stream"))
        second = await store.store_event("1", says("b"))
        await store.store_event("_GET_stream", says("of the standing stream"))
        done = JSONRPCResponse(jsonrpc="2.0", id=1, result={"deep": [1, 1.5, None, {"ü": "🦊"}]})
        third = await store.store_event("1", done)
        assert await replayed(store, first) == ("1", [(says("b"), second), (done, third)])
        assert await replayed(store, second) == ("1", [(done, third)])
        assert await replayed(store, third) == ("1", [])


async def test_a_replay_of_a_stream_that_was_forgotten_and_begun_anew_ends() -> None:
    async with opened("memory:") as (backend, store):
        first = await store.store_event("1", says("a"))
        await store.store_event("1", says("b"))

        async def send(_: EventMessage) -> None:
            await store.store_event("1", says("c"))
            await store.forget()
            await BackendEventStore(backend, "s").store_event("1", says("anew"))
            assert await asyncio.wait_for(replayed(store, first), 5) == ("1", [])

        assert await asyncio.wait_for(store.replay_events_after(first, send), 10) is None


async def test_a_priming_event_has_an_id_and_is_never_sent(url: str) -> None:
    async with opened(url) as (_, store):
        primed = await store.store_event("1", None)
        again = await store.store_event("1", None)
        sent = await store.store_event("1", says("a"))
        assert len({primed, again, sent}) == 3
        assert await replayed(store, primed) == ("1", [(says("a"), sent)])


async def test_equal_streams_of_two_sessions_never_meet(url: str) -> None:
    async with opened(url) as (backend, ours):
        theirs = BackendEventStore(backend, "s 1")
        mine = await ours.store_event("1 1", says("mine"))
        his = await theirs.store_event("1", says("his"))
        await theirs.store_event("1 1", says("his too"))
        assert mine != his
        assert await replayed(ours, mine) == ("1 1", [])
        assert await replayed(ours, his) == (None, [])
        assert await replayed(theirs, mine) == (None, [])
        await ours.forget()
        assert await replayed(ours, mine) == (None, [])
        assert await replayed(theirs, his) == ("1", [])


async def test_an_id_that_was_not_given_out_replays_nothing(url: str) -> None:
    async with opened(url) as (_, store):
        given = await store.store_event("1", says("a"))
        await store.store_event("1", says("b"))
        assert given.startswith("0/")
        unknown = ["", "0", "x", "7" + given[1:], "-1" + given[1:], "٠" + given[1:], given + "2"]
        for id in [*unknown, "0" + given, given.upper()]:
            assert await replayed(store, id) == (None, []), id


@pytest.mark.parametrize("stream", ["a/b", "a b", "line\nbreak", "ü🦊", "%2F", " ", "_GET_stream"])
async def test_any_request_id_gives_an_event_id_that_a_header_may_carry(stream: str) -> None:
    async with opened("memory:") as (_, store):
        id = await store.store_event(stream, says("a"))
        later = await store.store_event(stream, says("b"))
        assert id.isascii()
        assert id.isprintable()
        assert await replayed(store, id) == (stream, [(says("b"), later)])


async def test_a_message_deeper_than_a_stored_value_comes_back_equal(url: str) -> None:
    deep: dict[str, object] = {}
    for _ in range(150):
        deep = {"in": deep}
    message = JSONRPCNotification(jsonrpc="2.0", method="n", params=deep)
    async with opened(url) as (_, store):
        id = await store.store_event("1", None)
        sent = await store.store_event("1", message)
        assert await replayed(store, id) == ("1", [(message, sent)])


async def test_a_replay_longer_than_a_page_is_whole(url: str) -> None:
    async with opened(url) as (_, store):
        id = await store.store_event("1", None)
        sent = [(says(str(n)), await store.store_event("1", says(str(n)))) for n in range(130)]
        assert await replayed(store, id) == ("1", sent)


async def test_an_event_that_is_sent_again_below_the_store_is_there_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        store = BackendEventStore(backend, "s")
        id = await store.store_event("1", None)
        sent = await store.store_event("1", says("a"))
        assert await replayed(store, id) == ("1", [(says("a"), sent)])


async def test_a_replay_waits_for_what_is_being_stored_and_ends_before_what_comes_next() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(call: Call, proceed: Proceed) -> Response:
        if call.operation == "append_messages":
            begun.set()
            await go_on.wait()
        return await proceed(call.request)

    async with open_backend("memory:", interceptors=[held]) as backend:
        store = BackendEventStore(backend, "s")
        go_on.set()
        id = await store.store_event("1", None)
        go_on.clear()
        begun.clear()
        storing = [asyncio.create_task(store.store_event("1", says(text))) for text in "ab"]
        await begun.wait()
        sent: list[JSONRPCMessage] = []

        async def resume() -> str:
            # As the SDK does: the id that the client gets next is asked for in the same step.
            stream, found = await replayed(store, id)
            sent.extend(message for message, _ in found)
            return await store.store_event(str(stream), None)

        resumed = asyncio.create_task(resume())
        await asyncio.sleep(0.01)
        assert not resumed.done()
        go_on.set()
        await asyncio.gather(*storing)
        later = await store.store_event("1", says("c"))
        assert sent == [says("a"), says("b")]
        assert await replayed(store, await resumed) == ("1", [(says("c"), later)])


async def test_each_session_of_a_manager_has_a_store_of_its_own() -> None:
    async with open_backend("memory:") as backend:
        manager = ResumableSessionManager(Server("s"), backend, retry_interval=0)
        one, other = manager.event_store, manager.event_store
        assert isinstance(one, BackendEventStore)
        assert isinstance(other, BackendEventStore)
        id = await one.store_event("1", says("a"))
        await other.store_event("1", says("b"))
        assert await replayed(one, id) == ("1", [])
        assert await replayed(other, id) == (None, [])


async def test_one_store_for_all_sessions_is_refused() -> None:
    async with opened("memory:") as (backend, store):
        with pytest.raises(InvalidRequestError, match="event_store"):
            ResumableSessionManager(Server("s"), backend, event_store=store)


@pytest.mark.probe
@pytest.mark.timeout(400)
def test_the_tests_of_the_sdk_pass_with_our_event_store(
    url: str, root: Path, request: pytest.FixtureRequest
) -> None:
    told = what_the_sdk_says(url, root, source_of("mcp", request.config))
    for _ in range(2):
        # They give a store a tenth of a second between two steps, which a busy machine exceeds.
        slowest = re.search(r"^slowest: ([\d.]+)$", told, re.MULTILINE)
        if not slowest or float(slowest[1]) < 0.1 or " failed" not in told:
            break
        told = what_the_sdk_says(url, root, source_of("mcp", request.config))
    passed = re.search(r"^=+ (\d+) passed, \d+ deselected in", told, re.MULTILINE)
    assert passed, told[-8000:]
    assert int(passed[1]) >= 21, told[-1000:]


def what_the_sdk_says(url: str, root: Path, source: Path) -> str:
    """What a run of them says; it ends within two minutes, and names the test that waited."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", "."),
            # Their conftest needs packages that only its other tests use.
            *("--noconftest", "-p", "anyio", "-p", "mcp_stand_in", "-p", "no:cacheprovider"),
            # None of them takes two seconds; one that waits in vain would do so for ever.
            *("--timeout", "40", "--timeout-method", "thread"),
            *("-v", "--no-header", "--tb=short", "-W", "ignore", *FILES),
        ],
        cwd=source,
        env={
            "PATH": str(Path(sys.executable).parent),
            "PYTHONPATH": f"{root / 'tests'}:{root}",
            "AGENT_STORES_PROBE": url,
        },
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
