"""Forks in files whose id is taken and given up at the same moment."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stores_files import making
from stores_files.backend import open_files


def test_an_id_that_was_taken_and_is_free_again_is_claimed_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, calls = making.claim, 0

    def lost_once(*args: Any) -> bool:
        nonlocal calls
        calls += 1
        # As if somebody had had the id, and deleted that run right after.
        return calls > 1 and claim(*args)

    async def run() -> None:
        async with open_files(f"file:{tmp_path}/stores") as backend:
            await backend.runs.create_run(run_id="source")
            monkeypatch.setattr(making, "claim", lost_once)
            forked = await backend.runs.fork_run(run_id="source", new_run_id="fork")
            assert (forked.found, forked.created, forked.parent_id) == (True, True, "source")
            assert (await backend.runs.get_run(run_id="fork")).found

    asyncio.run(run())
    assert calls == 2
