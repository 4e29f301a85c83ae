"""Copies between backends: complete, repeatable, resumed, beside writers."""

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest

from stores_cli import urls
from stores_cli.target import Target
from stores_cli.transfer import Selection, Tally, read
from stores_core import ImportRunRequest, Message, open_backend
from stores_core.interceptors import Call, Proceed
from stores_core.shape import Response
from tests.command_line import (
    FORKS,
    HOSTILE,
    Ran,
    copied,
    fill,
    run,
    sqlite,
    start_slowly,
    target,
    url,
    wait_for_runs,
    write,
)
from tests.redis_embedded import embedded_redis
from tests.storages import BACKENDS, new_url

__all__ = ["sqlite", "target", "url"]  # fixtures

NEWEST = f"fork-{FORKS - 1}"


@pytest.mark.long
@pytest.mark.parametrize("kind", [*BACKENDS, "redis-cluster"])
def test_a_copy_by_way_of_each_other_backend_comes_back_equal(
    kind: str, request: pytest.FixtureRequest
) -> None:
    first = new_url(kind, request)
    fill(first)
    everything = {"runs": 5, "created": 5, "entries": 11, "notes": 6, "results": 2}
    for other_kind in BACKENDS:
        other, again = new_url(other_kind, request), new_url(kind, request)
        for source, destination in ((first, other), (other, again)):
            brought = copied(run("copy", source, destination, "--json"))
            assert {name: brought[name] for name in everything} == everything
            assert not brought["moved"]
        ends = run("verify", first, again, "--json").document
        assert ends["equal"], (kind, other_kind)
        assert ends["vectors"]
        assert ends["digests"][0] == ends["digests"][1]
        assert ends["compared"] == {"runs": 5, "entries": 11, "notes": 6, "results": 2}


def test_copying_again_doubles_nothing_and_brings_what_is_new(url: str, target: str) -> None:
    fill(url)
    copied(run("copy", url, target, "--json"))
    again = copied(run("copy", url, target, "--json"))
    assert (again["same"], again["created"], again["entries"]) == (5, 0, 0)
    assert (again["notes"], again["results"]) == (0, 0)
    write(url, "root", "new", "newer")
    counted = copied(run("copy", url, target, "--dry-run", "--json"))
    assert (counted["same"], counted["updated"], counted["entries"]) == (4, 1, 2)
    behind = run("verify", url, target, "--json")
    assert behind.code == 1
    assert [one["id"] for one in behind.document["differences"]] == ["root"]
    brought = copied(run("copy", url, target, "--json"))
    assert (brought["same"], brought["updated"], brought["entries"]) == (4, 1, 2)
    assert run("verify", url, target).code == 0


def test_a_copy_goes_on_being_written_and_forked(sqlite: str, url: str) -> None:
    fill(sqlite)
    copied(run("copy", sqlite, url, "--json"))
    write(url, "fork-1", "from here on")
    assert run("runs", "fork", "fork-1", url, "--id", "deeper").code == 0
    assert run("runs", "show", "deeper", url, "--last", "1").out.endswith("from here on\n")
    assert run("verify", url).code == 0
    back = run("copy", sqlite, url, "--json")
    assert back.code == 1
    (report,) = back.document["tenants"]
    assert report["conflictsRuns"] == ["fork-1"]
    assert run("runs", "show", "fork-1", url, "--json").lines[0]["run"]["messageCount"] == 4


def test_only_what_is_asked_for_is_copied(sqlite: str, target: str) -> None:
    fill(sqlite)
    one = copied(run("copy", sqlite, target, "--run", "fork-1", "--run", HOSTILE, "--json"))
    assert (one["created"], one["notes"], one["results"]) == (2, 0, 0)
    listed = run("runs", "list", target, "--json").document["runs"]
    assert [info["id"] for info in listed] == [HOSTILE, "fork-1"]
    assert copied(run("copy", sqlite, target, "--since", "2099-01-01", "--json"))["runs"] == 0
    assert copied(run("copy", sqlite, target, "--since", "1d", "--json"))["created"] == 3
    absent = run("copy", sqlite, target, "--run", "nobody")
    assert absent.code == 2
    assert "'nobody'" in absent.err


def test_to_copy_or_compare_one_run_no_other_is_read(
    url: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url)
    asked: list[Call] = []

    async def intercept(call: Call, proceed: Proceed) -> Response:
        asked.append(call)
        return await proceed(call.request)

    monkeypatch.setattr(urls, "open_backend", partial(open_backend, interceptors=[intercept]))
    assert copied(run("copy", url, target, "--run", "fork-1", "--json"))["created"] == 1
    assert run("verify", url, target, "--run", "fork-1").code == 0
    operations = {call.operation for call in asked}
    assert "export_runs" in operations
    assert "list_runs" not in operations
    named = {getattr(call.request, "run_id", "fork-1") for call in asked}
    assert named == {"fork-1"}


def test_tenants_are_copied_one_by_one_or_all(sqlite: str, target: str) -> None:
    for tenant in ("one", "two"):
        fill(f"{sqlite}?tenant={tenant}")
    copied(run("copy", sqlite, target, "--tenant", "two", "--json"))
    assert run("tenants", target, "--json").document == {"tenants": ["two"]}
    both = run("copy", sqlite, target, "--all-tenants", "--json").document["tenants"]
    assert [(report["tenant"], report["created"]) for report in both] == [("one", 5), ("two", 0)]
    assert run("verify", sqlite, target, "--tenant", "one").code == 0


def test_a_storage_is_not_copied_onto_itself(sqlite: str) -> None:
    fill(sqlite, forks=0)
    ran = run("copy", sqlite, sqlite)
    assert ran.code == 2
    assert "SRC" in ran.err


def test_a_dry_run_writes_nothing(sqlite: str, target: str) -> None:
    fill(sqlite)
    counted = copied(run("copy", sqlite, target, "--dry-run", "--json"))
    assert (counted["created"], counted["entries"], counted["notes"]) == (5, 11, 6)
    assert counted["results"] == 2
    assert not Path(target.partition(":")[2]).exists()


def test_a_copied_family_still_shares_its_prefix(request: pytest.FixtureRequest) -> None:
    source, destination = new_url("sqlite", request), new_url("file", request)
    fill(source, forks=30, messages=2_000)
    alone = new_url("file", request)
    copied(run("copy", source, alone, "--run", "root", "--json"))
    copied(run("copy", source, destination, "--json"))
    assert bytes_of(destination) < 1.1 * bytes_of(alone) + 100_000


def bytes_of(url: str) -> int:
    async def work() -> int:
        async with open_backend(url) as backend:
            return (await backend.admin.measure()).bytes or 0

    return asyncio.run(work())


@pytest.mark.long
def test_a_copy_that_was_killed_goes_on(sqlite: str, target: str) -> None:
    fill(sqlite, forks=FORKS)
    there = 0
    for sent, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = start_slowly("copy", sqlite, target)
        wait_for_runs(target, there + 20)
        process.send_signal(sent)
        out, err = process.communicate(timeout=90)
        assert process.returncode == code, out + err
        assert "Traceback" not in err
        there = len(run("runs", "list", target, "--limit", "5000", "--json").document["runs"])
    assert there < FORKS + 2
    rest = copied(run("copy", sqlite, target, "--json"))
    assert rest["same"] >= there
    assert rest["created"] == FORKS + 2 - rest["same"]
    assert run("verify", sqlite, target).code == 0
    assert run("verify", target).code == 0


@pytest.mark.long
def test_runs_that_are_written_to_meanwhile_are_whole_and_named(sqlite: str, target: str) -> None:
    fill(sqlite, forks=FORKS)
    process = start_slowly("copy", sqlite, target, "--json")
    wait_for_runs(target, 20)
    # The newest are copied first, so one that is there already and one that is to come.
    for number in range(15):
        for id in (NEWEST, "root"):
            write_pair = (f"a{number}", f"b{number}")
            write(sqlite, id, *write_pair)
        if process.poll() is not None:
            break
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    report = Ran(0, out, err).document["tenants"][0]
    assert NEWEST in report["movedRuns"]
    for id in (NEWEST, "root"):
        shown = run("runs", "show", id, target, "--json").lines[1:]
        own = [line["message"]["text"] for line in shown if line["message"]["text"][0] in "ab"]
        pairs = [f"{half}{number}" for number in range(len(own) // 2) for half in "ab"]
        assert own == pairs  # whole batches, in order
    copied(run("copy", sqlite, target, "--json"))
    assert run("verify", sqlite, target).code == 0


def test_a_source_of_an_older_format_is_refused(sqlite: str, target: str) -> None:
    fill(sqlite, forks=0)
    assert run("migrate", "down", sqlite, "--to", "1", "--yes").code == 0
    ran = run("copy", sqlite, target)
    assert ran.code == 1
    assert "0001" in ran.err
    assert run("runs", "list", target, "--json").document["runs"] == []


async def test_a_run_that_is_deleted_while_it_is_read_is_named() -> None:
    async with open_backend("memory:") as source:
        for id in ("stays", "goes"):
            await source.runs.create_run(run_id=id)
            await source.runs.append_messages(run_id=id, messages=[Message(role="user")])

        class Sink(Target):
            async def reached(self, log: str) -> int:
                if (await source.runs.delete_run(run_id="goes")).deleted:
                    while (await source.admin.sweep()).more:
                        pass
                return 0

        async with open_backend("memory:") as target:
            tally = Tally()
            sink = Sink(target, tally)
            pieces = [piece async for piece in read(source, Selection(), sink, tally)]
    brought = [piece.run.info.id for piece in pieces if isinstance(piece, ImportRunRequest)]
    assert brought == ["stays"]
    assert tally.gone.first == ["goes"]


@pytest.mark.long
def test_a_target_that_goes_away_is_said_and_the_copy_goes_on_later(sqlite: str) -> None:
    fill(sqlite, forks=FORKS)
    with embedded_redis(appendonly="yes", appendfsync="always") as server:
        process = start_slowly("copy", sqlite, server.url)
        wait_for_runs(server.url, 20)
        server.kill()
        out, err = process.communicate(timeout=60)
        assert process.returncode in (1, 2), out + err
        assert err.startswith("agent-stores: ")
        assert "Traceback" not in err
        server.start()
        assert copied(run("copy", sqlite, server.url, "--json"))["runs"] == FORKS + 2
        assert run("verify", sqlite, server.url).code == 0
