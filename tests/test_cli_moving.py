"""Copies between backends, archives, and the proof that both ends hold the same."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard

from stores_cli.transfer import Selection, Tally, read
from stores_core import ImportRunRequest, Message, open_backend
from tests.command_line import BACKENDS, HOSTILE, Ran, fill, new_url, run, sqlite, start, url
from tests.redis_embedded import embedded_redis

__all__ = ["sqlite", "url"]  # fixtures

FORKS = 1_200
"""So many that a copy, which gives way to others, is caught in the middle."""

NEWEST = f"fork-{FORKS - 1}"

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> str:
    """Another empty SQLite file."""
    return new_url("sqlite", request)


def copied(ran: Ran) -> dict[str, int]:
    """What a copy into one tenant counted."""
    assert ran.code == 0, ran.err
    (report,) = ran.document["tenants"]
    return report


def write(url: str, run_id: str, *texts: str) -> None:
    """Append messages."""

    async def work() -> None:
        async with open_backend(url) as backend:
            said = [Message(role="user", text=text) for text in texts]
            assert (await backend.runs.append_messages(run_id=run_id, messages=said)).applied

    asyncio.run(work())


def test_a_copy_around_all_backends_comes_back_equal(request: pytest.FixtureRequest) -> None:
    ring = [new_url(kind, request) for kind in (*BACKENDS, "memory")]
    fill(ring[0])
    sizes: list[dict[str, int]] = []
    for source, destination in pairwise(ring):
        sizes.append(copied(run("copy", source, destination, "--json")))
        assert run("verify", source, destination).code == 0
    assert {(one["runs"], one["created"], one["entries"]) for one in sizes} == {(5, 5, 11)}
    assert not any(one["moved"] for one in sizes)
    ends = run("verify", ring[0], ring[-1], "--json").document
    assert ends["equal"]
    assert ends["vectors"]
    assert ends["digests"][0] == ends["digests"][1]
    assert ends["compared"] == {"runs": 5, "entries": 11, "notes": 6, "results": 2}


def test_copying_again_doubles_nothing_and_brings_what_is_new(url: str, target: str) -> None:
    fill(url)
    copied(run("copy", url, target, "--json"))
    again = copied(run("copy", url, target, "--json"))
    assert (again["same"], again["created"], again["entries"], again["notes"]) == (5, 0, 0, 0)
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
    assert run("runs", "list", target, "--json").document["runs"] == []


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


def test_a_copied_family_still_shares_its_prefix(request: pytest.FixtureRequest) -> None:
    source, destination = new_url("sqlite", request), new_url("file", request)
    fill(source, forks=30, messages=2_000)
    alone = new_url("file", request)
    copied(run("copy", source, alone, "--run", "root", "--json"))
    copied(run("copy", source, destination, "--json"))
    assert _bytes(destination) < 1.1 * _bytes(alone) + 100_000


def _bytes(url: str) -> int:
    async def work() -> int:
        async with open_backend(url) as backend:
            return (await backend.admin.measure()).bytes or 0

    return asyncio.run(work())


def test_a_copy_that_was_killed_goes_on(sqlite: str, target: str) -> None:
    fill(f"{sqlite}?durability=client", forks=FORKS, messages=3_000)
    there = 0
    for sent, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = start("copy", sqlite, target)
        _wait_for_runs(target, there + 20)
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


def _wait_for_runs(url: str, count: int) -> None:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if url.startswith("redis:") or Path(url.partition(":")[2]).exists():
            listed = run("runs", "list", url, "--limit", str(count), "--json")
            if listed.code == 0 and len(listed.document["runs"]) >= count:
                return
        time.sleep(0.02)
    raise AssertionError("the copy does not get on")


def test_runs_that_are_written_to_meanwhile_are_whole_and_named(sqlite: str, target: str) -> None:
    fill(f"{sqlite}?durability=client", forks=FORKS)
    process = start("copy", sqlite, target, "--json")
    _wait_for_runs(target, 20)
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


def test_an_archive_brings_everything_to_any_backend(url: str, target: str, tmp_path: Path) -> None:
    fill(url)
    archive = tmp_path / "all.jsonl.zst"
    exported = run("export", url, "-o", archive, "--json")
    assert exported.code == 0
    assert exported.document["entries"] == 11
    assert run("export", url, "-o", archive).code == 2
    assert run("export", url, "-o", archive, "--force").code == 0
    assert copied(run("import", archive, target, "--json"))["created"] == 5
    assert copied(run("import", archive, target, "--json"))["same"] == 5
    assert run("verify", url, target).code == 0
    other = new_archive_of(target, tmp_path)
    assert run("import", other, url).code == 0


def new_archive_of(url: str, folder: Path) -> Path:
    """An archive of all that is there."""
    path = folder / "other.jsonl.zst"
    assert run("export", url, "-o", path).code == 0
    return path


def test_a_log_that_many_share_is_brought_once(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores_cli.transfer.LOGS_KNOWN", 2)
    fill(sqlite, forks=9)
    exported = run("export", sqlite, "-o", tmp_path / "a.zst", "--json").document
    assert exported["entries"] == 6 + 1 + 9 + 1


def test_an_archive_is_for_its_owner_and_in_this_folder(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    before = os.umask(0)
    try:
        assert run("export", sqlite, "--run", HOSTILE).code == 0
    finally:
        os.umask(before)
    (made,) = here.iterdir()
    assert made.name.startswith("agent-stores-")
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_damaged_archive_is_named_and_nothing_of_it_is_put(
    sqlite: str, target: str, tmp_path: Path
) -> None:
    fill(sqlite)
    whole = zstandard.decompress(new_archive_of(sqlite, tmp_path).read_bytes(), 10_000_000)
    lines = whole.splitlines(keepends=True)
    damaged = {
        "cut": b"".join(lines[:-1]),
        "changed": whole.replace(b"word 3", b"word 4"),
        "without a line": b"".join([*lines[:2], *lines[3:]]),
        "no JSON": b"".join([lines[0], b"{\n", *lines[1:]]),
        "more behind": whole + lines[1],
        "half a line": whole[:-10],
        "no message": whole.replace(b'"role":', b'"rule":'),
    }
    path = tmp_path / "damaged.zst"
    for name, data in damaged.items():
        path.write_bytes(zstandard.compress(data))
        ran = run("import", path, target)
        assert ran.code == 1, name
        assert "damaged at line" in ran.err, name
    path.write_bytes(zstandard.compress(whole)[:-20])
    assert run("import", path, target).code == 1
    path.write_bytes(whole)
    assert run("import", path, target).code == 2
    path.write_bytes(zstandard.compress(whole.replace(b'"version":1', b'"version":7', 1)))
    assert "version 7" in run("import", path, target).err
    assert run("import", tmp_path / "nowhere", target).code == 2
    assert run("runs", "list", target, "--json").document["runs"] == []


def test_a_failed_export_leaves_no_file(sqlite: str, tmp_path: Path) -> None:
    fill(sqlite)
    assert run("export", sqlite, "--run", "nobody", "-o", tmp_path / "a").code == 2
    process = start("export", f"{sqlite}x?nothing=1", "-o", tmp_path / "b")
    _, err = process.communicate(timeout=90)
    assert process.returncode == 2, err
    assert not {"a", "b", "a.part", "b.part"} & {path.name for path in tmp_path.iterdir()}


def test_an_interrupted_export_and_import_leave_nothing_half(
    sqlite: str, target: str, tmp_path: Path
) -> None:
    fill(f"{sqlite}?durability=client", forks=FORKS, messages=20_000)
    archive = tmp_path / "a.zst"
    process = start("export", sqlite, "-o", archive)
    while not (part := archive.with_name("a.zst.part")).exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (130, "agent-stores: stopped\n")
    assert not archive.exists()
    assert not part.exists()

    part.write_bytes(b"left by a kill")
    assert run("export", sqlite, "-o", archive).code == 0
    process = start("import", archive, target)
    _wait_for_runs(target, 20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (130, "agent-stores: stopped\n")
    assert copied(run("import", archive, target, "--json"))["same"] >= 20
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

        async def reached(log: str) -> int:
            if (await source.runs.delete_run(run_id="goes")).deleted:
                while (await source.admin.sweep()).more:
                    pass
            return 0

        tally = Tally()
        pieces = [piece async for piece in read(source, Selection(), reached, tally)]
    brought = [piece.run.info.id for piece in pieces if isinstance(piece, ImportRunRequest)]
    assert brought == ["stays"]
    assert tally.gone.first == ["goes"]


def test_a_target_that_goes_away_is_said_and_the_copy_goes_on_later(sqlite: str) -> None:
    fill(f"{sqlite}?durability=client", forks=FORKS)
    with embedded_redis(appendonly="yes", appendfsync="always") as server:
        process = start("copy", sqlite, server.url)
        _wait_for_runs(server.url, 20)
        server.kill()
        out, err = process.communicate(timeout=60)
        assert process.returncode in (1, 2), out + err
        assert err.startswith("agent-stores: ")
        assert "Traceback" not in err
        server.start()
        assert copied(run("copy", sqlite, server.url, "--json"))["runs"] == FORKS + 2
        assert run("verify", sqlite, server.url).code == 0
