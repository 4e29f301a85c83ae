"""Every command on every backend: where it works, where the backend fails, where it is stopped.

What each one does is tested in the files beside this one. Here a table is held against the command
itself, so that none is left out.
"""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from stores_cli import urls
from stores_cli.reference import helps
from stores_core import StoreUnavailableError, open_backend
from stores_core.interceptors import Call, Proceed
from stores_core.shape import Response
from tests.command_line import Ran, fill, run, start, target, url
from tests.storages import BACKENDS, new_url

__all__ = ["target", "url"]  # fixtures

COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("{url}",),
    "migrate status": ("{url}",),
    "migrate up": ("{url}",),
    "migrate down": ("{url}", "--to", "{revision}", "--yes"),
    "migrate sql": ("{url}",),
    "sweep": ("{url}",),
    "verify": ("{url}",),
    "tenants": ("{url}",),
    "erase-tenant": ("{tenant}", "{url}", "--yes"),
    "copy": ("{url}", "{target}"),
    "export": ("{url}", "--output", "{file}", "--force"),
    "import": ("--from", "openai-chat", "{session}", "{url}"),
    "runs list": ("{url}",),
    "runs show": ("root", "{url}"),
    "runs tree": ("root", "{url}"),
    "runs fork": ("root", "{url}"),
    "runs diff": ("fork-0", "fork-0", "{url}"),
    "runs label": ("root", "{url}", "--set", "a=b"),
    "runs delete": ("root", "{url}", "--yes"),
    "runs prune": ("{url}", "--label", "kind=test", "--yes"),
    "runs tail": ("root", "{url}", "--idle", "0.01"),
    "memory list": ("{url}",),
    "memory recall": ("tea", "{url}"),
    "memory put": ("drink", "tea", "{url}"),
    "memory delete": ("n0", "{url}"),
    "memory namespaces": ("{url}",),
    "memory reembed": ("{url}", "--embedder", "words:16"),
    "results list": ("{url}",),
    "results show": ("r1", "{url}"),
    "results grep": ("r1", "two", "{url}"),
    "results delete": ("r1", "{url}"),
    "bench": ("{url}", "--seconds", "0.1"),
}
"""A use of each command that ends with 0 on a storage as `fill` makes it."""

PROCESSES = ("conform", "ui")
"""What is run in a process of its own, below."""

# What it does on each backend is tested in one process elsewhere.
EACH = [pytest.param(kind, marks=[] if kind == "sqlite" else pytest.mark.long) for kind in BACKENDS]

WARNS = ("doctor",)
"""What may end with 1 on a storage that is well, since a server's settings want a word."""


def test_no_command_is_left_out() -> None:
    known = {name.partition(" ")[2] for name, text in helps() if "\nCommands:" not in text}
    assert known == {*COMMANDS, *PROCESSES}


@pytest.fixture(params=COMMANDS)
def use(request: pytest.FixtureRequest, url: str, target: str, tmp_path: Path) -> tuple[str, ...]:
    """Each command with its arguments, on a filled storage of each kind."""
    fill(url)
    session = tmp_path / "session.json"
    session.write_text('{"messages": [{"role": "user", "content": "hello"}]}')
    places = {
        "url": url,
        "tenant": url.partition("tenant=")[2],
        "target": target,
        "revision": 1 if url.startswith("redis") else 2,  # the one that stands
        "file": tmp_path / "a.zst",
        "session": session,
    }
    parts = (part.format(**places) for part in COMMANDS[request.param])
    return (*request.param.split(), *parts)


def test_each_command_works_once_the_backend_does_and_nobody_stops_it(
    use: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        asked = first_operation(patched, fail)
        failed = run(*use)
        assert asked, "the command asks for nothing"
        assert (failed.code, failed.err) == (2, f"agent-stores: {DOWN}\n")
    with monkeypatch.context() as patched:
        # As a terminal does it, also where whoever runs the tests has them ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            first_operation(patched, stop)
            stopped = run(*use)
        finally:
            signal.signal(signal.SIGINT, before)
        assert (stopped.code, stopped.err) == (130, "agent-stores: stopped\n")
    worked = run(*use)
    assert worked.code == 0 or (worked.code == 1 and use[0] in WARNS), worked.err


DOWN = "the backend is down"


async def fail() -> None:
    raise StoreUnavailableError(DOWN)


async def stop() -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(30)


def first_operation(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[[], Awaitable[None]]
) -> list[str]:
    """Let the first operation that a command asks for end so; what it asked for."""
    asked: list[str] = []

    async def intercept(call: Call, proceed: Proceed) -> Response:
        asked.append(call.operation)
        if len(asked) == 1:
            await ends()
        return await proceed(call.request)

    monkeypatch.setattr(urls, "open_backend", partial(open_backend, interceptors=[intercept]))
    return asked


@pytest.mark.long
@pytest.mark.parametrize("kind", BACKENDS)
def test_the_suite_examines_each_backend(kind: str, request: pytest.FixtureRequest) -> None:
    url = new_url(kind, request)
    process = start("conform", url, "--quick", "-k", "a_cut_may_fall", "--json")
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, err  # a part of it
    assert Ran(3, out, err).document["conformant"] is False
    assert f"Verdict on {kind}" in err


@pytest.mark.parametrize("kind", EACH)
def test_pages_show_each_backend(kind: str, request: pytest.FixtureRequest) -> None:
    url = new_url(kind, request)
    if not url.startswith("memory:"):  # of which another process sees nothing
        fill(url)
    process = start("ui", url, "--port", "0", "--json")
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        with urlopen(address, timeout=90) as answer:  # noqa: S310 - of our own server
            page = answer.read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert ("fork-1" in page) is not url.startswith("memory:")
    assert "Traceback" not in err
