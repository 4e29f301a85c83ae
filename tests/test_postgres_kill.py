"""A server that is killed loses nothing; the long run is ``python -m tests.postgres_kill``."""

import json
from pathlib import Path

import pytest

from tests.conftest import Python


@pytest.mark.long
@pytest.mark.timeout(200)
def test_three_kills_of_the_server_lose_nothing_and_leave_nothing_in_part(
    root: Path, python: Python
) -> None:
    ran = python("-m", "tests.postgres_kill", "--kills", "3", cwd=root, seconds=180)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["kills"] == 3
