"""Archives: written, gone on with after a cut, refused where they are damaged, put."""

import asyncio
import os
import secrets
import signal
import time
from pathlib import Path

import pytest
import zstandard

from stores_cli.archiving import Archive
from stores_core import Message, open_backend
from tests.command_line import (
    FORKS,
    HOSTILE,
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
from tests.storages import new_url

__all__ = ["sqlite", "target", "url"]  # fixtures


def test_an_archive_brings_everything_to_any_backend(url: str, target: str, tmp_path: Path) -> None:
    fill(url)
    archive = tmp_path / "all.jsonl.zst"
    exported = run("export", url, "-o", archive, "--json")
    assert exported.code == 0
    assert exported.document["tenants"][0]["entries"] == 11
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
    assert exported["tenants"][0]["entries"] == 6 + 1 + 9 + 1


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
    path.write_bytes(zstandard.compress(whole.replace(b'"version":2', b'"version":7', 1)))
    assert "version 7" in run("import", path, target).err
    assert run("import", tmp_path / "nowhere", target).code == 2
    assert not Path(target.partition(":")[2]).exists()


def test_a_failed_export_leaves_no_file(sqlite: str, tmp_path: Path) -> None:
    fill(sqlite)
    assert run("export", sqlite, "--run", "nobody", "-o", tmp_path / "a").code == 2
    assert run("export", f"{sqlite}x?nothing=1", "-o", tmp_path / "b").code == 2
    assert not {"a", "b", "a.part", "b.part"} & {path.name for path in tmp_path.iterdir()}


RUNS = 40
NEWEST = f"run-{RUNS - 1}"


def write_much(url: str, *, runs: int) -> None:
    """Runs of which each takes a frame of its own where frames are small."""

    async def work() -> None:
        async with open_backend(url) as backend:
            for number in range(runs):
                await backend.runs.create_run(run_id=f"run-{number}")
                said = [Message(role="user", text=secrets.token_hex(2_000)) for _ in range(3)]
                await backend.runs.append_messages(run_id=f"run-{number}", messages=said)

    asyncio.run(work())


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_an_export_that_was_stopped_goes_on_where_it_was(
    sent: signal.Signals, sqlite: str, target: str, tmp_path: Path
) -> None:
    write_much(sqlite, runs=RUNS)
    archive, part = tmp_path / "a.zst", tmp_path / "a.zst.part"
    process = start_slowly("export", sqlite, "-o", archive)
    while not (part.exists() and part.stat().st_size > 30_000):
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(sent)
    _, err = process.communicate(timeout=90)
    if sent == signal.SIGINT:
        assert (process.returncode, err) == (130, "agent-stores: stopped\n")
    else:
        assert process.returncode == -signal.SIGKILL, err
    assert not archive.exists()
    # The newest comes first, so it is in what was kept, and only there.
    assert run("runs", "delete", NEWEST, sqlite, "--yes").code == 0
    rest = run("export", sqlite, "-o", archive, "--json").document
    assert rest["resumed"]
    assert rest["tenants"][0]["runs"] == RUNS
    assert not part.exists()
    assert copied(run("import", archive, target, "--json"))["created"] == RUNS
    assert run("runs", "show", NEWEST, target).code == 0
    assert run("verify", sqlite, target, "--subset").code == 0


def cut_off(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    """An export with --output last that is stopped before its last line."""

    def stop(archive: Archive) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "end", stop)
        assert run("export", *arguments).code == 130


@pytest.mark.long
def test_wherever_an_export_was_cut_it_goes_on_to_a_whole_archive(
    sqlite: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores_cli.archiving.FRAME_BYTES", 1)
    fill(sqlite)
    archive, part = tmp_path / "a.zst", tmp_path / "a.zst.part"
    cut_off(monkeypatch, sqlite, "-o", archive)
    begun = part.read_bytes()
    first = zstandard.ZstdDecompressor().decompressobj()
    first.decompress(begun)
    whole = len(begun) - len(first.unused_data)
    for length in range(0, len(begun) + 1, max(1, len(begun) // 40)):
        part.touch(0o600)
        part.write_bytes(begun[:length])
        exported = run("export", sqlite, "-o", archive, "--force", "--json").document
        assert exported["resumed"] == (length >= whole)
        counts = exported["tenants"][0]
        assert [counts[name] for name in ("runs", "entries", "notes", "results")] == [5, 11, 6, 2]
    # The last went on with all of it, so no record came twice.
    assert copied(run("import", archive, target, "--json"))["runs"] == 5
    assert run("verify", sqlite, target).code == 0
    assert archive.read_bytes().startswith(begun)


def test_what_moved_since_an_export_was_cut_off_comes_once_more(
    sqlite: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite)
    archive = tmp_path / "a.zst"
    cut_off(monkeypatch, sqlite, "-o", archive)
    write(sqlite, "fork-1", "since then")
    run("memory", "put", "n0", "coffee", sqlite)
    run("results", "delete", "r1", sqlite)
    assert run("export", sqlite, "-o", archive, "--json").document["resumed"]
    assert run("import", archive, target).code == 0
    found = run("verify", sqlite, target, "--json").document
    assert [(one["kind"], one["id"]) for one in found["differences"]] == [("result", "r1")]


def test_another_export_does_not_go_on_with_what_was_begun(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite)
    archive, part = tmp_path / "a.zst", tmp_path / "a.zst.part"
    cut_off(monkeypatch, sqlite, "-o", archive)
    one = run("export", sqlite, "--run", "fork-1", "-o", archive, "--json").document
    assert (one["resumed"], one["tenants"][0]["runs"]) == (False, 1)
    cut_off(monkeypatch, sqlite, "--force", "-o", archive)
    for left in (b"left by something else", b""):
        part.touch(0o600)
        part.write_bytes(left)
        again = run("export", sqlite, "-o", archive, "--force", "--json").document
        assert (again["resumed"], again["tenants"][0]["runs"]) == (False, 5)


def test_what_was_begun_where_others_may_read_is_begun_anew(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite)
    archive, part = tmp_path / "a.zst", tmp_path / "a.zst.part"
    cut_off(monkeypatch, sqlite, "-o", archive)
    part.chmod(0o644)
    assert not run("export", sqlite, "-o", archive, "--json").document["resumed"]
    assert archive.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    other.write_bytes(b"somebody's")
    part.symlink_to(other)
    assert run("export", sqlite, "-o", archive, "--force").code == 0
    assert other.read_bytes() == b"somebody's"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file", "redis", "postgres"])
def test_all_tenants_go_into_one_archive_and_out_again(
    kind: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = new_url(kind, request, alone=True)
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    tenants = ("", HOSTILE, "one")  # in code-point order
    for tenant in tenants:
        fill_tenant(url, tenant)
    archive = tmp_path / "a.zst"
    cut_off(monkeypatch, url, "--all-tenants", "-o", archive)
    exported = run("export", url, "--all-tenants", "-o", archive, "--json").document
    assert exported["resumed"]
    assert [(one["tenant"], one["runs"]) for one in exported["tenants"]] == [
        (tenant, 1) for tenant in tenants
    ]
    refused = run("import", archive, target, "--tenant", "one")
    assert refused.code == 2
    assert "--tenant" in refused.err
    brought = run("import", archive, target, "--json").document["tenants"]
    assert [(one["tenant"], one["created"]) for one in brought] == [
        (tenant, 1) for tenant in tenants
    ]
    verified = run("verify", url, target, "--all-tenants", "--json").document["tenants"]
    assert [(one["tenant"], one["equal"]) for one in verified] == [
        (tenant, True) for tenant in tenants
    ]
    assert run("export", url, "--all-tenants", "--tenant", "one", "-o", tmp_path / "b").code == 2


def fill_tenant(url: str, tenant: str) -> None:
    """A run of the same id in each tenant, with what is the tenant's own."""

    async def work() -> None:
        async with open_backend(url, tenant=tenant) as backend:
            await backend.runs.create_run(run_id="a", labels={"of": tenant or "nobody"})
            said = [Message(role="user", text=f"of {tenant}")]
            await backend.runs.append_messages(run_id="a", messages=said)

    asyncio.run(work())


@pytest.mark.long
def test_an_import_that_was_stopped_goes_on(sqlite: str, target: str, tmp_path: Path) -> None:
    fill(sqlite, forks=FORKS)
    archive = tmp_path / "a.zst"
    assert run("export", sqlite, "-o", archive).code == 0
    process = start_slowly("import", archive, target)
    wait_for_runs(target, 20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (130, "agent-stores: stopped\n")
    assert copied(run("import", archive, target, "--json"))["same"] >= 20
    assert run("verify", sqlite, target).code == 0
