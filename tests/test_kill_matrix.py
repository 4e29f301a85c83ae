"""The suite examined: every broken store is caught by the test that has to catch it."""

from pathlib import Path

import pytest

from conformance_tests.broken import matrix, page
from conformance_tests.broken.defect import Defect, defects
from conformance_tests.broken.exam import Ending, checks, examine, first_samples
from conformance_tests.broken.running import TRIES, chosen, chosen_amid_faults
from conformance_tests.contract import guarantees
from conformance_tests.opener import from_function, from_url

DEFECTS, AMID_FAULTS = defects(), defects(amid_faults=True)
CHECKS = matrix.by_test(checks())
LEAST = 75


@pytest.fixture
def kept(root: Path) -> Path:
    """The matrix that is kept beside the page."""
    return root / "docs" / "kill-matrix.json"


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_caught_by_the_test_that_has_to(defect: Defect) -> None:
    # On SQLite `make kill-matrix` does the same, in minutes.
    opener = defect.opener(f"memory:{defect.name}")
    for n in range(TRIES):
        found = examine(opener, CHECKS[defect.caught_by], quick=n < 2, until_caught=True)
        if found.count(Ending.CAUGHT):
            return
    pytest.fail(f"{defect.caught_by} passes although {defect.sentence}")


def test_the_tests_that_catch_defects_pass_on_a_good_store() -> None:
    named = {defect.caught_by for defect in DEFECTS.values()}
    some = [check for check in first_samples(checks()) if check.test in named]
    found = examine(from_url("memory:good"), some, quick=True)
    assert found.count(Ending.PASSED) == len(some), [
        test for test, endings in found.endings.items() if not endings[Ending.PASSED]
    ]


def test_there_are_enough_defects_and_each_is_small() -> None:
    assert len(DEFECTS) >= LEAST
    for defect in DEFECTS.values():
        assert len(defect.code) < 20, f"{defect.name} takes {len(defect.code)} lines"
        assert defect.sentence.endswith("."), f"{defect.name} does not say what is wrong"


def test_a_defect_breaks_what_the_test_proves_that_has_to_catch_it() -> None:
    known = guarantees()
    for defect in DEFECTS.values():
        assert set(defect.breaks) <= known.keys(), defect.name
        proved = CHECKS[defect.caught_by][0].proof.numbers
        assert set(defect.breaks) & set(proved), f"{defect.name} breaks none of {proved}"


def test_the_matrix_lists_the_defects_and_the_tests_that_there_are(kept: Path) -> None:
    bases = matrix.read(kept)
    assert set(bases) == {"memory", "sqlite", matrix.AMID_FAULTS}
    for name, base in bases.items():
        amid_faults = name == matrix.AMID_FAULTS
        listed = AMID_FAULTS if amid_faults else DEFECTS
        assert set(base.defects) == set(listed), "run `make kill-matrix`"
        for column in base.defects.values():
            assert set(column.failed) <= set(base.tests)
        run = chosen_amid_faults() if amid_faults else chosen(first=base.samples != "all")
        assert set(base.tests) == {check.test for check in run}, "run `make kill-matrix`"


def test_in_the_matrix_every_defect_is_caught_and_passes_most_of_the_suite(kept: Path) -> None:
    for name, base in matrix.read(kept).items():
        for defect in (AMID_FAULTS if name == matrix.AMID_FAULTS else DEFECTS).values():
            assert base.is_caught(defect), f"{defect.name} survived; run `make kill-matrix`"
            if base.is_wide:
                assert base.passed(defect.name) >= matrix.LEAST_PASSED, defect.name


def test_the_page_is_made_from_the_matrix(kept: Path) -> None:
    text = kept.with_suffix(".md").read_text(encoding="utf-8")
    assert text == page.page({**DEFECTS, **AMID_FAULTS}, matrix.read(kept)), (
        "run `make kill-matrix`"
    )


def test_a_broken_store_can_be_opened_by_name() -> None:
    opener = from_function("conformance_tests.broken.on_memory:ForkTakesOneTooFew")
    defect = DEFECTS["ForkTakesOneTooFew"]
    found = examine(opener, CHECKS[defect.caught_by], until_caught=True)
    assert found.count(Ending.CAUGHT)
