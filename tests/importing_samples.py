"""Small transcripts in every format that has an importer, and what becomes of them.

`python -m tests.importing_samples` writes anew what the tests expect; look at the difference.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stores_cli.importing import FileReport, Report, import_sessions
from stores_core import Backend, open_backend
from stores_core.codec import canonical

FOLDER = Path(__file__).parent / "golden" / "transcripts"
EXPECTED = FOLDER.parent / "transcripts.json"
SAMPLES = sorted(path for path in FOLDER.iterdir())
STAMP = datetime(2000, 1, 1, tzinfo=UTC)
"""The store's time, so that it shows which messages brought none of their own."""


async def bring_in(backend: Backend, *paths: Path, **options: Any) -> Report:
    return await import_sessions(
        backend, [str(path) for path in paths], shown=lambda place: Path(place).name, **options
    )


async def read_sample(paths: Sequence[Path]) -> dict[str, Any]:
    """What an import of these files together leaves in an empty store."""
    async with open_backend("memory:", clock=lambda: STAMP) as backend:
        report = await bring_in(backend, *paths)
        return {file.name: await summary(backend, file) for file in report.files}


async def summary(backend: Backend, file: FileReport) -> dict[str, Any]:
    """All that matters of one file's import, short enough to be read."""
    account = {name: item for name, item in file.as_json().items() if item and name != "runs"}
    runs = [await _run(backend, run.run_id) for run in file.runs if run.run_id]
    return {"account": account, "runs": runs}


async def _run(backend: Backend, run_id: str) -> dict[str, Any]:
    run = (await backend.runs.load_run(run_id=run_id)).run
    assert run is not None
    messages: list[Any] = []
    for message in run.messages:
        calls = [[made.id, made.name, made.args] for made in message.tool_calls or ()]
        beside: dict[str, Any] = (message.__pydantic_extra__ or {}).get("source") or {}
        said: list[Any] = [message.role, (message.text or "")[:60]]
        said += [{"calls": calls}] if calls else []
        said += [{"answers": message.tool_call_id}] if message.tool_call_id else []
        said += [{"at": canonical(message.timestamp)[1:-1]}] if message.timestamp != STAMP else []
        said += [{"source": list(beside)}] if beside else []
        messages.append(said)
    events = [
        [event.kind, (event.text or "")[:40], (event.__pydantic_extra__ or {}).get("atMessage")]
        for event in run.events
    ]
    return {
        "id": run.id, "labels": dict(run.labels), "parent": run.parent_id, "at": run.fork_point,
        "messages": messages, "events": events,
    }  # fmt: skip


if __name__ == "__main__":
    found = asyncio.run(read_sample(SAMPLES))
    EXPECTED.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
