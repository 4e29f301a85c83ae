"""The README's programs run as pasted and print what it says; other pages' code is code."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT, Python

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/runtimes/*.md")])


class Block(NamedTuple):
    page: Path
    number: int
    language: str
    code: str

    @property
    def title(self) -> str:
        return f"{self.page.name}-{self.number}"


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(page, number, *parts) for number, parts in enumerate(found)]


README = blocks(ROOT / "README.md")
PROGRAMS = [block for block in README if block.language == "python"]
CODE = [block for page in PAGES for block in blocks(page) if block.language == "python"]


def printed(program: Block) -> str:
    """The text block right behind a program: what it prints."""
    after = README[program.number + 1]
    assert after.language == "text", f"what does the program {program.title} print?"
    return after.code


def test_the_readme_has_a_program() -> None:
    assert PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda block: block.title)
def test_a_program_of_the_readme_runs_as_pasted(program: Block, python: Python) -> None:
    ran = python("-c", program.code)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == printed(program)


SESSIONS = [block for block in README if block.language == "console"]


def test_the_readme_has_a_session_in_a_shell() -> None:
    assert SESSIONS


@pytest.mark.long
@pytest.mark.parametrize("session", SESSIONS, ids=lambda block: block.title)
def test_a_session_of_the_readme_gives_what_it_says(session: Block, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for exchange in re.split(r"^\$ ", session.code, flags=re.MULTILINE)[1:]:
        command, _, says = exchange.partition("\n")
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, ""), command
        lines = (
            r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
            for line in says.splitlines()
        )
        assert re.fullmatch("".join(lines), ran.stdout), f"{command}\n{ran.stdout}"


@pytest.mark.parametrize("block", CODE, ids=lambda block: block.title)
def test_python_on_any_page_is_python(block: Block) -> None:
    compile(block.code, block.title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
