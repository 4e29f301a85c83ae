"""Which verdict comes of which checks."""

from datetime import UTC, datetime

import pytest

from conformance_tests.contract import guarantees
from conformance_tests.record import Ended, Outcome, Record
from conformance_tests.report import as_json
from conformance_tests.verdict import Facts, State, Verdict, judge


@pytest.mark.parametrize(
    ("ended", "pytest_code", "exit_code"),
    [
        ([Outcome.PASSED], 0, 0),
        ([Outcome.PASSED, Outcome.NOT_APPLICABLE], 0, 0),
        ([Outcome.PASSED, Outcome.NOT_RUN], 0, 3),
        ([Outcome.PASSED, None], 0, 3),
        ([Outcome.PASSED, Outcome.FAILED], 1, 1),
        ([Outcome.PASSED, Outcome.FAILED], 2, 1),
        ([Outcome.PASSED], 1, 1),
        ([Outcome.PASSED], 2, 2),
        ([Outcome.PASSED], 3, 2),
        ([Outcome.NOT_APPLICABLE], 0, 2),
        ([Outcome.NOT_RUN], 0, 2),
        ([], 5, 2),
        ([], 0, 2),
    ],
)
def test_the_exit_code_is_0_for_nothing_but_a_whole_proof(
    ended: list[Outcome | None], pytest_code: int, exit_code: int
) -> None:
    record = Record()
    for n, outcome in enumerate(ended):
        record.numbers[f"test_x.py::test_{n}"] = ("MEM-1",)
        if outcome is not None:
            record.ended[f"test_x.py::test_{n}"] = Ended(outcome, "so it is")
    verdict = Verdict(
        Facts("here", "name", "none", (), ("memory",)),
        record,
        {"MEM-1": guarantees()["MEM-1"]},
        modules=["test_x.py"],
        pytest_code=pytest_code,
        quick=False,
        seed=0,
        started=datetime.now(UTC),
        seconds=1.0,
    )
    assert verdict.exit_code == exit_code
    assert as_json(verdict)["conformant"] is (exit_code == 0)
    assert verdict.sentence.startswith("conformant") is (exit_code == 0)


@pytest.mark.parametrize("number", ["ALL-10", "MEM-1"])
def test_tenants_are_never_not_applicable(number: str) -> None:
    judged = judge(guarantees()[number], {"test": Ended(Outcome.NOT_APPLICABLE, "no store")})
    assert judged.state is (State.NOT_RUN if number == "ALL-10" else State.NOT_APPLICABLE)
