"""The kill matrix: which test caught which defect, kept as JSON, shown as a page."""

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance_tests.broken.defect import Defect
from conformance_tests.broken.exam import Check, Ending, Findings

AMID_FAULTS = "amid faults"
"""The base of the defects that only a fault shows: for each of them another good backend."""

LEAST_PASSED = 0.9
"""A defect that passes less than this share of the checks is no small one."""


@dataclass(slots=True)
class Column:
    """What was seen of one defect on one base: of each test that failed, how many checks were
    caught by an assertion and how many failed otherwise."""

    code: str
    failed: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def caught_by(self) -> list[str]:
        """The tests that caught the defect by an assertion."""
        return [test for test, (caught, _) in self.failed.items() if caught]

    def only_broke(self) -> list[str]:
        """The tests that failed by something else alone, as a crash or the end of their time."""
        return [test for test, (caught, _) in self.failed.items() if not caught]


@dataclass(slots=True)
class Base:
    """One good backend: the tests that were run on it (with a digest of their code and the number
    of their checks), and what they said about each defect. ``samples`` is "all" or "first" of each
    test; "named" is the first of the one test that has to catch the defect, and no other test."""

    samples: str
    tests: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    defects: dict[str, Column] = field(default_factory=dict[str, Column])

    @property
    def is_wide(self) -> bool:
        """Whether more was run against a defect than the one test that has to catch it."""
        return self.samples != "named"

    def passed(self, name: str) -> float:
        """The share of checks that a defect passes."""
        failed = sum(map(sum, self.defects[name].failed.values()))
        return 1 - failed / sum(checks for _, checks in self.tests.values())

    def is_caught(self, defect: Defect) -> bool:
        """Whether the test that has to catch the defect did."""
        column = self.defects.get(defect.name)
        return column is not None and defect.caught_by in column.caught_by()

    def missing(self, defects: Iterable[Defect], checks: Sequence[Check]) -> dict[str, list[str]]:
        """By defect, the tests that were not run yet, or not with the code as it is now."""
        tests = {test: _state_of(of) for test, of in by_test(checks).items()}
        if not self.defects:
            self.tests = tests
        new = [test for test, state in tests.items() if self.tests.get(test) != state]
        missing: dict[str, list[str]] = {}
        for defect in defects:
            column = self.defects.get(defect.name)
            known = column is not None and column.code == _code_of(defect)
            run = new if known else list(tests)
            if not self.is_wide:
                run = [test for test in run if test == defect.caught_by]
            missing[defect.name] = run
        return missing

    def note(self, defect: Defect, findings: Findings) -> None:
        """Enter what was found of a defect."""
        code = _code_of(defect)
        column = self.defects.get(defect.name)
        if column is None or column.code != code:
            column = self.defects[defect.name] = Column(code)
        for test, endings in findings.endings.items():
            column.failed.pop(test, None)
            failed = endings[Ending.CAUGHT], endings[Ending.FAILED]
            if any(failed):
                column.failed[test] = failed

    def settle(self, defects: Mapping[str, Defect], checks: Sequence[Check]) -> None:
        """What was missing has been run, where it could be: keep what there is, in order."""
        tests = by_test(checks)
        self.tests = {test: _state_of(of) for test, of in tests.items()}
        self.defects = {name: self.defects[name] for name in defects if name in self.defects}
        for column in self.defects.values():
            column.failed = {test: column.failed[test] for test in tests if test in column.failed}


def by_test(checks: Iterable[Check]) -> dict[str, list[Check]]:
    """The checks of each test."""
    tests: dict[str, list[Check]] = {}
    for check in checks:
        tests.setdefault(check.test, []).append(check)
    return tests


def _state_of(checks: Sequence[Check]) -> tuple[str, int]:
    return _digest(inspect.getsource(inspect.unwrap(checks[0].call))), len(checks)


def _code_of(defect: Defect) -> str:
    return _digest("\n".join(defect.whole_code))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def read(path: Path) -> dict[str, Base]:
    """The bases of a matrix by name; none where there is no file yet."""
    if not path.exists():
        return {}
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Base(
            base["samples"],
            {test: (code, checks) for test, (code, checks) in base["tests"].items()},
            {
                defect: Column(
                    column["code"],
                    {test: (caught, other) for test, (caught, other) in column["failed"].items()},
                )
                for defect, column in base["defects"].items()
            },
        )
        for name, base in stored.items()
    }


def write(path: Path, bases: Mapping[str, Base]) -> None:
    """Keep the matrix, a line for each test and each defect."""
    lines: list[str] = []
    for name, base in sorted(bases.items()):
        tests = [f"   {json.dumps(test)}: {json.dumps(of)}" for test, of in base.tests.items()]
        defects = [
            f"   {json.dumps(name)}: {json.dumps({'code': of.code, 'failed': of.failed})}"
            for name, of in base.defects.items()
        ]
        lines.append(
            f' {json.dumps(name)}: {{\n  "samples": {json.dumps(base.samples)},\n'
            f'  "tests": {{\n{_joined(tests)}\n  }},\n'
            f'  "defects": {{\n{_joined(defects)}\n  }}\n }}'
        )
    path.write_text(f"{{\n{_joined(lines)}\n}}\n", encoding="utf-8")


def _joined(lines: Sequence[str]) -> str:
    return ",\n".join(lines)
