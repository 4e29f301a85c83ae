"""The wheel holds the core and the suite, and is enough to examine a backend."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, Python
from tests.wheels import built, clean_venv

pytestmark = pytest.mark.timeout(600)

PACKAGES = (
    "stores_core", "stores_sql", "stores_redis", "stores_files", "stores_adapters",
    "stores_cli", "conformance_tests",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    return built(ROOT, folder / "dist")


@pytest.fixture(scope="module")
def clean(folder: Path, wheel: Path) -> Path:
    """The Python of a fresh venv that holds the wheel, what it depends on, and pytest."""
    return clean_venv(folder, f"{wheel}[conformance]")


def test_the_wheel_holds_the_packages_whole_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == wanted
    assert {"stores_core/py.typed", "conformance_tests/py.typed"} <= held
    assert "conformance_tests/suite.ini" in held
    assert any(name.startswith("conformance_tests/suite/test_") for name in held)


def test_the_wheel_brings_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (licence,) = [name for name in archive.namelist() if name.endswith("/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.long
def test_the_venv_is_clean(clean: Path, python: Python) -> None:
    listed = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    names = python("-c", listed, executable=clean).stdout.split()
    assert {"agent-stores", "numpy", "pydantic", "pytest"} <= set(names)
    assert not {"httpx", "google-re2", "opentelemetry-api", "rich", "pytest-xdist"} & set(names)


def test_the_core_works_without_any_extra(clean: Path, python: Python) -> None:
    program = "import sys; sys.modules['pytest'] = None\n"
    program += "import asyncio, stores_core as s\nasync def main():\n"
    program += " async with s.open_backend('memory:') as b:\n"
    program += "  print((await b.runs.create_run(run_id='a')).created)\nasyncio.run(main())"
    ran = python("-c", program, executable=clean)
    assert (ran.stdout, ran.returncode) == ("True\n", 0), ran.stderr


@pytest.mark.long
def test_a_missing_extra_is_named_by_the_suite(clean: Path, python: Python) -> None:
    program = "import runpy, sys; sys.modules['pytest'] = None\n"
    program += "runpy.run_module('conformance_tests', run_name='__main__', alter_sys=True)"
    ran = python("-c", program, "--url", "memory:", executable=clean)
    assert ran.returncode != 0
    assert "pip install 'agent-stores[conformance]'" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_missing_extra_is_named_by_the_command(clean: Path) -> None:
    command = clean.with_name("agent-stores")
    ran = subprocess.run([command, "doctor"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "pip install 'agent-stores[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_missing_extra_is_named_by_the_core(clean: Path, python: Python) -> None:
    program = "import stores_core; stores_core.OpenAIEmbedder('some-model', dimensions=3)"
    ran = python("-c", program, executable=clean)
    assert "InvalidRequestError" in ran.stderr
    assert "pip install 'agent-stores[openai]'" in ran.stderr


@pytest.mark.long
def test_the_suite_runs_from_the_wheel(clean: Path, python: Python) -> None:
    command = ("-m", "conformance_tests", "--url", "memory:wheel", "--quick")
    ran = python(*command, executable=clean, seconds=200)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    assert "conformant (quick profile)" in ran.stdout
    assert "not conformant" not in ran.stdout
