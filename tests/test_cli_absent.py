"""Where no storage is: what reads makes none, what writes does."""

from pathlib import Path

import pytest

from tests.command_line import run
from tests.conftest import ROOT
from tests.storages import new_url

READS = (
    ("runs", "list"),
    ("runs", "show", "a"),
    ("runs", "tree", "a"),
    ("runs", "diff", "a", "b"),
    ("runs", "tail", "a"),
    ("runs", "fork", "a"),
    ("runs", "label", "a", "--set", "b=c"),
    ("runs", "delete", "a", "--yes"),
    ("runs", "prune", "--label", "a=b", "--yes"),
    ("memory", "list"),
    ("memory", "recall", "a"),
    ("memory", "delete", "a"),
    ("memory", "namespaces"),
    ("memory", "reembed", "--embedder", "words:8"),
    ("results", "list"),
    ("results", "show", "a"),
    ("results", "grep", "a", "b"),
    ("results", "delete", "a"),
    ("verify",),
    ("sweep",),
    ("tenants",),
    ("erase-tenant", "a", "--yes"),
    ("export",),
    ("migrate", "sql"),
    ("migrate", "down", "--to", "1", "--yes"),
    ("ui", "--port", "0"),
)


@pytest.fixture(params=["sqlite", "file"])
def absent(request: pytest.FixtureRequest) -> str:
    """A path at which nothing is, with a name that was meant to be another."""
    return new_url(request.param, request) + "-mistyped"


def path_of(url: str) -> Path:
    return Path(url.partition(":")[2])


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_what_reads_makes_no_storage_and_names_the_place(
    command: tuple[str, ...], absent: str
) -> None:
    ran = run(*command, absent)
    assert (ran.code, ran.out) == (2, "")
    assert f"there is no storage at {absent}" in ran.err
    assert list(path_of(absent).parent.iterdir()) == []


def test_a_copy_and_a_comparison_need_both_their_sources(absent: str, tmp_path: Path) -> None:
    there = f"sqlite:{tmp_path / 'there'}"
    assert run("migrate", "up", there).code == 0
    for command in (("copy", absent, there), ("verify", absent, there), ("verify", there, absent)):
        ran = run(*command)
        assert ran.code == 2
        assert absent in ran.err
    assert run("copy", there, absent, "--dry-run").code == 0
    assert not path_of(absent).exists()
    assert run("copy", there, absent).code == 0
    assert run("verify", there, absent).code == 0


def test_what_writes_makes_a_storage(absent: str) -> None:
    assert run("memory", "put", "a", "b", absent).code == 0
    assert run("memory", "list", absent).code == 0


def test_the_url_may_decide_otherwise(absent: str) -> None:
    assert run("memory", "put", "a", "b", f"{absent}?create=no").code == 2
    assert not path_of(absent).exists()
    assert run("runs", "list", f"{absent}?create=yes").code == 0
    assert path_of(absent).exists()


def test_an_empty_file_or_folder_is_no_storage_yet(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for url in (f"sqlite:{tmp_path / 'file'}", f"file:{tmp_path / 'folder'}"):
        assert "there is no storage" in run("runs", "list", url).err
    assert (tmp_path / "file").read_bytes() == b""
    assert list((tmp_path / "folder").iterdir()) == []
    other = run("runs", "list", f"file:{ROOT / 'docs'}")
    assert other.code == 2
    assert "a folder that holds other files" in other.err


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres"])
def test_status_and_doctor_say_that_nothing_is_there_and_make_nothing(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = new_url(kind, request, alone=True)
    for _ in range(2):
        status = run("migrate", "status", url, "--json")
        assert (status.code, status.err) == (1, "")
        assert status.document["state"] == "absent"
        found = run("doctor", url, "--json")
        assert (found.code, found.err) == (1, "")
        assert found.document["schemaState"] == "absent"
        assert "migrate up" in found.document["warnings"][0]
        assert "absent" in run("migrate", "status", url).out
        assert "migrate up" in run("doctor", url).out
    assert run("migrate", "up", url).code == 0
    assert run("migrate", "status", url, "--json").document["state"] == "current"
