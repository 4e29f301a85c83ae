"""What is public exists and is documented; what the pages name exists."""

import builtins
import importlib
import inspect
import pkgutil
import re
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import conformance_tests
import stores_adapters.tools
import stores_core
from conformance_tests.broken.defect import defects
from stores_core.shape import Request, Response
from tests.conftest import ROOT
from tests.runtimes import RUNTIMES

PACKAGES = [stores_core, conformance_tests, stores_adapters.tools]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PROTOCOLS = [
    stores_core.RunStore,
    stores_core.MemoryStore,
    stores_core.ToolResultStore,
    stores_core.Admin,
    stores_core.Moving,
]


def public(package: ModuleType) -> list[str]:
    return list(getattr(package, "__all__", ()))


def documented(thing: object) -> bool:
    """Whether a class or function has a docstring of its own; constants need none."""
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        return True
    return bool((thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__) or "")


def operations() -> list[Any]:
    return [
        method
        for protocol in PROTOCOLS
        for name, method in vars(protocol).items()
        if inspect.iscoroutinefunction(method) and not name.startswith("_")
    ]


def spoken_of() -> set[object]:
    """The requests and responses of documented operations, which are documented there."""
    return {kind for method in operations() for kind in method.__annotations__.values()}


def known_names() -> set[str]:
    """Every name in the packages: of modules, of what is in them, of attributes of classes."""
    names = {*dir(builtins), *dir(typing)}
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if "__main__" in found.name or ".suite" in found.name or ".broken" in found.name:
                continue
            module = importlib.import_module(found.name)
            names |= {found.name.rpartition(".")[2], *vars(module)}
            for thing in vars(module).values():
                if inspect.isclass(thing):
                    names |= {*dir(thing), *getattr(thing, "model_fields", ())}
    return names


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_exists_once(package: ModuleType) -> None:
    names = public(package)
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(package, name)] == []


def test_the_core_has_public_names() -> None:
    assert {"open_backend", "Backend", "RunStore", "Message"} <= set(public(stores_core))


def test_the_core_hides_no_name_that_it_imports() -> None:
    held = {
        name
        for name, thing in vars(stores_core).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert held == set(public(stores_core))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_documented(package: ModuleType) -> None:
    elsewhere = spoken_of()
    bare = [
        name
        for name in public(package)
        if not documented(thing := getattr(package, name)) and thing not in elsewhere
    ]
    assert bare == []


def test_every_operation_is_documented() -> None:
    assert len(operations()) == 41
    assert [method.__qualname__ for method in operations() if not method.__doc__] == []


def test_every_request_and_response_of_an_operation_is_public() -> None:
    kinds = {kind for kind in spoken_of() if inspect.isclass(kind)}
    assert all(issubclass(kind, Request | Response) for kind in kinds)
    assert {kind.__name__ for kind in kinds} <= set(public(stores_core))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_nothing_that_is_missing(page: Path) -> None:
    text, known = page.read_text("utf-8"), known_names()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", prose)
    classes = {name for span in spans for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", span)}
    calls = {name for span in spans for name in re.findall(r"^(?:\w+\.)*([a-z_]+)\(", span)}
    imported = {
        name.strip()
        for names in re.findall(r"^from stores_core[\w.]* import ([\w, ]+)$", text, re.MULTILINE)
        for name in names.split(",")
    }
    known |= {"MyRunStore", "VerbNounRequest", "VerbNounResponse"}  # placeholders
    known |= {"AsyncEngine", "create_pool", "create_distributed_table"}  # of others
    known |= set(re.findall(r"`(\w+)`", " ".join(one.interfaces for one in RUNTIMES.values())))
    known |= defects().keys() | defects(amid_faults=True).keys()
    assert sorted((classes | calls | imported) - known) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_modules_and_targets_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in set(re.findall(r"`(stores_core(?:\.\w+)+)`", text)):
        module, _, attribute = name.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, attribute) or importlib.import_module(name), name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_guarantees_that_exist(page: Path) -> None:
    number = r"\b(?:ALL|RUN|MEM|SUB|EMB|TOOL|MOVE)-[A-Z]?\d+\b"
    promised = {
        found
        for thing in (stores_core.Backend, stores_core.Embedder, *PROTOCOLS, *operations())
        for found in re.findall(rf"^\s*({number}) ", thing.__doc__ or "", re.MULTILINE)
    }
    assert len(promised) > 60
    assert set(re.findall(number, page.read_text("utf-8"))) <= promised
