"""The README's programs run as pasted and print what it says; other pages' code is code."""

import ast
import re
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


@pytest.mark.parametrize("block", CODE, ids=lambda block: block.title)
def test_python_on_any_page_is_python(block: Block) -> None:
    compile(block.code, block.title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
