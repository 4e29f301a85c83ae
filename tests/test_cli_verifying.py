"""The proof that two backends hold the same, or what differs."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from stores_core import Message, open_backend
from tests.command_line import copied, fill, run, sqlite, target, write

__all__ = ["sqlite", "target"]  # fixtures

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_verify_names_what_differs(sqlite: str, target: str) -> None:
    fill(sqlite)
    copied(run("copy", sqlite, target, "--json"))
    run("runs", "label", "fork-0", target, "--set", "more=1")
    run("runs", "delete", "fork-1", target, "--yes")
    write(target, "fork-2", "only here")
    run("runs", "fork", "root", target, "--id", "extra")
    run("memory", "put", "n0", "other", target)
    run("memory", "delete", "n1", target, "-n", "user/ada")
    run("results", "delete", "r1", target)
    found = run("verify", sqlite, target, "--json")
    assert found.code == 1
    different = {(one["kind"], one["id"]): one["what"] for one in found.document["differences"]}
    assert different.pop(("run", "fork-2")) == "updated_at, message_count"
    assert different == {
        ("run", "fork-0"): "updated_at, labels",
        ("run", "fork-1"): "only in the first",
        ("run", "extra"): "only in the second",
        ("note", "n0"): "another value, metadata, time or version",
        ("note", "n1"): "only in the first",
        ("result", "r1"): "only in the first",
    }
    assert found.document["digests"][0] != found.document["digests"][1]
    subset = run("verify", sqlite, target, "--subset", "--json").document
    assert not [one for one in subset["differences"] if one["id"] == "extra"]


def test_verify_finds_the_entry_that_differs(sqlite: str, target: str) -> None:
    for end, text in ((sqlite, "here"), (target, "there")):

        async def work(end: str = end, text: str = text) -> None:
            async with open_backend(end, clock=lambda: MOMENT) as backend:
                await backend.runs.create_run(run_id="a")
                said = [Message(role="user", text=word) for word in ("same", text, "same")]
                await backend.runs.append_messages(run_id="a", messages=said)

        asyncio.run(work())
    found = run("verify", sqlite, target, "--json").document
    (difference,) = found["differences"]
    assert difference["what"] == "messages from position 1 on"
    assert found["digests"][0] != found["digests"][1]


def test_verify_compares_what_is_laid_out_otherwise(sqlite: str, target: str) -> None:
    """The same writes on both sides, so equal runs in logs of their own."""
    moments = {end: datetime(2026, 1, 1, tzinfo=UTC) for end in (sqlite, target)}
    for end in moments:

        def tick(end: str = end) -> datetime:
            moments[end] += timedelta(seconds=1)
            return moments[end]

        async def work(end: str = end, tick: Callable[[], datetime] = tick) -> None:
            async with open_backend(end, clock=tick) as backend:
                await backend.runs.create_run(run_id="a")
                said = [Message(role="user", text=str(n)) for n in range(1_500)]
                for start in (0, 750):
                    batch = said[start : start + 750]
                    await backend.runs.append_messages(run_id="a", messages=batch)

        asyncio.run(work())
    found = run("verify", sqlite, target, "--json").document
    assert found["equal"]
    assert found["compared"]["entries"] == 1_500
    assert found["digests"][0] == found["digests"][1]


def test_other_embedders_are_said_and_not_compared(sqlite: str, target: str) -> None:
    fill(sqlite, forks=0)
    copied(run("copy", sqlite, target, "--json"))
    assert run("memory", "reembed", target, "--embedder", "words:8").code == 0
    found = run("verify", sqlite, target, "--json")
    assert found.code == 0
    assert not found.document["vectors"]
