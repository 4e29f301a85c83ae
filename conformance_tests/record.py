"""What happened in a run of the suite: which checks there are and what became of each.

A check is one test, with one sample where the test is parametrised.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import pytest

from conformance_tests.proves import Proof, proof_of

QUICK_SAMPLES = 1
"""So many samples of each test are left in the quick profile, whose runs take seconds."""

QUICK_PROOFS = 4
"""So many tests of each guarantee are left there, in case some do not apply to a backend."""


class Outcome(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Ended:
    """A check that came to an end, and why it did where it did not pass."""

    outcome: Outcome
    why: str = ""


class Record:
    """A pytest plugin that notes what the others do. Under xdist the workers report to one."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[str, ...]] = {}
        self.kinds: dict[str, tuple[str, str]] = {}
        self.cut: set[str] = set()
        self.ended: dict[str, Ended] = {}
        self.broken_modules: set[str] = set()

    def tier_of(self, check: str) -> str:
        return self.kinds.get(check, ("A", ""))[0]

    def amid(self, check: str) -> str:
        """What goes on while the check runs: "others", "faults", or ""."""
        return self.kinds.get(check, ("A", ""))[1]

    @property
    def modules(self) -> set[str]:
        """The file names of the test modules that were collected."""
        return {nodeid.partition("::")[0].rpartition("/")[2] for nodeid in self.numbers}

    def became_of(self, check: str) -> Ended | None:
        """How a check ended; None for one that the quick profile cut."""
        if check in self.cut:
            return None
        return self.ended.get(check, Ended(Outcome.NOT_RUN, "left out by the options of this run"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        proof = the_proof_of(item)
        self.numbers[item.nodeid] = proof.numbers
        self.kinds[item.nodeid] = proof.tier, proof.amid

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        # Last, so that the first samples are taken of what -k and the like have left.
        if config.getoption("--quick"):
            kept, cut = _first_samples(items)
            self.cut.update(item.nodeid for item in cut)
            items[:] = kept
            if cut:
                config.hook.pytest_deselected(items=cut)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken_modules.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ended = _ended(report)
        before = self.ended.get(report.nodeid)
        if ended and (before is None or before.outcome is not Outcome.FAILED):
            self.ended[report.nodeid] = ended

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["checks"] = {check: list(of) for check, of in self.numbers.items()}
            output["kinds"] = {check: list(of) for check, of in self.kinds.items()}
            output["cut"] = sorted(self.cut)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output = cast("dict[str, Any]", getattr(node, "workeroutput", {}))
        for check, numbers in cast("dict[str, list[str]]", output.get("checks", {})).items():
            self.numbers[check] = tuple(numbers)
        for check, (tier, amid) in cast("dict[str, list[str]]", output.get("kinds", {})).items():
            self.kinds[check] = tier, amid
        self.cut.update(cast("list[str]", output.get("cut", [])))


def the_proof_of(item: pytest.Item) -> Proof:
    """What a collected test proves. Raises UsageError for one that does not say."""
    proof = proof_of(getattr(item, "function", None))
    if proof is None:
        raise pytest.UsageError(f"{item.nodeid} proves nothing: put @proves(...) above it")
    return proof


def _first_samples(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    seen: Counter[str] = Counter()
    proofs: Counter[str] = Counter()
    kept: set[str] = set()
    for item in items:
        test, proof = item.nodeid.partition("[")[0], the_proof_of(item)
        seen[test] += 1
        wanted = any(proofs[number] < QUICK_PROOFS for number in proof.numbers)
        if wanted and seen[test] <= QUICK_SAMPLES and not proof.thorough:
            kept.add(item.nodeid)
            proofs.update(proof.numbers)
    left = [item for item in items if item.nodeid in kept]
    return left, [item for item in items if item.nodeid not in kept]


def _ended(report: pytest.TestReport) -> Ended | None:
    if report.failed:
        return Ended(Outcome.FAILED)
    if report.skipped:
        if hasattr(report, "wasxfail"):
            return Ended(Outcome.NOT_RUN, "the test is marked as expected to fail")
        for name, why in report.user_properties:
            if name in (Outcome.NOT_APPLICABLE, Outcome.NOT_RUN):
                return Ended(Outcome(name), str(why))
        return Ended(Outcome.NOT_RUN, "the test skipped itself")
    return Ended(Outcome.PASSED) if report.when == "call" else None
