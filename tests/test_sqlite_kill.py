"""Writers that are killed lose nothing; the long run is ``python -m tests.sqlite_kill``."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.killing import broken_batches


@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_forty_kills_lose_nothing_and_leave_nothing_in_part(root: Path, python: Python) -> None:
    ran = python("-W", "ignore", "-m", "tests.sqlite_kill", "--kills", "40", cwd=root, seconds=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["kills"] == 40


def test_the_harness_sees_a_batch_in_part_twice_or_mixed() -> None:
    whole = ["a|0|2|", "a|1|2|"]
    assert broken_batches([*whole, "b|0|1|"]) == []
    for broken in (whole[:1], whole[1:], whole + whole, ["a|0|2|", "b|0|1|", "a|1|2|"]):
        assert broken_batches(broken)
