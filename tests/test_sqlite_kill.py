"""Writers that are killed lose nothing; the long run is ``tests.prove --check kills``."""

import json
import sys
from pathlib import Path

import pytest

from conformance_tests.faults.looking import broken_batches
from tests.conftest import Python


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_forty_kills_lose_nothing_and_leave_nothing_in_part(
    root: Path, python: Python, tmp_path: Path
) -> None:
    options = ["--url", f"sqlite:{tmp_path}/{{n}}.db", "--kills", "40"]
    ran = python("-m", "conformance_tests.faults.killing", *options, cwd=root, seconds=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["kills"] == 40


def test_the_harness_sees_a_batch_in_part_twice_or_mixed() -> None:
    whole = ["a|0|2|", "a|1|2|"]
    assert broken_batches([*whole, "b|0|1|"]) == []
    for broken in (whole[:1], whole[1:], whole + whole, ["a|0|2|", "b|0|1|", "a|1|2|"]):
        assert broken_batches(broken)
