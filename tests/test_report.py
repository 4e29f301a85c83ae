"""What a verdict looks like where people paste it."""

import json
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from conformance_tests.contract import CONTRACT_VERSION, guarantees
from conformance_tests.record import Ended, Outcome, Record
from conformance_tests.report import as_badge, as_json, as_markdown, table
from conformance_tests.verdict import Facts, Verdict

NUMBERS = ("RUN-F1", "RUN-F2", "MEM-1")


def verdict_of(*became: Outcome, name: str = "store", quick: bool = False) -> Verdict:
    record = Record()
    for number, outcome in zip(NUMBERS, became, strict=False):
        check = f"test_x.py::test_{number}"
        record.numbers[check] = (number,)
        record.ended[check] = Ended(outcome, "so it is")
    return Verdict(
        Facts(f"{name}:", name, "disk", ("shared",), ("runs",), {"server": "18.4"}),
        record,
        {number: guarantees()[number] for number in NUMBERS[: len(became)]},
        modules=["test_x.py"],
        pytest_code=int(Outcome.FAILED in became),
        quick=quick,
        seed=7,
        started=datetime(2027, 3, 4, 5, 6, 7, tzinfo=UTC),
        seconds=12.5,
    )


def test_every_form_names_the_versions_the_durability_and_the_day() -> None:
    verdict = verdict_of(Outcome.PASSED, Outcome.PASSED)
    for text in (table(verdict), as_markdown(verdict), json.dumps(as_json(verdict))):
        assert "disk" in text
        assert "18.4" in text
        assert "2027-03-04" in text
    said = as_json(verdict)
    assert said["contract_version"] == CONTRACT_VERSION
    assert said["started"] == "2027-03-04T05:06:07+00:00"
    assert said["backend"] == {
        "opener": "store:",
        "name": "store",
        "versions": {"server": "18.4"},
        "durability": "disk",
        "capabilities": ["shared"],
        "offered": ["runs"],
    }


def test_a_section_counts_what_each_part_of_the_contract_came_to() -> None:
    text = as_markdown(verdict_of(Outcome.PASSED, Outcome.FAILED, Outcome.PASSED))
    assert "**store: failed**" in text
    assert "| Runs | 1 of 2 | FAILED: RUN-F2 |" in text
    assert "| Working memory | 1 of 1 |  |" in text


def test_every_form_says_which_tiers_were_run_and_what_that_leaves_unproved() -> None:
    killed = kinds_of(Outcome.PASSED, tier="B")
    text = table(killed)
    assert "tier B (reopened, killed, another process): 1 checks" in text
    assert "tier C (clock, network, system calls): NOT RUN" in text
    assert "1 amid faults" in text
    assert "RUN-F7" not in text.partition("does not show")[2]
    said = as_json(killed)
    assert said["amid"] == {"others": 0, "faults": 1}
    assert "| Tier C | tier C (clock, network, system calls): NOT RUN |" in as_markdown(killed)
    by_black_box = table(kinds_of(Outcome.PASSED, tier="A"))
    assert "a fork that a crash cuts off" in by_black_box.partition("does not show")[2]


def kinds_of(became: Outcome, tier: str) -> Verdict:
    """A verdict on one check of RUN-F7 amid faults."""
    check, record = "test_x.py::test", Record()
    record.numbers[check], record.kinds[check] = ("RUN-F7",), (tier, "faults")
    record.ended[check] = Ended(became, "so it is")
    return Verdict(
        Facts("store:", "store", "disk", (), ("runs",)),
        record,
        {"RUN-F7": guarantees()["RUN-F7"]},
        modules=["test_x.py"],
        pytest_code=0,
        quick=False,
        seed=0,
        started=datetime(2027, 3, 4, tzinfo=UTC),
        seconds=1.0,
    )


def test_a_name_with_markup_stays_in_its_cell() -> None:
    text = as_markdown(verdict_of(Outcome.PASSED, name="a|b\n<script>"))
    assert "<script>" not in text
    assert "a\\|b &lt;script&gt;" in text


@pytest.mark.parametrize(
    ("became", "quick", "word"),
    [
        ((Outcome.PASSED, Outcome.PASSED), False, "conformant · 2 checks"),
        ((Outcome.PASSED,), True, "conformant · 1 checks, quick"),
        ((Outcome.PASSED, Outcome.FAILED), False, "failed"),
        ((Outcome.PASSED, Outcome.NOT_RUN), False, "partial"),
        ((Outcome.NOT_RUN,), False, "could not run"),
    ],
)
def test_a_badge_says_conformant_only_of_a_conformant_store(
    became: tuple[Outcome, ...], quick: bool, word: str
) -> None:
    picture = ElementTree.fromstring(as_badge(verdict_of(*became, quick=quick)))  # noqa: S314 - our own text
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [f"agent-stores contract {CONTRACT_VERSION}", word]
    assert ("conformant" in as_badge(verdict_of(*became))) is word.startswith("conformant")
