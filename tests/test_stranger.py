"""A stranger's backend: the template, from wheels, in a venv that knows nothing of this tree."""

import ast
import importlib
from pathlib import Path

import pytest

import stores_core
from tests.conftest import ROOT, Python
from tests.wheels import TEMPLATE, strangers_python

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
PAGE = (ROOT / "docs" / "write-a-backend.md").read_text(encoding="utf-8")
SOURCES = sorted((TEMPLATE / "src").rglob("*.py"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return strangers_python(tmp_path_factory.mktemp("stranger"))


def test_the_suite_finds_the_template_conformant_by_its_scheme(
    stranger: Path, python: Python, tmp_path: Path
) -> None:
    command = ("-m", "conformance_tests", "--url", f"lmdb:{tmp_path / 'kept'}", "--quick")
    ran = python(*command, executable=stranger, seconds=400)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    assert "\nconformant (quick profile)" in ran.stdout
    assert "EMB-1    not applicable" in ran.stdout, "the verdict says what the template lacks"


def test_its_scheme_opens_it_like_any_other(stranger: Path, python: Python, tmp_path: Path) -> None:
    program = "import asyncio, stores_core as s\nasync def main():\n"
    program += f" async with s.open_backend('lmdb:{tmp_path}?tenant=a&max_gib=1') as b:\n"
    program += "  print(b.name, b.durability, (await b.runs.create_run(run_id='r')).created)\n"
    program += "print('lmdb' in s.schemes())\nasyncio.run(main())\n"
    for created in (True, False):
        ran = python("-c", program, executable=stranger)
        assert ran.stdout == f"True\nlmdb disk {created}\n", ran.stderr


def test_an_embedder_that_it_cannot_use_is_refused(stranger: Path, python: Python) -> None:
    program = "import asyncio, stores_core as s\nasync def main():\n"
    program += " async with s.open_backend('lmdb:x', embedder=s.WordEmbedder()):\n"
    program += "  pass\nasyncio.run(main())\n"
    ran = python("-c", program, executable=stranger)
    assert "InvalidRequestError: embedder" in ran.stderr


def test_a_storage_of_another_format_is_refused(
    stranger: Path, python: Python, tmp_path: Path
) -> None:
    program = "import asyncio, lmdb, stores_core as s\n"
    program += f"e = lmdb.open({str(tmp_path)!r}, max_dbs=1)\n"
    program += "with e.begin(write=True) as t:\n"
    program += " t.put(b'format', b'9', db=e.open_db(b'meta', txn=t))\ne.close()\n"
    program += f"async def main():\n async with s.open_backend('lmdb:{tmp_path}'):\n  pass\n"
    program += "asyncio.run(main())\n"
    ran = python("-c", program, executable=stranger)
    assert "SchemaVersionError: the storage has format 9, this code 1" in ran.stderr


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_template_uses_public_names_of_the_core_alone(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    used = [
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
        if node.module.split(".")[0] == "stores_core"
    ]
    for module, name in used:
        assert not name.startswith("_")
        if module == "stores_core":
            assert name in stores_core.__all__
        else:
            assert hasattr(importlib.import_module(module), name)
            assert f"`{module}`" in PAGE or f"{module.split('.')[1]}." in PAGE, module
            assert f"`{name}" in PAGE or f".{name}" in PAGE, f"the page does not name {name}"
