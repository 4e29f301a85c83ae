"""Every file of a folder of real transcripts, which STORES_TEST_TRANSCRIPTS names.

Below it stands a folder for each format, named as the format. What no importer knows is to be said.
"""

import os
from pathlib import Path

import pytest

from stores_cli.importing import Outcome, import_sessions
from stores_core import open_backend

NAMED = "STORES_TEST_TRANSCRIPTS"

pytestmark = pytest.mark.skipif(NAMED not in os.environ, reason=f"{NAMED} names no folder")


@pytest.fixture
def files() -> list[Path]:
    found = Path(os.environ[NAMED]).glob("*/**/*")
    return sorted(path for path in found if path.is_file())


async def test_every_transcript_comes_in_once_or_is_said_to_have_no_importer(
    files: list[Path],
) -> None:
    places = [str(path) for path in files]
    async with open_backend("memory:") as backend:
        first = await import_sessions(backend, places)
        again = await import_sessions(backend, places)
    assert set(first.outcomes()) <= {Outcome.CREATED, Outcome.PARTED}
    assert set(again.outcomes()) == {Outcome.SAME}
    read = 0
    for account in first.files:
        if account.refused:
            assert account.refused.startswith("no importer knows"), account.name
            continue
        read += 1
        assert account.format in Path(account.name).parts, account.name
        assert account.marks >= account.records > 0, account.name
    assert read > 0.9 * len(files)
