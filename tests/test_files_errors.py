"""The disk fails, or the process ends, at any call: the error is the right one, and all goes on."""

import errno
import sys

import pytest

from tests.files_interruptions import interruptions
from tests.files_steps import ALL

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")


EVERY = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
"""Each so many calls are met; all of them take minutes."""


@EVERY
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", ALL)
def test_a_process_that_ends_at_any_call_leaves_nothing_in_the_way(step: str, every: int) -> None:
    outcomes = list(interruptions(ALL[step], None, every=every))
    assert not [fault for each in outcomes for fault in each.faults]
    assert {each.ending for each in outcomes} == {"killed"}


@EVERY
@pytest.mark.timeout(300)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", ALL)
def test_a_disk_that_fails_at_any_call_loses_nothing(step: str, for_ever: bool, every: int) -> None:
    outcomes = list(interruptions(ALL[step], errno.EIO, for_ever=for_ever, every=every))
    assert not [fault for each in outcomes for fault in each.faults]
    endings = {each.ending for each in outcomes}
    assert "not applied" in endings, "no call that fails is told"
    assert endings <= {"done", "not applied", "unknown"}


@EVERY
@pytest.mark.timeout(300)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EROFS])
@pytest.mark.parametrize(
    "step", ["create", "append many", "fork", "replace a result", "put a note"]
)
def test_a_disk_that_is_full_or_closed_is_told_as_such(step: str, error: int, every: int) -> None:
    outcomes = list(interruptions(ALL[step], error, every=3 * every))
    assert not [fault for each in outcomes for fault in each.faults]
