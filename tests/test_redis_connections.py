"""Where connections to Redis come from, and that they go."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import InvalidRequestError, Message, StoreUnavailableError, open_backend
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown


async def connected(client: Any) -> int:
    """How many clients the server has."""
    return int((await client.info("clients"))["connected_clients"])


async def test_a_closed_backend_leaves_no_connection(own_redis: str) -> None:
    async with Redis.from_url(own_redis) as client:
        before = await connected(client)
        async with open_backend(own_redis, pool_size=5) as backend:
            await asyncio.gather(*(backend.runs.create_run() for _ in range(50)))
            assert before < await connected(client) <= before + 5
        for _ in range(100):
            if await connected(client) == before:
                break
            await asyncio.sleep(0.01)
        assert await connected(client) == before


async def test_a_hosts_client_may_be_closed_once_the_backend_is(own_redis: str) -> None:
    """What is under way is finished first, so no connection is made behind the closing."""
    async with Redis.from_url(own_redis) as eye:
        before = await connected(eye)
        async with (
            Redis.from_url(own_redis, max_connections=40) as client,
            open_backend(with_prefix("redis:"), client=client) as backend,
        ):
            await backend.runs.create_run()  # so that the server knows the script
            calls = [asyncio.create_task(backend.runs.create_run()) for _ in range(30)]
            await asyncio.sleep(0)
        await asyncio.wait(calls)
        for _ in range(100):
            if await connected(eye) == before:
                break
            await asyncio.sleep(0.01)
        assert await connected(eye) == before
        created = [call for call in calls if call.exception() is None and call.result().created]
        assert len(created) > 10


async def test_more_callers_than_connections_wait_for_their_turn(redis_url: str) -> None:
    async with open_backend(redis_url, pool_size=1) as backend:
        await backend.runs.create_run(run_id="r")
        turn = [Message(role="user", text="x")]
        answers = await asyncio.gather(
            *(backend.runs.append_messages(run_id="r", messages=turn) for _ in range(100))
        )
        assert sorted(answer.message_count for answer in answers) == list(range(1, 101))


async def test_connections_that_the_server_ended_are_made_anew_unnoticed(own_redis: str) -> None:
    async with (
        open_backend(own_redis, pool_size=3) as backend,
        Redis.from_url(own_redis) as client,
    ):
        for n in range(5):
            await asyncio.gather(*(backend.runs.create_run() for _ in range(3)))
            await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.sleep(0.02)
            assert (await backend.runs.create_run(run_id=f"{n}")).created


@pytest.mark.parametrize(
    ("url", "options", "field"),
    [
        ("redis:", {}, "url"),
        ("redis://h:port/0", {}, "url"),
        ("redis://h/0", {"pool_size": 0}, "pool_size"),
        ("redis://h/0", {"prefix": "a{b}"}, "prefix"),
        ("redis://h/0", {"wait_replicas": -1}, "wait_replicas"),
        ("redis://h/0", {"client": "c"}, "client"),
        ("rediss://u:hunter2@h/0", {"ssl_certfile": "not there"}, "ssl_certfile"),
    ],
)
async def test_what_cannot_be_opened_is_refused_by_name(
    url: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        async with open_backend(url, **options):
            pass
    assert refused.value.field == field
    assert "hunter2" not in str(refused.value)


async def test_no_error_shows_a_password() -> None:
    with pytest.raises(StoreUnavailableError) as refused:
        async with open_backend("redis://u:hunter2@127.0.0.1:1/0"):
            pass
    assert "hunter2" not in f"{refused.value!r} {refused.value.__cause__!r}"


async def test_a_wrong_password_is_told_as_one(redis: str) -> None:
    there = urlsplit(redis)
    url = f"redis://:hunter2@{there.hostname}:{there.port}/0"
    with pytest.raises(StoreUnavailableError, match="password") as refused:
        async with open_backend(url):
            pass
    assert "hunter2" not in f"{refused.value!r} {refused.value.__cause__!r}"


async def test_databases_of_one_server_are_apart(redis: str) -> None:
    place = with_prefix(redis)
    other = place.replace("/0?", "/1?")
    async with open_backend(place) as zero, open_backend(other) as one:
        await zero.runs.create_run(run_id="r")
        assert not (await one.runs.get_run(run_id="r")).found


@asynccontextmanager
async def encrypting(url: str, folder: Path) -> AsyncGenerator[int]:
    """A port of 127.0.0.1 that speaks TLS, before the server that the URL names."""
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    make += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    await asyncio.to_thread(
        subprocess.run, make.split(), cwd=folder, check=True, capture_output=True
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    there = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_connection(there.hostname, there.port)
        await asyncio.gather(_pass(reader, theirs[1]), _pass(theirs[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
async def test_rediss_speaks_to_a_server_that_it_can_trust(redis: str, tmp_path: Path) -> None:
    async with encrypting(redis, tmp_path) as port:
        there = urlsplit(with_prefix(redis))
        url = f"rediss://:{there.password}@localhost:{port}/0?{there.query}"
        async with open_backend(url, ssl_ca_certs=str(tmp_path / "cert.pem")) as backend:
            await backend.runs.create_run(run_id="r")
            big = [Message(role="user", text="x" * 3_000_000)]
            assert (await backend.runs.append_messages(run_id="r", messages=big)).applied
            run = (await backend.runs.load_run(run_id="r")).run
            assert run
            assert len(run.messages[0].text or "") == 3_000_000
        with pytest.raises(StoreUnavailableError):
            async with open_backend(url):
                pass
        await asyncio.sleep(0.05)
