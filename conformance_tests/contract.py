"""The numbered guarantees, read from the docstrings of the protocols, and the page about them.

``python -m conformance_tests.contract --write`` writes docs/contract.md, ``--check`` exits with 1
if the page is out of date.
"""

import argparse
import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance_tests.proves import proof_of
from stores_core.backend import Backend
from stores_core.embedding import Embedder
from stores_core.memory import MemoryStore
from stores_core.moving import Moving
from stores_core.runs import RunStore
from stores_core.tool_results import ToolResultStore

CONTRACT_VERSION = "1"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "contract.md"

SECTIONS: tuple[tuple[type, str], ...] = (
    (Backend, "Every store"),
    (RunStore, "Runs"),
    (MemoryStore, "Working memory"),
    (Embedder, "Recall by embedding"),
    (ToolResultStore, "Tool results"),
    (Moving, "Moving"),
)

UNPROVABLE = {
    "RUN-F10": "it needs left-overs planted behind the store's back",
}
"""Guarantees that no black box can show, each with the reason."""

NOT_SHOWN = {
    "ALL-6": "what is left after a loss: that needs the storage to be crashed",
    "ALL-8": "lost replies and what drivers send again: that needs a connection to be cut",
    "ALL-9": "connections, locks and files still held: that needs a look inside the process",
    "RUN-A7": "the durability behind a duplicate's answer: that needs the storage to be crashed",
    "RUN-C4": "a create that a crash cuts off: that needs the process to be killed",
    "RUN-F7": "a fork that a crash cuts off: that needs the process to be killed",
    "TOOL-3": "a replacement that a crash cuts off: that needs the process to be killed",
    "MOVE-2": "an import that is cut off inside one call: that needs the process to be killed",
}
"""Guarantees that tests show in part, each with the part that no black box can show."""

SHOWN_BY_TIER = {"ALL-8": "C", "RUN-C4": "B", "RUN-F7": "B", "TOOL-3": "B"}
"""Of these, the ones whose part a test of a higher tier shows (``conformance_tests.proves``)."""

_NUMBER = re.compile(r"( *)([A-Z]+-[A-Z]?\d+) (\S.*)")


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise: its number, its sentences, and where it lives, as "RunStore.fork_run"."""

    number: str
    text: str
    home: str


@functools.cache
def guarantees() -> Mapping[str, Guarantee]:
    """All guarantees by number, in the order of the docstrings."""
    found: dict[str, Guarantee] = {}
    for owner, _ in SECTIONS:
        for guarantee in guarantees_of(owner):
            if guarantee.number in found:
                raise ValueError(f"{guarantee.number} stands in two docstrings")
            found[guarantee.number] = guarantee
    return found


def guarantees_of(owner: type) -> Iterator[Guarantee]:
    """The guarantees in the docstrings of a class and its own functions, in order."""
    yield from _read(owner.__doc__ or "", owner.__name__)
    for name, member in vars(owner).items():
        if inspect.isfunction(member):
            yield from _read(member.__doc__ or "", f"{owner.__name__}.{name}")


def _read(docstring: str, home: str) -> Iterator[Guarantee]:
    number, words, indent = "", list[str](), 0
    for line in [*inspect.cleandoc(docstring).splitlines(), ""]:
        depth = len(line) - len(line.lstrip())
        if number and line.strip() and depth > indent:
            words.append(line.strip())
            continue
        if number:
            yield Guarantee(number, " ".join(words), home)
            number = ""
        match = _NUMBER.fullmatch(line)
        if match:
            number, words, indent = match[2], [match[3]], depth


def proofs() -> dict[str, tuple[str, ...]]:
    """The numbers that each test of the suite proves, by "module.py::test"."""
    suite = importlib.import_module("conformance_tests.suite")
    found: dict[str, tuple[str, ...]] = {}
    for module_info in pkgutil.iter_modules(suite.__path__):
        if not module_info.name.startswith("test_"):
            continue
        module = importlib.import_module(f"{suite.__name__}.{module_info.name}")
        for name, test in vars(module).items():
            proof = proof_of(test)
            if proof is not None and name.startswith("test_"):
                found[f"{module_info.name}.py::{name}"] = proof.numbers
    return found


def faults(
    known: Mapping[str, Guarantee],
    proved_by: Mapping[str, Sequence[str]],
    unprovable: Mapping[str, str] = UNPROVABLE,
    not_shown: Mapping[str, str] = NOT_SHOWN,
) -> list[str]:
    """What does not fit between guarantees and tests, a sentence each.

    ``proved_by`` is as :func:`proofs` gives it.
    """
    proved = {number for numbers in proved_by.values() for number in numbers}
    found: list[str] = []
    for test, numbers in proved_by.items():
        found += [f"{test} proves {n}, which is no guarantee" for n in numbers if n not in known]
    for number in known:
        if number in proved and number in unprovable:
            found.append(f"{number} is listed as unprovable and yet has a test")
        if number not in proved and number not in unprovable:
            found.append(f"{number} has no test and no reason why it cannot have one")
        if number not in proved and number in not_shown:
            found.append(f"{number} is listed as shown in part and has no test")
    for number in [*unprovable, *not_shown]:
        if number not in known:
            found.append(f"{number} is listed with a reason and is no guarantee")
    return found


_INTRODUCTION = f"""\
# The contract

What every store promises, whatever backend it lives on. Each guarantee has a number that is never
used again for another. The sentences stand in the docstrings of the protocols, which is where to
change them; this page is written from there by `make contract`.

They come in the order of the operations; a number is a name, and a gap or a jump means nothing.

Below each guarantee are the tests of the conformance suite that show it. What a test from outside
cannot show is said too, with the reason.

Contract version: {CONTRACT_VERSION}
"""


def page() -> str:
    """The text of docs/contract.md."""
    proved_by = proofs()
    parts = [_INTRODUCTION]
    for owner, title in SECTIONS:
        parts.append(f"## {title}: `{owner.__name__}`\n")
        for guarantee in guarantees_of(owner):
            shown = [name for name, numbers in proved_by.items() if guarantee.number in numbers]
            parts.append(_entry(guarantee, shown))
    return "\n".join(parts)


def _entry(guarantee: Guarantee, shown: Sequence[str]) -> str:
    number = guarantee.number
    lines = [f"### {number}", "", guarantee.text, "", f"Lives at `{guarantee.home}`."]
    if number in UNPROVABLE:
        lines[-1] += f" Cannot be shown by a black box: {UNPROVABLE[number]}."
    elif shown:
        lines[-1] += " Shown by:"
    else:
        lines[-1] += " **No test shows it yet.**"
    if shown:
        lines += ["", *(f"- `{name}`" for name in shown)]
    if number in NOT_SHOWN:
        lines += ["", f"Cannot be shown by a black box: {NOT_SHOWN[number]}."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m conformance_tests.contract")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write docs/contract.md anew")
    action.add_argument("--check", action="store_true", help="fail if it is out of date")
    text = page()
    chosen = parser.parse_args(arguments)
    if not PAGE.parent.is_dir():
        print("there is no docs/ folder beside the suite; run in a clone", file=sys.stderr)
        return 2
    if chosen.write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/contract.md is out of date; run `make contract`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
