"""What a defect is: a class that spoils one store, and what must notice it."""

import ast
import functools
import importlib
import inspect
import pkgutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from conformance_tests.broken import defects as _home
from conformance_tests.opener import Opener, Source, at, from_url, moved
from stores_core.admin import Admin
from stores_core.backend import Backend
from stores_core.capabilities import Durability
from stores_core.memory import MemoryStore
from stores_core.moving import Moving
from stores_core.runs import RunStore
from stores_core.shape import Shape, replaced
from stores_core.tool_results import ToolResultStore

FAULTS = frozenset(
    {"test_cancelled.py", "test_clocks.py", "test_cut.py", "test_disk.py", "test_killed.py"}
)
"""Tests amid faults: each defect that only they show is run against the test named for it alone."""

S = TypeVar("S", bound=Shape)
B = TypeVar("B", bound="type[Broken]")


@dataclass(frozen=True, slots=True)
class Stores:
    """The good stores of one backend, without their fronts."""

    runs: RunStore
    memory: MemoryStore
    tool_results: ToolResultStore
    admin: Admin
    moving: Moving

    @classmethod
    def of(cls, backend: Backend) -> "Stores":
        fronts: tuple[Any, ...] = (
            backend.runs,
            backend.memory,
            backend.tool_results,
            backend.admin,
            backend.moving,
        )
        return cls(*(front.store for front in fronts))


class Broken:
    """Stands behind the front in place of one store and passes on what it does not spoil.

    ``stores`` are the good ones. ``kept`` is shared by all clients of the storage and tenant, as
    what lies in the storage would be; what a client would remember goes into attributes.
    ``declares`` is what the backend says of its durability, None for what is true.
    """

    kind: ClassVar[str]
    declares: ClassVar[Durability | None] = None

    def __init__(self, stores: Stores, kept: dict[Any, Any]) -> None:
        self.stores = stores
        self.kept = kept
        self.prepare()

    def prepare(self) -> None:
        """Set up what this client remembers."""

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        """What the good backend is opened with: ``tenant``, ``embedder`` and so on."""
        return values

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self.stores, self.kind), name)


class BrokenRuns(Broken):
    """Spoils the run store, whose good operations are in ``good``."""

    kind = "runs"

    @property
    def good(self) -> RunStore:
        return self.stores.runs


class BrokenMemory(Broken):
    """Spoils working memory."""

    kind = "memory"

    @property
    def good(self) -> MemoryStore:
        return self.stores.memory


class BrokenToolResults(Broken):
    """Spoils the store of tool results."""

    kind = "tool_results"

    @property
    def good(self) -> ToolResultStore:
        return self.stores.tool_results


class BrokenAdmin(Broken):
    """Spoils the operator's seam."""

    kind = "admin"

    @property
    def good(self) -> Admin:
        return self.stores.admin


class BrokenMoving(Broken):
    """Spoils export and import."""

    kind = "moving"

    @property
    def good(self) -> Moving:
        return self.stores.moving


def changed(shape: S, **fields: Any) -> S:
    """A copy of a request, an answer or a value with other fields, unchecked."""
    return replaced(shape, fields)


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect: what it does, the guarantees that it breaks, the test that must catch it."""

    name: str
    sentence: str
    breaks: tuple[str, ...]
    caught_by: str
    broken: type[Broken]

    @property
    def amid_faults(self) -> bool:
        """Whether a fault has to happen for it to be caught."""
        return self.caught_by.partition("::")[0] in FAULTS

    @property
    def code(self) -> list[str]:
        """The lines that the mistake takes, without decorator, docstring and empty lines."""
        return _lines_of(self.broken)

    @property
    def whole_code(self) -> list[str]:
        """``code`` with the classes of its module that it builds on."""
        module = self.broken.__module__
        parts = [one for one in self.broken.__mro__ if one.__module__ == module]
        return [line for part in parts for line in _lines_of(part)]

    def opener(self, url: str) -> Opener:
        """Opens clients of the storage at ``url``, broken."""
        good, kept = from_url(url), dict[str, dict[Any, Any]]()

        @asynccontextmanager
        async def call(**values: Any) -> AsyncGenerator[Backend]:
            async with good.open(**self.broken.opened_with(values)) as backend:
                front: Any = getattr(backend, self.broken.kind)
                of_tenant = kept.setdefault(values.get("tenant", ""), {})
                front.store = self.broken(Stores.of(backend), of_tenant)
                backend.durability = self.broken.declares or backend.durability
                yield backend

        def by_way_of(place: str) -> Opener:
            return self.opener(at(url, place))

        def placed_in(folder: Path) -> Opener:
            return self.opener(moved(url, folder))

        name = f"{self.name} on {good.name}"
        source = good.source and Source(opener=named(self.name, url))
        placing = good.placed_in and placed_in
        return Opener(name, call, good.keywords, source, good.server, by_way_of, placing)


def _lines_of(part: type) -> list[str]:
    return _classes_of(part.__module__)[part.__name__]


@functools.cache
def _classes_of(module: str) -> dict[str, list[str]]:
    # inspect.getsource would parse the module again for each of its classes.
    source = inspect.getsource(importlib.import_module(module))
    lines, found = source.splitlines(), dict[str, list[str]]()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            said = range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
            kept = set(range(node.lineno, (node.end_lineno or 0) + 1))
            kept -= set(said) if ast.get_docstring(node) else set()
            found[node.name] = [lines[n - 1] for n in sorted(kept) if lines[n - 1].strip()]
    return found


_known: dict[str, Defect] = {}


def defect(*breaks: str, caught_by: str) -> Callable[[B], B]:
    """Register a class as a defect; its docstring says in a sentence what is wrong.

    ``breaks`` are numbers of guarantees, ``caught_by`` is a test, as "test_fork.py::test_name".
    """

    def register(broken: B) -> B:
        name = broken.__name__
        if name in _known:
            raise ValueError(f"there are two defects called {name}")
        sentence = " ".join((broken.__doc__ or "").split())
        _known[name] = Defect(name, sentence, breaks, caught_by, cast("type[Broken]", broken))
        return broken

    return register


@functools.cache
def defects(*, amid_faults: bool = False) -> dict[str, Defect]:
    """All defects by name, in the order of their modules; or those that only faults show."""
    for module in sorted(found.name for found in pkgutil.iter_modules(_home.__path__)):
        importlib.import_module(f"{_home.__name__}.{module}")
    return {name: one for name, one in _known.items() if one.amid_faults is amid_faults}


def defect_named(name: str) -> Defect:
    """One of all defects. Raises KeyError."""
    return {**defects(), **defects(amid_faults=True)}[name]


def named(name: str, url: str) -> str:
    """MODULE:OPENER of a defect on the storage at ``url``, for other processes."""
    return f"conformance_tests.broken.on_url:{name}_{url.encode().hex()}"


def function_of(opener: Opener) -> Callable[..., AbstractAsyncContextManager[Backend]]:
    """An opener as a function with the keywords that it takes, ``folder`` too if it has a place."""
    placed_in = opener.placed_in

    def open_broken(folder: str = "", **values: Any) -> AbstractAsyncContextManager[Backend]:
        there = placed_in(Path(folder)) if folder and placed_in is not None else opener
        return there.call(**values)

    taken = {*(opener.keywords or ()), *(("folder",) if placed_in is not None else ())}
    keywords = [Parameter(one, Parameter.KEYWORD_ONLY) for one in sorted(taken)]
    open_broken.__dict__["__signature__"] = Signature(keywords)
    return open_broken
