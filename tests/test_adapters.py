"""What all adapters have in common: a package that may be missing, and the programs of the page."""

import re
import runpy
from pathlib import Path

import pytest

from tests.conftest import ROOT, Python
from tests.test_readme import blocks

PACKAGES = {"langgraph": "langgraph.graph", "openai_agents": "agents", "a2a": "a2a"}
"""Of each adapter the module that its program cannot do without."""

PAGE = blocks(ROOT / "docs" / "adapters.md")
PROGRAMS = {
    adapter: block
    for block in PAGE
    if block.language == "python"
    for adapter in re.findall(r"^from stores_adapters\.(\w+) ", block.code, re.MULTILINE)
}


@pytest.mark.parametrize("adapter", PACKAGES)
def test_an_adapter_without_its_package_says_what_to_install(adapter: str, python: Python) -> None:
    package = PACKAGES[adapter].partition(".")[0]
    program = f"import sys; sys.modules[{package!r}] = None; import stores_adapters.{adapter}"
    ran = python("-c", program, cwd=ROOT)
    assert ran.returncode == 1
    extra = adapter.replace("_", "-")
    assert ran.stderr.splitlines()[-1] == (
        "stores_core.errors.InvalidRequestError: "
        f"stores_adapters.{adapter}: found no package {package!r}; "
        f"allowed is it once `pip install 'agent-stores[{extra}]'` has run"
    )


def test_the_page_has_a_program_for_each_adapter() -> None:
    assert PROGRAMS.keys() == PACKAGES.keys()


@pytest.mark.parametrize("adapter", PACKAGES)
def test_a_program_of_the_page_runs_as_pasted(
    adapter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(PACKAGES[adapter], reason=f"needs the package of {adapter}")
    program = PROGRAMS[adapter]
    pasted = tmp_path / "pasted.py"
    pasted.write_text(program.code, "utf-8")
    # In this process, where the packages are imported already: that takes them seconds.
    runpy.run_path(str(pasted), run_name="__main__")
    after = PAGE[program.number + 1]
    assert (after.language, after.code) == ("text", capsys.readouterr().out)
