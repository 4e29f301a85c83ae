"""One mutant, in this process: the suite's checks against it until one fails."""

import ast
import faulthandler
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import zip_longest
from types import CodeType, ModuleType

from conformance_tests.broken.exam import Check, Ending, Findings, checks, examine
from conformance_tests.opener import Opener, UnusableOpenerError, find, from_url
from stores_core import in_memory, opening
from tests.mutants.mutating import Mutant, mutated
from tests.mutants.subjects import ROOT

PATIENCE = 240.0
"""Seconds that a check may take; a busy machine must not kill anything."""

HANGS = 300.0
"""Seconds after which a check that its own time limit did not end counts as one that hangs."""


class _Loader(SourceFileLoader):
    """Loads a module from another syntax tree than its file has."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the mutant where the module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = mutant.path.removesuffix(".py").replace("/", ".")
        self._tree = mutated(ROOT, mutant)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path) if fullname == self._name else None
        if found is None or found.origin is None:
            return None
        found.loader = _Loader(fullname, found.origin, self._tree)
        return found


def prepare(package: str) -> None:
    """Load all that mutants have in common, for processes that are forked from this one."""
    import_module(f"{package}.backend")
    checks()


def install(mutant: Mutant, package: str) -> None:
    """Let this process have the mutant in place of the module. Spoils it for anything else."""
    sys.meta_path.insert(0, _Finder(mutant))
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]
    backend = import_module(f"{package}.backend")
    if package == in_memory.__name__:
        # The core knows this opener itself; all others are looked up when they are asked for.
        opening._BUILT_IN["memory"] = backend.open_memory  # pyright: ignore[reportPrivateUsage]


def attempt(
    mutant: Mutant,
    package: str,
    url: str,
    picked: Sequence[str],
    *,
    first: bool = False,
    short: bool = False,
) -> tuple[str, str]:
    """The test that noticed the mutant and how it ended; ("", "") if none of the picked did.

    Unless only the first or ``short`` ones are wanted, all that are amid faults are picked as well.
    """
    try:
        install(mutant, package)
        opener = from_url(url)
    except Exception:
        return "import", "failed otherwise"
    noticed = _noticed(opener, _in_order(picked, first=first, short=short))
    if noticed or first or short:
        return noticed or ("", "")
    # Here, since that module imports this one.
    named = import_module("tests.mutants.elsewhere").named(mutant, package, url)
    return _noticed(find(named, None), checks(amid_faults=True)) or ("", "")


def _noticed(opener: Opener, asked: Sequence[Check]) -> tuple[str, str] | None:
    """The first check that fails twice, so that a slow machine kills nothing, and how it ended."""
    for check in asked:
        findings = Findings()
        for _ in range(2):
            faulthandler.dump_traceback_later(HANGS, exit=True)
            try:
                findings = examine(opener, [check], seconds=PATIENCE)
            except UnusableOpenerError:
                return "opening", "failed otherwise"
            if findings.count(Ending.PASSED) or findings.count(Ending.LEFT_OUT):
                break
        else:
            caught = findings.count(Ending.CAUGHT)
            return check.test, str(Ending.CAUGHT if caught else Ending.FAILED)
    return None


def _in_order(picked: Sequence[str], *, first: bool, short: bool) -> list[Check]:
    """The checks of these tests: the first of each, then the second, and so on.

    Unless only the first are wanted, or ``short`` ones, the tests that take long come at the end.
    """
    by_test: dict[str, list[Check]] = {test: [] for test in picked}
    long: list[Check] = []
    for check in checks():
        if check.proof.thorough:
            long.append(check)
        elif check.test in by_test:
            by_test[check.test].append(check)
    if first:
        return [samples[0] for samples in by_test.values() if samples]
    rounds = zip_longest(*by_test.values())
    return [
        *(check for each in rounds for check in each if check is not None),
        *([] if short else long),
    ]
