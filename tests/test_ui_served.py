"""Who may ask `ui`, for what, and how the command begins and ends."""

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from tests.command_line import fill, run, sqlite, start
from tests.ui_asking import HOST, browsing

__all__ = ["sqlite"]  # a fixture


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8787", "127.0.0.1", "127.0.0.1:80", "0.0.0.0:8787",
        "127.0.0.1.evil.example:8787", "localhost", "localhost:8787", "[::1]:8787", "",
        "127.0.0.1:8787, evil",
    ],
)  # fmt: skip
async def test_another_host_is_refused(sqlite: str, host: str) -> None:
    async with browsing(sqlite) as ask:
        for place in ("/", "/style.css", "/nonsense"):
            answer = await ask.client.get(place, headers={"host": host})
            assert answer.status_code == 421
            assert HOST in answer.text
            twice = [("host", HOST), ("host", "evil.example")]
            assert (await ask.client.get(place, headers=twice)).status_code == 421
        assert (await ask.client.get("/", headers={"host": HOST})).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"])
async def test_only_reading_is_allowed(sqlite: str, method: str) -> None:
    async with browsing(sqlite) as ask:
        for place in ("/", "/run?id=root", "/style.css", "/nonsense"):
            answer = await ask.client.request(method, place, content=b"x")
            assert answer.status_code == 405
            assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("site", "status"),
    [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)],
)
async def test_pages_of_others_may_not_ask(sqlite: str, site: str, status: int) -> None:
    async with browsing(sqlite) as ask:
        answer = await ask.client.get("/", headers={"sec-fetch-site": site})
        assert answer.status_code == status


async def test_every_answer_tells_the_browser_what_it_may_do(sqlite: str) -> None:
    async with browsing(sqlite) as ask:
        for place, host, method in (
            ("/", HOST, "GET"), ("/run?id=nobody", HOST, "GET"), ("/run", HOST, "HEAD"),
            ("/nonsense", HOST, "GET"), ("/style.css", HOST, "GET"), ("/", "evil", "GET"),
            ("/", HOST, "POST"),
        ):  # fmt: skip
            answer = await ask.client.request(method, place, headers={"host": host})
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'self'; ")
            assert "unsafe" not in policy
            assert "script" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers
            assert "set-cookie" not in answer.headers


@pytest.fixture
def serving(sqlite: str) -> "Generator[tuple[subprocess.Popen[str], int]]":
    """`ui` in a process of its own, and its port."""
    fill(sqlite)
    process = start("ui", sqlite, "--port", "0", "--json")
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["url"]
    yield process, int(address.rstrip("/").rpartition(":")[2])
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=10)


def asked(port: int, method: str, place: str, **headers: str) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, place, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_it_serves_until_it_is_stopped(serving: "tuple[subprocess.Popen[str], int]") -> None:
    process, port = serving
    status, body, headers = asked(port, "GET", "/run?id=fork-1")
    assert status == 200
    assert b"other way" in body
    assert "server" not in headers
    assert asked(port, "HEAD", "/")[:2] == (200, b"")
    assert asked(port, "GET", "/", Host=f"localhost:{port}")[0] == 200
    assert asked(port, "GET", "/", Host=f"evil.example:{port}")[0] == 421
    assert asked(port, "POST", "/")[0] == 405
    assert asked(port, "GET", "/", Upgrade="websocket", Connection="Upgrade")[0] == 200
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)  # a browser keeps its own
    kept.request("GET", "/")
    kept.getresponse().read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    kept.close()
    assert (process.returncode, out) == (130, "")
    assert err == "agent-stores: stopped\n"


def test_only_this_machine_reaches_it(serving: "tuple[subprocess.Popen[str], int]") -> None:
    _, port = serving
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    # Another address of this machine, which a server for all of them would answer.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_a_port_in_use_is_named(serving: "tuple[subprocess.Popen[str], int]") -> None:
    _, port = serving
    ran = run("ui", "memory:", "--port", str(port))
    assert (ran.code, ran.out) == (2, "")
    assert f"--port: found {port}: Address already in use" in ran.err


def test_what_cannot_be_opened_is_said_before_anything_is_served() -> None:
    ran = run("ui", "redis://ada:S3cret@127.0.0.1:9/0", "--port", "0")
    assert (ran.code, ran.out) == (2, "")
    assert "S3cret" not in ran.err


def test_an_empty_database_gets_no_tables(postgres_url: str) -> None:
    for _ in range(2):
        ran = run("ui", postgres_url, "--port", "0")
        assert ran.code == 2
        assert "there is no storage" in ran.err


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    ran = run("ui", "memory:", "--port", "0")
    assert ran.code == 2
    assert "pip install 'agent-stores[ui]'" in ran.err
