"""What all adapters have in common: a package that may be missing, and the programs of the page."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Python
from tests.storages import SHARED, new_url
from tests.test_readme import blocks

PACKAGES = {
    "langgraph": "langgraph.graph",
    "openai_agents": "agents",
    "claude_agent": "claude_agent_sdk",
    "a2a": "a2a",
    "mcp": "mcp",
    "pydantic_ai": "pydantic_ai",
    "google_adk": "google.adk",
    "agent_framework": "agent_framework",
}
"""Of each adapter the module that its program cannot do without."""

PAGES = {
    page: blocks(page)
    for page in [ROOT / "docs" / "adapters.md", *sorted(ROOT.glob("docs/runtimes/*.md"))]
}
PROGRAMS = {
    adapter: block
    for page in PAGES.values()
    for block in page
    if block.language == "python"
    for adapter in re.findall(r"^from stores_adapters\.(\w+) ", block.code, re.MULTILINE)
}
EXAMPLES = {
    example: printed
    for page in PAGES
    for example, printed in re.findall(
        r"\(\.\./\.\./examples/(\w+)\.py\).*?^```text\n(.*?)^```$",
        page.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}
"""Of each example that a page links to what it prints: the first block of text after the link."""


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


def test_the_pages_have_a_program_for_each_adapter() -> None:
    assert PROGRAMS.keys() == {*PACKAGES, "tools"}


@pytest.mark.parametrize("adapter", [*PACKAGES, "tools"])
def test_a_program_of_the_page_runs_as_pasted(
    adapter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = PACKAGES.get(adapter, "stores_adapters")
    pytest.importorskip(needed, reason=f"needs the package of {adapter}")
    program = PROGRAMS[adapter]
    pasted = tmp_path / "pasted.py"
    pasted.write_text(program.code, "utf-8")
    # In this process, where the packages are imported already: that takes them seconds.
    runpy.run_path(str(pasted), run_name="__main__")
    after = PAGES[program.page][program.number + 1]
    assert (after.language, after.code) == ("text", capsys.readouterr().out)


def test_every_example_of_a_restart_is_on_a_page() -> None:
    assert {path.stem for path in ROOT.glob("examples/*_resumed.py")} == EXAMPLES.keys()


@pytest.mark.long
def test_every_example_goes_on_in_another_process_and_forks(tmp_path: Path, python: Python) -> None:
    for package in PACKAGES.values():
        pytest.importorskip(package, reason="the examples use every adapter")
    # What a runtime leaves open when its process ends is not ours to mend.
    how: dict[str, Any] = {"cwd": ROOT, "warnings": "default", "seconds": 110}
    ran = python("-m", "tests.examples_resumed", tmp_path, *EXAMPLES, **how)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == EXAMPLES


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_restarts_itself(example: str, python: Python) -> None:
    runtime = example.removesuffix("_resumed")
    pytest.importorskip(PACKAGES.get(runtime, runtime), reason=f"needs the package of {runtime}")
    ran = python(ROOT / "examples" / f"{example}.py", warnings="default")
    assert (ran.returncode, ran.stdout) == (0, EXAMPLES[example]), ran.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_processes_lose_nothing_through_any_adapter(
    request: pytest.FixtureRequest, python: Python
) -> None:
    for package in PACKAGES.values():
        pytest.importorskip(package, reason="the writers use every adapter")
    # One start for all of them: to import the runtimes takes longer than to write.
    urls = [new_url(backend, request) for backend in SHARED]
    ran = python("-m", "tests.adapter_writers", *urls, cwd=ROOT, seconds=280, warnings="default")
    assert ran.returncode == 0, ran.stderr
    told = [f"{word}" for url in urls for word in (url.partition(":")[0], 11)]
    assert ran.stdout.split() == told
