"""Rules that our sources keep, seen in their syntax trees: nothing revives objects, runs text or
puts values into SQL; nobody stands in for a scheme of ours."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stores_core import InvalidRequestError, open_backend, opening
from tests.conftest import ROOT, Python

PACKAGES = (
    "stores_core", "stores_sql", "stores_redis", "stores_files", "stores_adapters", "stores_cli",
    "conformance_tests",
)  # fmt: skip
REVIVING = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "jsonpickle",
    "msgpack", "ormsgpack",
}  # fmt: skip
INFLATING = {"gzip", "bz2", "lzma", "zipfile", "tarfile", "brotli", "lz4", "snappy", "zstandard"}
FETCHING = {"socket", "urllib.request", "http", "requests", "httpx", "aiohttp", "ftplib"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def trees(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    """Every module of ours, with where it is."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), parsed(path)


def imported(tree: ast.Module) -> set[str]:
    """The modules that a module imports, with the packages that they are in."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return names | {name.partition(".")[0] for name in names}


def called(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call, by what is called: "exec", "connection.execute"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.long
def test_no_module_imports_what_revives_objects() -> None:
    seen = 0
    for path, tree in trees(*PACKAGES):
        assert not imported(tree) & REVIVING, path
        seen += 1
    assert seen > 200


def test_no_module_runs_text() -> None:
    for path, tree in trees(*PACKAGES):
        for name, call in called(tree):
            assert name not in {"eval", "exec", "compile", "__import__"}, f"{path}:{call.lineno}"
            assert not name.endswith((".loads_unsafe", "os.system", "os.popen")), path


def test_what_is_stored_is_never_inflated() -> None:
    """The stores keep what they are given, so no small record can become a large one."""
    for path, tree in trees("stores_core", "stores_sql", "stores_redis", "stores_files"):
        assert not imported(tree) & INFLATING, path
        for name, call in called(tree):
            inflates = name.startswith("zlib.") and name != "zlib.crc32"
            assert not inflates, f"{path}:{call.lineno}"


def test_the_suite_fetches_nothing() -> None:
    for path, tree in trees("conformance_tests"):
        # One connects to the server that it is given, the other is a pair with a process of ours.
        connects = path.name in {"proxy.py", "alone.py"}
        assert not imported(tree) & (FETCHING - {"socket"} if connects else FETCHING), path


_SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|WHERE)\b")
_OF_OURS = {
    # Names that were checked, quoted or chosen from a list of ours, and numbers.
    "quoted(schema)", "quoted", "connection.schema", "index", "of", "form", "table", "name",
    "column", "identity", "lock_of(connection.schema)", "lock_of(schema)", "indexed",
    "forms.operators", "embedder",
}  # fmt: skip


def test_no_value_is_put_into_sql() -> None:
    """What stands in a composed statement is a name of ours, quoted or checked; never a value."""
    composed = 0
    for path, tree in trees("stores_sql"):
        for node in ast.walk(tree):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr) and _SQL.search(ast.unparse(node)):
                if _is_for_people(node, tree):
                    continue
                parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
                assert {ast.unparse(part.value) for part in parts} <= _OF_OURS, where
                composed += 1
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
                left = node.left
                text = left.value if isinstance(left, ast.Constant) else ""
                assert not (isinstance(text, str) and _SQL.match(text)), where
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                formats = node.func.attr == "format" and isinstance(of, ast.Constant)
                assert not (formats and _SQL.search(str(ast.literal_eval(of)))), where
    assert composed > 5


def _is_for_people(text: ast.JoinedStr, tree: ast.Module) -> bool:
    """Whether a text stands in a call that makes an error, advice or a step to read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(inner is text for inner in ast.walk(node)):
            name = ast.unparse(node.func)
            if name.endswith(("Error", "StoreUnavailableError")) or "advice" in name:
                return True
    return False


@pytest.mark.parametrize("scheme", ["memory", "sqlite", "file", "redis", "postgresql"])
async def test_nobody_stands_in_for_a_scheme_of_ours(
    scheme: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = EntryPoint(scheme, "no_such_package.evil:open", opening.ENTRY_POINTS)
    installed = opening.entry_points(group=opening.ENTRY_POINTS)

    def found(group: str) -> list[EntryPoint]:
        return [theirs, *installed]

    monkeypatch.setattr(opening, "entry_points", found)
    # An unknown option is refused by the opener that was found, and so by ours.
    with pytest.raises(InvalidRequestError, match="an unknown option"):
        async with open_backend(f"{scheme}:{tmp_path}/x", nothing_of_ours=1):
            pass


def test_importing_the_core_imports_no_backend_of_anybody(python: Python) -> None:
    program = "import sys, stores_core; stores_core.schemes()\n"
    program += "print(sorted({n.partition('.')[0] for n in sys.modules if n.startswith('stores')}))"
    assert python("-c", program).stdout == "['stores_core']\n"


def test_everything_that_is_installed_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if "==" in line
    }
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[<>=;! ]", line)[0].lower() for line in wanted} - {"agent-stores"}
    assert names <= pinned, f"constraints.txt lacks {names - pinned}"


def test_the_core_depends_on_two_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[<>=; ]", line)[0] for line in project["dependencies"]}
    assert names == {"numpy", "pydantic"}
