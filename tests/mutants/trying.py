"""One mutant, in this process: the suite's checks against it until one fails."""

import ast
import faulthandler
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.mutants.mutating import Mutant, mutated
from tests.mutants.subjects import ROOT

PATIENCE = 60.0
"""Seconds that a check may take."""

HANGS = 150.0
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


def attempt(mutant: Mutant, url: str, picked: Sequence[int]) -> tuple[str, str]:
    """The test that noticed the mutant and how it ended; ("", "") if none of the picked did.

    A check counts where it fails twice, so that a slow machine kills nothing.
    """
    sys.meta_path.insert(0, _Finder(mutant))
    try:
        from conformance_tests.broken.exam import Ending, checks, examine
        from conformance_tests.opener import UnusableOpenerError, from_url

        opener, every = from_url(url), checks()
    except Exception as error:
        return "import", type(error).__name__
    for number in picked:
        check = every[number]
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
    return "", ""
