"""The mutants: what is changed, what is left alone, and that the suite is what notices."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import covering, kept
from tests.mutants.mutating import mutants, mutated, shuffled
from tests.mutants.subjects import ROOT, SUBJECTS, Subject

SOURCE = '''"""A module."""

import os

LIMIT = 10


def half(numbers: list[int], *, of: int = 2) -> int:
    """Not changed: "a < b" in a text."""
    if len(numbers) < LIMIT and not of == 0:
        os.sync()
        return sum(numbers) // of
    raise ValueError(f"{len(numbers)} are {1 + 1} too many")
'''


def test_each_change_makes_another_program_of_the_same_module(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(SOURCE)
    found = mutants(tmp_path, "half.py")
    programs = {ast.unparse(mutated(tmp_path, one)) for one in found}
    assert ast.unparse(ast.parse(SOURCE)) not in programs
    assert len(programs) == len(found) == len({one.name for one in found})
    assert {one.name.rpartition(": ")[2] for one in found} == {
        "10 becomes 11", "2 becomes 3", "the condition is turned", "And becomes Or",
        "Lt becomes LtE", "Not is left out", "Eq becomes NotEq", "0 becomes 1",
        "the call is left out", "returns None", "FloorDiv becomes Mult",
    }  # fmt: skip


def test_imports_texts_types_and_errors_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(SOURCE)
    changed = {line for one in mutants(tmp_path, "half.py") for line in range(*one.lines)}
    assert not changed & {1, 3, 13}


def test_a_seed_gives_an_order_that_stays_when_code_comes(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(SOURCE)
    before = [one.name for one in shuffled(tmp_path, ["half.py"], 1)]
    assert before != [one.name for one in shuffled(tmp_path, ["half.py"], 2)]
    (tmp_path / "half.py").write_text(SOURCE.replace("LIMIT = 10", "LIMIT = 10\nMORE = 7"))
    after = [one.name for one in shuffled(tmp_path, ["half.py"], 1)]
    assert [name for name in after if "MORE" not in name] == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_what_is_left_out_is_there(subject: Subject) -> None:
    there = {path.name for path in (ROOT / subject.folder).glob("*.py")}
    assert subject.left_out <= there
    assert subject.paths


def test_the_tests_of_a_line_come_quickest_first_and_else_those_of_the_module() -> None:
    path = SUBJECTS["memory"].paths[0]
    one = mutants(ROOT, path)[0]
    cover = covering.Cover({"slow": 2.0, "quick": 1.0, "other": 0.5})
    assert cover.picked(one) == ["other", "quick", "slow"], "nothing is known of the module"
    cover.lines = {path: {one.lines[0]: ["slow", "quick"], 10**6: ["other"]}}
    assert cover.picked(one) == ["quick", "slow"]
    cover.lines = {path: {one.lines[0]: [], 10**6: ["other"]}}
    assert cover.picked(one) == ["other"], "the line runs on import"


PROGRAM = """
import json, sys
from tests.mutants.mutating import mutants
from tests.mutants.subjects import ROOT
from tests.mutants.trying import attempt, prepare
prepare("stores_core.in_memory")
path, change, test = sys.argv[1:]
(one,) = [one for one in mutants(ROOT, path) if one.name == f"{path}: {change}"]
print(json.dumps(attempt(one, "stores_core.in_memory", "memory:x", [test], first=True)))
"""


FORKS = "test_fork.py::test_a_fork_takes_the_first_messages_and_events_only_with_all"


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        ("if source is not None and standing is None:: the condition is turned", True),
        ("self.entries_read += 1: 1 becomes 2", False),
    ],
)
def test_a_check_notices_the_mutant_that_it_can(change: str, noticed: bool) -> None:
    path = "stores_core/in_memory/runs.py"
    command = [sys.executable, "-c", PROGRAM, path, change, FORKS]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    by, how = json.loads(ran.stdout.splitlines()[-1])
    assert by == (FORKS if noticed else ""), how


def test_the_page_is_made_from_the_results() -> None:
    text = kept.JSON.with_suffix(".md").read_text(encoding="utf-8")
    assert text == kept.page(kept.read()), "run `make mutants`"
