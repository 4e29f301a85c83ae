"""Imports of sessions that other programs keep: every format, by a small sample of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from stores_cli.importing import FORMATS, Outcome, entries
from stores_core import open_backend
from tests.command_line import run, url
from tests.importing_samples import EXPECTED, FOLDER, SAMPLES, STAMP, bring_in, read_sample, summary

__all__ = ["url"]  # a fixture

WITHOUT_SAMPLE = {"go-sdk", "langgraph-checkpoints"}  # databases: tested beside


def format_of(sample: Path) -> str:
    """The format that a sample's name begins with."""
    names = [format.name for format in FORMATS if sample.name.startswith(format.name)]
    return max(names, key=len, default="")


@pytest.mark.parametrize("kept", [entries.KEPT_BYTES, 0], ids=["in memory", "on disk"])
def test_what_becomes_of_each_sample_is_known(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "KEPT_BYTES", kept)
    found = asyncio.run(read_sample(SAMPLES))
    expected: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert found.keys() == expected.keys()
    for name, account in expected.items():
        assert found[name] == account, name


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
async def test_a_sample_is_recognised_accounted_for_and_imported_once(sample: Path) -> None:
    async with open_backend("memory:", clock=lambda: STAMP) as backend:
        account = (await bring_in(backend, sample)).files[0]
        assert account.format == format_of(sample)
        if not account.format:
            assert account.refused
            assert not account.fine
            return
        assert account.marks >= account.records > 0
        assert {run.outcome for run in account.runs} <= {Outcome.CREATED}
        before = await summary(backend, account)
        again = await bring_in(backend, sample, format=account.format)
        assert {run.outcome for run in again.files[0].runs} <= {Outcome.SAME}
        assert await summary(backend, account) == before


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
async def test_a_dry_run_reads_the_same_and_writes_nothing(sample: Path) -> None:
    async with open_backend("memory:") as backend:
        dry = (await bring_in(None, sample)).files[0]  # pyright: ignore[reportArgumentType] - None
        assert not (await backend.runs.list_runs()).runs
        real = (await bring_in(backend, sample)).files[0]
        assert {run.outcome for run in dry.runs} <= {Outcome.READ}
        for name in ("records", "messages", "events", "notes", "results", "left_out", "damaged"):
            assert getattr(dry, name) == getattr(real, name), name


def test_every_format_has_a_sample() -> None:
    names = {format.name for format in FORMATS}
    assert names - {format_of(sample) for sample in SAMPLES} == WITHOUT_SAMPLE


def test_all_samples_come_in_by_the_command_on_every_backend(url: str) -> None:
    first = run("import", "--from", "auto", FOLDER, url, "--json")
    assert first.code == 1  # some are damaged on purpose, one is of no format
    again = run("import", "--from", "auto", FOLDER, url, "--label", "later=1", "--json")
    runs = first.document["runs"]
    assert set(runs) == {"created"}
    assert again.document["runs"] == {"same": runs["created"]}
    kept = asyncio.run(_summaries(url))
    expected: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    shapes = {
        one["id"]: [one["parent"], one["at"], one["events"], [said[:2] for said in one["messages"]]]
        for file in expected.values()
        for one in file["runs"]
    }
    assert kept == shapes


async def _summaries(url: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    async with open_backend(url) as backend:
        for info in (await backend.runs.list_runs(limit=1_000)).runs:
            whole = (await backend.runs.load_run(run_id=info.id)).run
            assert whole is not None
            assert "later" not in whole.labels
            events = [
                [event.kind, (event.text or "")[:40], (event.__pydantic_extra__ or {})["atMessage"]]
                for event in whole.events
            ]
            said = [[message.role, (message.text or "")[:60]] for message in whole.messages]
            found[info.id] = [whole.parent_id, whole.fork_point, events, said]
        note = await backend.memory.get_memory(namespace="letta:Loop-letta-39ff2d31", key="human")
        assert note.item is not None
        assert note.item.value == "Likes tea."
        listed = await backend.tool_results.list_tool_results()
        whole_result = await backend.tool_results.get_tool_result(ref=listed.infos[0].ref)
        assert whole_result.result is not None
        assert whole_result.result.structured_content == {"rain": True}
    return found


def test_the_report_says_what_was_left_out_and_why() -> None:
    told = run("import", "--from", "claude-code", FOLDER / "claude-code.jsonl", "memory:told")
    assert told.code == 1
    assert "left out 1: a record that is there twice" in told.out
    assert "damaged at line 20: str, not an object" in told.out
    assert "damaged at line 21: no JSON" in told.out
    assert "runs: 3 created" in told.out


def test_a_format_that_nobody_knows_is_refused_with_the_names_of_all() -> None:
    refused = run("import", "--from", "nothing", FOLDER / "pi.jsonl", "memory:none")
    assert refused.code == 2
    assert "claude-code" in refused.err
    missing = run("import", "--from", "auto", FOLDER / "nowhere.json", "memory:none")
    assert missing.code == 2
    assert "nowhere.json" in missing.err


def test_the_page_lists_every_format_as_the_code_does(root: Path) -> None:
    page = (root / "docs" / "importing.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 3]
    assert rows == [f"| `{format.name}` | {format.title} |" for format in FORMATS]
