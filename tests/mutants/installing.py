"""A mutant in place of the module that it is of."""

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from stores_core import in_memory, opening
from tests.mutants.mutating import Mutant, mutated
from tests.mutants.subjects import ROOT


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


def install(mutant: Mutant, package: str) -> None:
    """Let this process have the mutant in place of the module. Spoils it for anything else."""
    sys.meta_path.insert(0, _Finder(mutant))
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]
    backend = import_module(f"{package}.backend")
    if package == in_memory.__name__:
        # The core knows this opener itself; all others are looked up when they are asked for.
        opening._BUILT_IN["memory"] = backend.open_memory  # pyright: ignore[reportPrivateUsage]
