"""Four processes on one folder: the suite, and histories of which every call is recorded."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests.histories.__main__ import main
from conformance_tests.verdict import PARTIAL

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")

PROCESSES = 4


@pytest.mark.long
@pytest.mark.timeout(400)
def test_four_processes_pass_the_suite_on_one_folder(tmp_path: Path) -> None:
    told = "test_concurrency or test_racing or test_keys or test_fork or test_deleting"
    suite = subprocess.run(
        [
            *(sys.executable, "-m", "conformance_tests", "--url", f"file:{tmp_path}/stores"),
            *("--quick", "-n", str(PROCESSES), "-k", told),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FAILED" not in suite.stdout, suite.stdout[-4_000:]
    assert "RUN-A4" in suite.stdout
    assert suite.returncode == PARTIAL, suite.stdout[-4_000:] + suite.stderr


@pytest.mark.long
@pytest.mark.timeout(400)
def test_what_four_processes_see_of_one_folder_is_linearisable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--url", f"file:{tmp_path}/stores", "--processes", str(PROCESSES)]
    assert main([*arguments, "--tasks", "2", "--operations", "400"]) == 0
    assert "no fault" in capsys.readouterr().out
