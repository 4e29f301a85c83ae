"""What only a fault shows is caught by the test that has to, on a backend where it can happen."""

from pathlib import Path

import pytest

from conformance_tests.broken.defect import Defect, defects
from conformance_tests.broken.exam import Ending, checks, examine, of_test
from conformance_tests.contract import guarantees

DEFECTS = defects(amid_faults=True)
CHECKS = checks(amid_faults=True)
PATIENCE = 100.0


def url_for(defect: Defect, request: pytest.FixtureRequest, folder: Path) -> str:
    """A good storage for it: one with a server, one that lasts, or one in memory."""
    needs = of_test(CHECKS, defect.caught_by)[0].proof.needs
    if "server" in needs:
        return request.getfixturevalue("own_redis")
    if defect.caught_by.startswith("test_disk.py"):
        return f"file:{folder}/broken"
    lasting = "lasting" in needs
    return f"sqlite:{folder}/broken.db?durability=client" if lasting else f"memory:{defect.name}"


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_caught_by_the_test_that_has_to(
    defect: Defect, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    opener = defect.opener(url_for(defect, request, tmp_path))
    asked = of_test(CHECKS, defect.caught_by)
    found = examine(opener, asked, until_caught=True, seconds=PATIENCE)
    assert found.count(Ending.CAUGHT), f"{defect.caught_by} passes although {defect.sentence}"


def test_there_are_some_of_each_tier_and_each_is_small() -> None:
    tiers = [of_test(CHECKS, defect.caught_by)[0].proof.tier for defect in DEFECTS.values()]
    assert {tier: tiers.count(tier) >= 3 for tier in "ABC"} == dict.fromkeys("ABC", True)
    for defect in DEFECTS.values():
        assert len(defect.code) < 20, f"{defect.name} takes {len(defect.code)} lines"
        assert defect.sentence.endswith("."), f"{defect.name} does not say what is wrong"


def test_a_defect_breaks_what_the_test_proves_that_has_to_catch_it() -> None:
    for defect in DEFECTS.values():
        assert set(defect.breaks) <= guarantees().keys(), defect.name
        assert set(defect.breaks) & set(of_test(CHECKS, defect.caught_by)[0].proof.numbers)
