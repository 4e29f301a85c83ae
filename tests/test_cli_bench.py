"""`bench`: it times what it says, and leaves nothing behind."""

import asyncio
import signal
import time

import pytest

from stores_cli.bench import percentile, timed
from stores_cli.urls import in_tenant
from stores_core import Backend, open_backend
from tests.command_line import fill, run, sqlite, start, url

__all__ = ["sqlite", "url"]  # fixtures

OPERATIONS = ["append", "load", "list", "recall", "fork"]


def make(url: str) -> None:
    """A storage with nothing in it."""

    async def work() -> None:
        async with open_backend(url):
            pass

    asyncio.run(work())


def test_five_operations_are_timed_and_nothing_is_left(url: str) -> None:
    make(url)
    before = run("tenants", url, "--json").document
    ran = run("bench", url, "--seconds", "0.5", "--callers", "2", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["callers"] == 2
    operations = ran.document["operations"]
    assert list(operations) == OPERATIONS
    for numbers in operations.values():
        assert numbers["count"] >= 2
        assert 0 < numbers["medianMs"] <= numbers["p95Ms"]
        # Half of the answers took the median or more, of the time of two callers.
        assert numbers["perSecond"] * numbers["medianMs"] / 1_000 < 2 * 2 * 1.01
        assert 0.099 < numbers["count"] / numbers["perSecond"] < 10
    assert run("tenants", url, "--json").document == before


def test_it_does_not_touch_what_is_there(sqlite: str) -> None:
    fill(sqlite)
    before = run("runs", "list", sqlite, "--json").document
    ran = run("bench", sqlite, "--seconds", "0.2", "--embedder", "words:16")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("sqlite, durability disk, 1 at the same time")
    assert [line.split()[0] for line in lines[2:]] == OPERATIONS
    assert run("runs", "list", sqlite, "--json").document == before
    assert run("verify", sqlite).code == 0


def test_ctrl_c_erases_the_tenant_too(sqlite: str) -> None:
    make(sqlite)
    process = start("bench", sqlite, "--seconds", "600")
    end = time.monotonic() + 90
    while not run("tenants", sqlite, "--json").document["tenants"] and time.monotonic() < end:
        time.sleep(0.05)
    assert time.monotonic() < end
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (130, "", "agent-stores: stopped\n")
    assert run("tenants", sqlite, "--json").document["tenants"] == []


async def test_the_numbers_are_those_of_the_operation() -> None:
    calls: list[int] = []

    async def slow(backend: Backend, caller: int) -> None:
        calls.append(caller)
        await asyncio.sleep(0.02 if len(calls) % 10 else 0.2)

    async with open_backend("memory:") as backend:
        numbers = await timed(backend, slow, 4, 0.5)
    assert numbers["count"] == len(calls) - 4  # the first of each warms up
    assert set(calls) == {0, 1, 2, 3}
    assert 20 <= numbers["medianMs"] < 150
    assert 200 <= numbers["p95Ms"] < 1_000
    assert numbers["perSecond"] < numbers["count"] / 0.5


@pytest.mark.parametrize("option", [("--seconds", "0"), ("--callers", "0"), ("--callers", "1000")])
def test_bad_options_are_refused(option: tuple[str, str]) -> None:
    ran = run("bench", "memory:", *option)
    assert (ran.code, ran.out) == (2, "")
    assert option[0] in ran.err


def test_a_percentile_is_the_nearest_rank() -> None:
    times = [float(number) for number in range(100, 0, -1)]
    assert percentile(times, 0.95) == 95
    assert percentile(times, 0.5) == 50
    assert percentile([3.0, 1.0], 0.95) == 3
    assert percentile([7.0], 0.5) == 7


def test_the_tenant_of_a_url_is_replaced() -> None:
    assert in_tenant("sqlite:a.db", "t") == "sqlite:a.db?tenant=t"
    assert in_tenant("redis://h?prefix=a&tenant=b&db=1", "t") == "redis://h?prefix=a&db=1&tenant=t"
