"""Guarantees and tests belong together: each number has a test, each test has a number."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests import contract
from conformance_tests.contract import NOT_SHOWN, UNPROVABLE, Guarantee, faults, guarantees, proofs
from stores_core import MemoryStore, RunStore


def test_every_guarantee_has_a_test_or_a_reason_why_not() -> None:
    assert faults(guarantees(), proofs()) == []


def test_guarantees_are_read_whole_and_in_order() -> None:
    known = guarantees()
    numbers = list(known)
    assert numbers.index("ALL-1") < numbers.index("RUN-C1") < numbers.index("RUN-A8")
    assert numbers.index("RUN-D4") < numbers.index("MEM-1") < numbers.index("TOOL-1")
    assert known["RUN-C3"] == Guarantee(
        "RUN-C3",
        "Of any number of concurrent creates of one id exactly one is told created=True.",
        "RunStore.create_run",
    )
    assert known["RUN-C4"].text.endswith("after an error nobody sees half a run.")
    assert known["ALL-10"].home == "Backend"
    assert all(guarantee.text.endswith(".") for guarantee in known.values())


@pytest.mark.parametrize(
    ("prefix", "count"),
    [
        ("ALL-", 12),
        ("RUN-", 41),
        ("MEM-", 14),
        ("SUB-", 2),
        ("EMB-", 6),
        ("TOOL-", 7),
        ("MOVE-", 3),
    ],
)
def test_no_guarantee_is_lost_in_the_docstrings(prefix: str, count: int) -> None:
    assert len([number for number in guarantees() if number.startswith(prefix)]) == count


def test_a_number_inside_a_sentence_is_no_guarantee_of_its_own() -> None:
    # "RUN-L3 holds for it" stands in the docstring of read_events.
    homes = [g.home for g in contract.guarantees_of(RunStore) if g.number == "RUN-L3"]
    assert homes == ["RunStore.read_messages"]
    assert {g.number.partition("-")[0] for g in contract.guarantees_of(MemoryStore)} == {
        "MEM",
        "SUB",
    }


KNOWN = {number: Guarantee(number, "It holds.", "Store.do") for number in ("RUN-F1", "RUN-F2")}


def test_each_kind_of_misfit_is_told() -> None:
    whole = {"test_a": ("RUN-F1",), "test_b": ("RUN-F2",)}
    assert faults(KNOWN, whole, {}, {"RUN-F1": "crashes"}) == []
    assert faults(KNOWN, {"test_a": ("RUN-F1",)}, {"RUN-F2": "no"}, {}) == []
    assert faults(KNOWN, {"test_a": ("RUN-F1",)}, {}, {"RUN-F2": "part"}) == [
        "RUN-F2 has no test and no reason why it cannot have one",
        "RUN-F2 is listed as shown in part and has no test",
    ]
    assert faults(KNOWN, {**whole, "test_c": ("RUN-X1",)}, {}, {}) == [
        "test_c proves RUN-X1, which is no guarantee"
    ]
    assert faults(KNOWN, whole, {"RUN-F1": "no"}, {}) == [
        "RUN-F1 is listed as unprovable and yet has a test"
    ]
    assert faults(KNOWN, whole, {"RUN-F9": "no"}, {}) == [
        "RUN-F9 is listed with a reason and is no guarantee"
    ]


def test_the_page_holds_every_guarantee_and_test() -> None:
    page = contract.page()
    assert "\nContract version: 1\n" in page
    for guarantee in guarantees().values():
        assert f"### {guarantee.number}\n\n{guarantee.text}\n" in page
    for test in proofs():
        assert f"- `{test}`\n" in page
    for reason in [*UNPROVABLE.values(), *NOT_SHOWN.values()]:
        assert f"Cannot be shown by a black box: {reason}." in page


def test_a_page_that_is_out_of_date_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contract, "PAGE", tmp_path / "docs" / "contract.md")
    assert contract.main(["--write"]) == 2  # as from an installed wheel: no docs/ to write into
    assert "docs/" in capsys.readouterr().err
    contract.PAGE.parent.mkdir()
    assert contract.main(["--check"]) == 1
    assert "run `make contract`" in capsys.readouterr().err
    assert contract.main(["--write"]) == 0
    assert contract.main(["--check"]) == 0
    contract.PAGE.write_text(contract.PAGE.read_text("utf-8") + "\n", "utf-8")
    assert contract.main(["--check"]) == 1


def test_the_page_in_the_repository_is_up_to_date(root: Path) -> None:
    check = [sys.executable, "-m", "conformance_tests.contract", "--check"]
    ran = subprocess.run(check, cwd=root, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
