"""One thing that an attacker may try, and the tests that show what comes of it."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tests.conftest import ROOT

SUITE = "conformance_tests/suite/"


@dataclass(frozen=True)
class Row:
    """One thing to attack. ``all`` are tests of every backend, ``on`` those of one alone.

    A test is named as "suite:test_ids.py::test_x", or "test_files_disks.py::test_x" for one of
    ours. ``free`` says why a backend has no such surface.
    """

    number: int
    surface: str
    answer: str
    all: Sequence[str] = ()
    on: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    free: Mapping[str, str] = field(default_factory=dict[str, str])


def suite(module: str, *tests: str) -> list[str]:
    """Names of tests of the suite, without their ``test_``."""
    return [f"suite:test_{module}.py::test_{test}" for test in tests]


def ours(module: str, *tests: str) -> list[str]:
    """Names of tests of ours, without their ``test_``."""
    return [f"test_{module}.py::test_{test}" for test in tests]


@cache
def _tests_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def place_of(test: str) -> tuple[str, str]:
    """The file, relative to the repository, and the name of a test."""
    module, _, name = test.partition("::")
    home = SUITE if module.startswith("suite:") else "tests/"
    return home + module.removeprefix("suite:"), name


def exists(test: str) -> bool:
    """Whether there is such a test."""
    path, name = place_of(test)
    return (ROOT / path).exists() and name in _tests_of(path)
