"""Imports repeated: of sessions that grew, were rewritten or went on in the store, and cut off."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stores_cli.importing import Outcome, batches
from stores_core import Backend, Call, Message, Request, Response, open_backend
from tests.command_line import run, start_slowly, url
from tests.importing_samples import FOLDER, bring_in

__all__ = ["url"]  # a fixture

CLAUDE = (FOLDER / "claude-code.jsonl").read_text(encoding="utf-8").splitlines()
RUN = "claude-code:5e551071-0000-4000-8000-000000000001"


def put_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


async def texts(backend: Backend, run_id: str) -> list[str]:
    run = (await backend.runs.load_run(run_id=run_id)).run
    assert run is not None
    return [message.text or "" for message in run.messages]


async def everything(backend: Backend) -> list[Any]:
    """All runs with all they hold, but for what the store itself stamps."""
    found: list[Any] = []
    for info in (await backend.runs.list_runs(limit=1_000)).runs:
        run = (await backend.runs.load_run(run_id=info.id)).run
        assert run is not None
        said = [message.model_dump(exclude={"timestamp"}) for message in run.messages]
        told = [event.model_dump() for event in run.events]
        found.append((run.id, run.parent_id, run.fork_point, dict(run.labels), said, told))
    return sorted(found, key=lambda run: run[0])


@pytest.mark.parametrize("cut", range(1, len(CLAUDE)))
async def test_a_session_that_grew_ends_as_if_imported_once(tmp_path: Path, cut: int) -> None:
    session = tmp_path / "session.jsonl"
    async with open_backend("memory:") as grown, open_backend("memory:") as whole:
        await bring_in(grown, put_lines(session, CLAUDE[:cut]), format="claude-code")
        before = await everything(grown)
        await bring_in(grown, put_lines(session, CLAUDE), format="claude-code")
        await bring_in(whole, session, format="claude-code")
        after = await everything(grown)
        assert after == await everything(whole)
        for old, new in zip(
            before, (run for run in after if run[0] in {b[0] for b in before}), strict=True
        ):
            assert new[4][: len(old[4])] == old[4]


async def test_totals_that_changed_are_told_again_and_nothing_else(tmp_path: Path) -> None:
    session = tmp_path / "gemini.json"
    held: dict[str, Any] = json.loads((FOLDER / "gemini-cli.json").read_text(encoding="utf-8"))
    run_id = f"gemini-cli:{held['sessionId']}"
    async with open_backend("memory:") as backend:
        session.write_text(json.dumps(held), encoding="utf-8")
        await bring_in(backend, session)
        held["messages"].append({"id": "m9", "type": "user", "content": "And red?"})
        held["lastUpdated"] = "2026-03-02T10:00:00Z"
        session.write_text(json.dumps(held), encoding="utf-8")
        assert (await bring_in(backend, session)).outcomes() == {"grown": 1}
        run = (await backend.runs.load_run(run_id=run_id)).run
        assert run is not None
        kinds = [event.kind for event in run.events]
        assert kinds == ["info", "session-state", "session-state"]
        assert run.message_count == 4
        assert (await bring_in(backend, session)).outcomes() == {"same": 1}


async def test_a_session_that_was_rewritten_becomes_a_fork(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    async with open_backend("memory:") as backend:
        await bring_in(backend, put_lines(session, CLAUDE[:9]))
        before = await texts(backend, RUN)
        other = [line.replace("HIGH is a constant", "HIGH is a guess") for line in CLAUDE[:11]]
        report = await bring_in(backend, put_lines(session, other))
        (run,) = report.files[0].runs
        assert (run.outcome, run.parent_id, run.fork_point) == (Outcome.PARTED, RUN, 6)
        assert await texts(backend, RUN) == before
        assert f"from message 6 on another talk than {RUN}" in report.lines()[-1]
        assert (await texts(backend, run.run_id))[6].startswith("HIGH is a guess")
        again = await bring_in(backend, session)
        assert [found.outcome for found in again.files[0].runs] == [Outcome.SAME]
        more = [line.replace("HIGH is a constant", "HIGH is a guess") for line in CLAUDE[:12]]
        grown = await bring_in(backend, put_lines(session, more))
        assert [(one.outcome, one.run_id) for one in grown.files[0].runs][:1] == [
            (Outcome.SAME, run.run_id)
        ]


async def test_a_run_that_went_on_in_the_store_stays_as_it_is(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    async with open_backend("memory:") as backend:
        await bring_in(backend, put_lines(session, CLAUDE[:9]))
        await backend.runs.append_messages(
            run_id=RUN, messages=[Message(role="user", text="said here")]
        )
        kept = await texts(backend, RUN)
        assert (await bring_in(backend, session)).outcomes() == {"same": 1}
        report = await bring_in(backend, put_lines(session, CLAUDE[:11]))
        (run,) = report.files[0].runs
        assert (run.outcome, run.fork_point) == (Outcome.PARTED, 7)
        assert await texts(backend, RUN) == kept
        assert (await texts(backend, run.run_id))[7:] == [
            "Then make it a setting.", "Done: TIDE_HIGH."
        ]  # fmt: skip


async def test_a_session_resumed_in_a_new_file_is_a_fork_of_the_old_one(tmp_path: Path) -> None:
    """The new file has a name that sorts first, begins with a copy, and names no link."""
    old = tmp_path / "5e551071-0000-4000-8000-000000000001.jsonl"
    new = tmp_path / "0e551071-0000-4000-8000-000000000002.jsonl"
    put_lines(old, CLAUDE[:9])
    more = json.loads(CLAUDE[9]) | {"sessionId": new.stem}
    put_lines(new, [*CLAUDE[:8], json.dumps(more)])
    async with open_backend("memory:") as backend:
        report = await bring_in(backend, tmp_path)
        info = (await backend.runs.get_run(run_id=f"claude-code:{new.stem}")).info
        assert info is not None
        assert (info.parent_id, info.fork_point, info.message_count) == (RUN, 6, 7)
        assert report.outcomes() == {"created": 2}
        assert (await bring_in(backend, tmp_path)).outcomes() == {"same": 2}


async def test_what_stands_at_the_id_and_is_something_else_is_left_alone(tmp_path: Path) -> None:
    session = put_lines(tmp_path / "session.jsonl", CLAUDE[:9])
    async with open_backend("memory:") as backend:
        await backend.runs.create_run(run_id=RUN)
        await backend.runs.append_messages(run_id=RUN, messages=[Message(role="user", text="mine")])
        report = await bring_in(backend, session)
        assert report.outcomes() == {"conflict": 1}
        assert not report.fine
        assert "message 0 is another one" in "\n".join(report.lines())
        assert await texts(backend, RUN) == ["mine"]


Around = Callable[[Call, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]


def stopping(after: int) -> Around:
    """Stops the import as Ctrl-C does, before the write of that number or behind it."""
    seen = 0

    async def stop(call: Call, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        nonlocal seen
        if not call.writes:
            return await proceed(call.request)
        seen += 1
        if seen == after:
            raise asyncio.CancelledError
        answer = await proceed(call.request)
        if seen == after - 1 and after % 2:
            raise asyncio.CancelledError  # applied, and nobody was told
        return answer

    return stop


def test_an_import_that_was_stopped_goes_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ENTRIES", 3)
    asyncio.run(_stop_and_go_on(url))


async def _stop_and_go_on(url: str) -> None:
    files = FOLDER / "claude-code.jsonl", FOLDER / "codex.jsonl"
    stops = 0
    for after in (1, 2, 3) * 5:
        async with open_backend(url, interceptors=[stopping(after)]) as backend:
            try:
                await bring_in(backend, *files)
            except asyncio.CancelledError:
                stops += 1
    assert stops > 5
    async with open_backend(url) as backend, open_backend("memory:") as whole:
        await bring_in(backend, *files)
        await bring_in(whole, *files)
        assert await everything(backend) == await everything(whole)


async def test_imports_side_by_side_end_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_ENTRIES", 2)
    async with open_backend("memory:") as backend, open_backend("memory:") as whole:
        files = [FOLDER / "claude-code.jsonl", FOLDER / "copilot-cli.jsonl"]
        reports = await asyncio.gather(*(bring_in(backend, *files) for _ in range(3)))
        await bring_in(whole, *files)
        assert await everything(backend) == await everything(whole)
        outcomes = [outcome for report in reports for outcome in report.outcomes()]
        assert set(outcomes) <= {"created", "grown", "same"}


def long_session(path: Path, messages: int) -> Path:
    lines = [
        json.dumps(
            {"type": "user", "sessionId": "long", "uuid": f"u{n}", "parentUuid": f"u{n - 1}",
             "message": {"role": "user", "content": f"word {n}"}}
        )
        for n in range(messages)
    ]  # fmt: skip
    return put_lines(path, lines)


async def length(url: str) -> int:
    async with open_backend(url) as backend:
        info = (await backend.runs.get_run(run_id="claude-code:long")).info
        return info.message_count if info else 0


@pytest.mark.long
def test_the_command_stops_at_ctrl_c_and_goes_on(tmp_path: Path) -> None:
    session = long_session(tmp_path / "long.jsonl", 2_500)
    url = f"sqlite:{tmp_path / 'agent.db'}"
    stopped = start_slowly("import", "--from", "auto", session, url)
    while not asyncio.run(length(url)):
        assert stopped.poll() is None
    stopped.send_signal(signal.SIGINT)
    _, told = stopped.communicate(timeout=90)
    assert stopped.returncode == 130
    assert "Traceback" not in told
    there = asyncio.run(length(url))
    assert 0 < there < 2_500
    again = run("import", "--from", "auto", session, url, "--json").document
    assert again["runs"] == {"grown": 1}
    assert asyncio.run(length(url)) == 2_500


async def test_many_branches_of_a_long_session_cost_what_is_new(tmp_path: Path) -> None:
    session = long_session(tmp_path / "long.jsonl", 2_000)
    lines = session.read_text(encoding="utf-8").splitlines()
    lines += [
        json.dumps(
            {"type": "user", "sessionId": "long", "uuid": f"b{n}", "parentUuid": "u1900",
             "message": {"role": "user", "content": f"other way {n}"}}
        )
        for n in range(100)
    ]  # fmt: skip
    read = 0

    async def count(call: Call, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        nonlocal read
        answer = await proceed(call.request)
        read += len(getattr(answer, "entries", ()))
        return answer

    async with open_backend("memory:", interceptors=[count]) as backend:
        report = await bring_in(backend, put_lines(session, lines))
        assert report.outcomes() == {"created": 101}
        assert {run.fork_point for run in report.files[0].runs} == {0, 1901}
        assert read < 1_000, "what this import wrote itself is not read again"
        assert (await bring_in(backend, session)).outcomes() == {"same": 101}
        assert read < 5_000, "a prefix that all share is compared once"
