"""What changes a storage: forks, labels, deletes, notes, migrations, sweeps, tenants."""

import asyncio
import sqlite3

import pytest

from stores_core import open_backend
from tests.command_line import HOSTILE, fill, run, sqlite, url
from tests.storages import new_url

__all__ = ["sqlite", "url"]  # fixtures


def test_a_fork_is_made_once(url: str) -> None:
    fill(url, forks=0)
    made = run("runs", "fork", "root", url, "--id", "again", "--at", "3", "--json")
    assert made.code == 0
    assert made.document["forkPoint"] == 3
    twice = run("runs", "fork", "root", url, "--id", "again")
    assert (twice.code, twice.out) == (1, "")
    assert "a run again is there already" in twice.err
    assert run("runs", "fork", "nobody", url).code == 1
    own = run("runs", "fork", "root", url, "--label", "a=b").out.strip()
    shown = run("runs", "show", own, url, "--json").lines[0]["run"]
    assert shown["labels"] == {"a": "b"}


def test_labels_are_set_and_removed(url: str) -> None:
    fill(url, forks=0)
    done = run("runs", "label", "root", url, "--set", "a=1=2", "--remove", "kind")
    assert (done.code, done.out) == (0, "")
    shown = run("runs", "show", "root", url, "--json").lines[0]["run"]
    assert shown["labels"] == {"a": "1=2"}
    assert run("runs", "label", "nobody", url, "--set", "a=1").code == 1
    assert run("runs", "label", "root", url).code == 2
    assert "KEY=VALUE" in run("runs", "label", "root", url, "--set", "a").err


def test_nothing_is_deleted_without_asking(url: str) -> None:
    fill(url)
    refused = run("runs", "delete", "root", url)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert run("runs", "delete", "root", url, "--yes").code == 0
    assert run("runs", "delete", "root", url, "--yes").code == 1
    assert run("runs", "show", "fork-1", url).code == 0


def test_pruning_shows_its_plan_and_then_deletes(url: str) -> None:
    fill(url)
    everything = run("runs", "prune", url, "--yes")
    assert everything.code == 2
    plan = run("runs", "prune", url, "--label", "kind=test", "--json").document
    assert (plan["found"], plan["deleted"]) == (4, 0)
    assert run("runs", "prune", url, "--label", "kind=test", "--idle-for", "1h").out.endswith(
        "0 runs with 0 messages; --yes deletes them\n"
    )
    done = run("runs", "prune", url, "--label", "kind=test", "--yes", "--json").document
    assert (done["found"], done["deleted"], done["kept"]) == (4, 4, 0)
    left = run("runs", "list", url, "--json").document["runs"]
    assert [one["id"] for one in left] == [HOSTILE]
    swept = run("sweep", url, "--json")
    assert swept.code == 0
    assert run("verify", url).code == 0


def test_notes_are_put_and_deleted(url: str) -> None:
    assert run("memory", "put", "drink", "tea", url).out == "created, version 1\n"
    assert run("memory", "put", "drink", "milk", url, "--expect", "1").out.startswith("replaced")
    conflict = run("memory", "put", "drink", "water", url, "--expect", "1")
    assert conflict.code == 1
    assert "version 2" in conflict.err
    run("memory", "put", "food", "rice", url, "--metadata", '{"hot": true, "n": 2}')
    found = run("memory", "list", url, "--where", "hot=true", "--where", "n=2.0", "--json").document
    assert [note["item"]["key"] for note in found["items"]] == ["food"]
    assert run("memory", "put", "a", "b", url, "--metadata", "[1]").code == 2
    assert run("memory", "delete", "drink", url).code == 0
    assert run("memory", "delete", "drink", url).code == 1


def test_notes_are_embedded_anew(url: str) -> None:
    fill(url)
    done = run("memory", "reembed", url, "--embedder", "words:8", "--json")
    assert done.document == {"embedded": 6}
    assert run("memory", "recall", "tea", url, "--embedder", "words:8").code == 0
    other = run("memory", "recall", "tea", url, "--embedder", "words:16")
    assert other.code == 1
    assert "words-8" in other.err
    assert run("memory", "recall", "tea", url, "--embedder", "mind").code == 2


def test_results_are_deleted(url: str) -> None:
    fill(url, forks=0)
    assert run("results", "delete", "r1", url, "--json").document == {"deleted": True}
    assert run("results", "delete", "r1", url).code == 1


def test_the_stored_format_is_shown_and_current(url: str) -> None:
    assert run("migrate", "up", url).code == 0
    status = run("migrate", "status", url, "--json")
    assert status.code == 0
    assert status.document["state"] == "current"
    assert status.document["steps"] == []
    assert "nothing to do" in run("migrate", "up", url).out
    assert "nothing to do" in run("migrate", "sql", url).err


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres"])
def test_a_format_goes_down_and_up_again(kind: str, request: pytest.FixtureRequest) -> None:
    url = new_url(kind, request, alone=True)
    fill(url)
    refused = run("migrate", "down", url, "--to", "1")
    assert refused.code == 2
    assert "step: " in refused.out
    assert run("migrate", "down", url, "--to", "1", "--yes").code == 0
    status = run("migrate", "status", url)
    assert status.code == 1
    assert "behind" in status.out
    assert run("doctor", url).code == 1
    assert "migrate up" in run("doctor", url).out
    old = run("runs", "list", url)
    assert old.code == 1
    if kind != "file":
        assert "BEGIN" in run("migrate", "sql", url).out
    assert run("migrate", "up", url, "--yes", "--json").document["applied"]
    assert run("runs", "show", "root", url).code == 0
    assert run("migrate", "down", url, "--to", "99", "--yes").code == 2


def test_an_unknown_format_is_refused_and_named(sqlite: str) -> None:
    fill(sqlite)
    connection = sqlite3.connect(sqlite.partition(":")[2])
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    ran = run("migrate", "status", sqlite)
    assert ran.code == 1
    assert "0009" in ran.out


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file", "redis"])
def test_a_tenant_is_listed_and_erased(kind: str, request: pytest.FixtureRequest) -> None:
    url = new_url(kind, request)

    async def write() -> None:
        for tenant in ("", HOSTILE):
            async with open_backend(url, tenant=tenant) as backend:
                await backend.runs.create_run(run_id="a")

    asyncio.run(write())
    assert run("tenants", url, "--json").document == {"tenants": ["", HOSTILE]}
    assert run("erase-tenant", HOSTILE, url).code == 2
    assert run("erase-tenant", HOSTILE, url, "--yes").code == 0
    assert run("erase-tenant", HOSTILE, url, "--yes").code == 1
    assert run("runs", "list", url, "--json").document["runs"][0]["id"] == "a"
    assert run("runs", "list", url, "--tenant", HOSTILE, "--json").document["runs"] == []
