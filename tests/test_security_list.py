"""The list of attacks is whole: every row is shown by tests that exist, on every backend."""

import pytest

from tests.conftest import ROOT
from tests.security_list import PAGE, ROWS, page
from tests.security_row import SUITE, Row, exists, place_of
from tests.storages import BACKENDS

# Tests of ours that hold for every backend since they are of what all of them share.
OF_ALL = {
    "test_security_source.py", "test_watching.py", "test_cli_secrets.py",
    "test_suite_machinery.py", "test_report.py", "test_security_printed.py",
}  # fmt: skip


def test_there_are_32_rows_in_order() -> None:
    assert [row.number for row in ROWS] == list(range(1, 33))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_every_test_that_a_row_names_exists(row: Row) -> None:
    named = [*row.all, *(test for tests in row.on.values() for test in tests)]
    assert named, "a row that nothing shows anywhere"
    assert [test for test in named if not exists(test)] == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_every_row_is_shown_on_every_backend_or_has_no_surface_there(
    row: Row, backend: str
) -> None:
    shown = [*row.all, *row.on.get(backend, ())]
    assert bool(shown) != bool(row.free.get(backend)), f"{backend} has tests, or a reason"
    assert set(row.on) | set(row.free) <= set(BACKENDS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_what_is_said_of_all_backends_runs_on_all(row: Row) -> None:
    for test in row.all:
        path, name = place_of(test)
        if path.startswith(SUITE) or path.removeprefix("tests/") in OF_ALL:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "url_alone: str" in text, f"{path} runs on one backend"
        assert f"def {name}(" in text


def test_the_page_is_made_from_the_list() -> None:
    made = "run `python -m tests.security_list`"
    assert PAGE.read_text(encoding="utf-8") == page(), made
