"""What looks and changes nothing: doctor, lists, transcripts, trees, searches."""

import asyncio
import re
import sqlite3
from pathlib import Path

import pytest

from stores_core import Message, open_backend
from tests.command_line import HOSTILE, fill, run, sqlite, url

__all__ = ["sqlite", "url"]  # fixtures

SHOWN = r"odd \x1b[31m\u202e[bold]:id/.."
"""The hostile id as a terminal gets it."""


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


def test_doctor_says_what_it_found(filled: str) -> None:
    ran = run("doctor", filled, "--json")
    facts = ran.document
    assert facts["schemaState"] == "current"
    assert facts["durability"]
    assert ran.code == (1 if facts["warnings"] else 0)
    text = run("doctor", filled)
    assert text.code == ran.code
    assert "schemaState" in text.out
    for warning in facts["warnings"]:
        assert f"warning: {warning}" in text.out


def test_runs_are_listed_newest_first_and_filtered(filled: str) -> None:
    listed = run("runs", "list", filled, "--json").document
    assert [one["id"] for one in listed["runs"]] == [HOSTILE, "fork-2", "fork-1", "fork-0", "root"]
    assert not listed["more"]
    two = run("runs", "list", filled, "--limit", "2", "--json").document
    assert [one["id"] for one in two["runs"]] == [HOSTILE, "fork-2"]
    assert two["more"]
    exact = run("runs", "list", filled, "--limit", "5", "--json").document
    assert not exact["more"]
    forks = run("runs", "list", filled, "--parent", "root", "--label", "kind=test", "--json")
    assert len(forks.document["runs"]) == 3
    assert run("runs", "list", filled, "--idle-for", "1h", "--json").document["runs"] == []
    assert len(run("runs", "list", filled).out.splitlines()) == 6


def test_a_run_is_shown_as_a_transcript(filled: str) -> None:
    text = run("runs", "show", "root", filled, "--last", "2", "--events").out
    assert "[4] user" in text
    assert "    word 5\n" in text
    assert "word 3" not in text
    assert "(0) turn-end  step 1" in text
    lines = run("runs", "show", "root", filled, "--start", "1", "--limit", "2", "--json").lines
    assert lines[0]["run"]["messageCount"] == 6
    assert [(one["position"], one["message"]["text"]) for one in lines[1:]] == [
        (1, "word 1"),
        (2, "word 2"),
    ]


def test_what_is_not_there_is_said(filled: str) -> None:
    for command in ("show", "tree", "tail"):
        ran = run("runs", command, "nobody", filled)
        assert (ran.code, ran.out) == (1, "")
        assert "there is no run nobody" in ran.err
    assert run("runs", "diff", "root", "nobody", filled).code == 1
    assert run("results", "show", "nobody", filled).code == 1
    assert run("results", "grep", "nobody", "x", filled).code == 1


def test_a_family_is_drawn_as_a_tree(filled: str) -> None:
    assert run("runs", "tree", "fork-1", filled).out.splitlines() == [
        "root  6 messages",
        "├── fork-0  forked at message 2  3 messages",
        "├── fork-1  forked at message 2  3 messages  <-",
        "└── fork-2  forked at message 2  3 messages",
    ]
    assert run("runs", "fork", "fork-0", filled, "--id", "deeper").out == "deeper\n"
    run("runs", "delete", "root", filled, "--yes")
    tree = run("runs", "tree", "deeper", filled, "--json").document["runs"]
    assert [(one["depth"], one["id"]) for one in tree] == [(0, "fork-0"), (1, "deeper")]
    assert run("runs", "tree", "deeper", filled).out.startswith("root (deleted)\nfork-0")


def test_two_runs_are_compared_from_the_first_message_on(filled: str) -> None:
    ran = run("runs", "diff", "root", "fork-1", filled, "--json")
    assert ran.code == 1
    assert ran.document["shared"] == {"messages": 2, "events": 0}
    text = run("runs", "diff", "root", "fork-1", filled).out
    assert "word 2" in text
    assert "other way" in text
    assert "word 1" not in text
    same = run("runs", "diff", "root", "root", filled)
    assert same.code == 0


def test_a_tail_ends_when_nothing_comes(filled: str) -> None:
    ran = run("runs", "tail", "root", filled, "--last", "1", "--events", "--idle", "0.1", "--json")
    assert ran.code == 0
    assert [sorted(line) for line in ran.lines] == [["message", "position"], ["event", "position"]]


def test_notes_are_listed_and_recalled(filled: str) -> None:
    listed = run("memory", "list", filled, "--json").document
    assert [note["item"]["key"] for note in listed["items"]] == ["n0", "n1", "n2"]
    assert run("memory", "list", filled, "--limit", "2", "--json").document["more"]
    assert run("memory", "namespaces", filled, "--json").document["namespaces"] == ["", "user/ada"]
    assert run("memory", "namespaces", filled, "--prefix", "user").out.split() == [
        "namespace",
        "user/ada",
    ]
    found = run("memory", "recall", "TEA 2", filled, "-n", "user/ada", "--json").document
    assert [note["item"]["key"] for note in found["items"]] == ["n2"]
    near = run("memory", "recall", "tea 2", filled, "--embedder", "words:16", "--limit", "1")
    assert re.search(r"0\.\d+ +n2 +tea 2", near.out)
    assert run("memory", "recall", "coffee", filled).code == 1


def test_results_are_listed_read_and_searched(filled: str) -> None:
    listed = run("results", "list", filled, "--label", "tool=find", "--json").document
    assert [info["ref"] for info in listed["infos"]] == ["r1"]
    assert run("results", "show", "r1", filled).out == "one\ntwo\nthree\n"
    assert run("results", "show", "r1", filled, "--offset", "4", "--limit", "3").out == "two\n"
    whole = run("results", "show", "r1", filled, "--json").document
    assert whole == {"content": [{"type": "text", "text": "one\ntwo\nthree"}]}
    assert run("results", "grep", "r1", "T", filled, "-i").out == "4: two\n8: three\n"
    assert [one["offset"] for one in run("results", "grep", "r1", "e", filled, "--json").lines] == [
        2,
        11,
    ]
    assert run("results", "grep", "r1", "zzz", filled).code == 1


def test_hostile_ids_and_texts_reach_no_terminal(filled: str) -> None:
    for arguments in (
        ("runs", "list", filled),
        ("runs", "show", HOSTILE, filled),
        ("runs", "tree", HOSTILE, filled),
        ("runs", "diff", HOSTILE, "root", filled),
        ("runs", "prune", filled, "--label", f"{HOSTILE}={HOSTILE}"),
        ("results", "list", filled),
        ("results", "show", HOSTILE, filled),
        ("results", "grep", HOSTILE, "odd", filled),
        ("runs", "show", HOSTILE + "x", filled),
    ):
        ran = run(*arguments)
        assert SHOWN in ran.out + ran.err
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ran.out + ran.err)
    for arguments in (("runs", "list", filled), ("results", "show", HOSTILE, filled)):
        assert run(*arguments, "--json").out.isascii()


def test_verify_reads_everything(filled: str) -> None:
    checked = run("verify", filled, "--json").document
    assert checked["problems"] == []
    assert checked["checked"]["runs"] == 5
    assert run("verify", filled).out.endswith("no damage\n")


def test_verify_names_what_is_damaged(sqlite: str) -> None:
    fill(sqlite)
    connection = sqlite3.connect(sqlite.partition(":")[2])
    first = "(SELECT min(place) FROM entries)"
    connection.execute(f"UPDATE entries SET body = x'00' WHERE place = {first}")  # noqa: S608
    connection.commit()
    connection.close()
    ran = run("verify", sqlite, "--json")
    assert ran.code == 1
    assert ran.document["problems"]
    shown = run("runs", "show", "root", sqlite)
    assert shown.code == 1
    assert "cannot be read" in shown.err


def test_doctor_warns_of_a_file_that_others_may_read(sqlite: str) -> None:
    fill(sqlite, forks=0)
    Path(sqlite.partition(":")[2]).chmod(0o644)
    ran = run("doctor", sqlite)
    assert ran.code == 1
    assert "warning: " in ran.out
    assert "chmod 600" in ran.out


def test_a_family_of_many_generations_is_drawn() -> None:
    async def work() -> None:
        async with open_backend("memory:deep") as backend:
            await backend.runs.create_run(run_id="g0")
            await backend.runs.append_messages(run_id="g0", messages=[Message(role="user")])
            for number in range(1_500):
                await backend.runs.fork_run(run_id=f"g{number}", new_run_id=f"g{number + 1}")

    asyncio.run(work())
    tree = run("runs", "tree", "g1500", "memory:deep", "--limit", "2000", "--json").document
    assert [one["depth"] for one in tree["runs"]] == list(range(1_501))
    text = run("runs", "tree", "g1500", "memory:deep", "--limit", "2000").out
    assert "(1500 levels deep) g1500" in text
    assert len(text) < 400_000
