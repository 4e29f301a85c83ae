"""The tally counts what was played, and the page says no more than the tally."""

from pathlib import Path

from conformance_tests.record import Outcome
from conformance_tests.report import as_json
from tests.tally import TALLY, Round, Row, add, page, read, report_of
from tests.test_report import verdict_of


def row(**changes: object) -> Row:
    values: dict[str, object] = {
        "check": "suite",
        "backend": "memory",
        "commit": "abc",
        "python": "3.11.0",
        "seed": 100,
        "first": "2027-01-01T00:00:00+00:00",
    }
    return Row(**(values | changes))  # type: ignore[arg-type] - the types are those of the fields


def test_rounds_of_one_identity_are_summed_up_and_others_kept_apart(tmp_path: Path) -> None:
    tally = tmp_path / "proof.json"
    add(Round(10, 0, 1.5, True), row(), tally)
    add(Round(11, 0, 1.0, True), row(seed=5), tally)
    add(Round(7, 0, 1.0, True), row(commit="def"), tally)
    first, second = read(tally)
    assert (first.rounds, first.passed, first.seconds, first.seed) == (2, 21, 2.5, 100)
    assert (second.rounds, second.passed, second.commit) == (1, 7, "def")


def test_the_seed_of_a_round_that_was_not_sound_can_be_played_again(tmp_path: Path) -> None:
    tally = tmp_path / "proof.json"
    for sound in (True, False, True, False):
        add(Round(1, int(not sound), 1.0, sound), row(), tally)
    (found,) = read(tally)
    assert found.failing_seeds == [101, 103]
    assert found.next_seed == 104
    assert "memory at `abc` with the seeds 101, 103" in tally.with_suffix(".md").read_text("utf-8")


def test_a_series_counts_as_many_rounds_as_it_had(tmp_path: Path) -> None:
    tally = tmp_path / "proof.json"
    add(Round(900, 0, 30.0, True, count=50), row(check="kills", backend="sqlite"), tally)
    assert "| sqlite | 50 | 900 | 0 | 0 |" in tally.with_suffix(".md").read_text("utf-8")


def test_the_last_whole_run_of_the_suite_is_reported(tmp_path: Path) -> None:
    tally, verdict = tmp_path / "proof.json", as_json(verdict_of(Outcome.PASSED, Outcome.PASSED))
    add(Round(1, 0, 1.0, True, report=report_of(verdict)), row(), tally)
    text = tally.with_suffix(".md").read_text("utf-8")
    assert "### memory" in text
    assert "durability disk. Conformant: every guarantee" in text
    assert "| A, black box | 2 | 0 |  |" in text
    assert read(tally)[0].report["tiers"]["C, clock, network, system calls"] == [0, 0, []]


def test_the_page_is_what_the_tally_says() -> None:
    assert TALLY.with_suffix(".md").read_text("utf-8") == page(read())
