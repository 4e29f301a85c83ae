"""Programs: how they are drawn, played and printed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from hypothesis import strategies as st

from conformance_tests.lab import Lab
from conformance_tests.suite.play.memory import NoteSteps
from conformance_tests.suite.play.runs import RunSteps
from conformance_tests.suite.play.stage import Stage
from conformance_tests.suite.play.steps import DEFAULT, KINDS, POOLS, Kind, Name, Standing
from conformance_tests.suite.play.tool_results import ResultSteps

PARTS: dict[str, Callable[[Stage], Any]] = {
    "runs": RunSteps,
    "memory": NoteSteps,
    "tool_results": ResultSteps,
}
LENGTH = 50
"""So many steps has a program on average."""


Step = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """A stage, and the steps to play on it: part, method, arguments."""

    stores: tuple[str, ...]
    setting: dict[str, Any]
    steps: list[Step]

    async def play(self, lab: Lab) -> "Failure | None":
        """Play it; None where the stores do as the oracle says."""
        stage = await Stage.open(lab, *self.stores, **self.setting)
        parts = {"stage": stage, **{store: PARTS[store](stage) for store in self.stores}}
        at = 0
        try:
            for part, name, fields in self.steps:
                await getattr(parts[part], name)(**fields)
                at += 1
            await stage.end()
        except Exception as error:
            return Failure(replace(self, steps=self.steps[: at + 1]), at, error)
        finally:
            await stage.close()
        return None

    def lines(self) -> list[str]:
        """Its steps as Python, the last one too."""
        called = [
            f"await {part}.{name}({', '.join(_keywords(fields))})"
            for part, name, fields in self.steps
        ]
        return [*called, "await stage.end()"]

    def __str__(self) -> str:
        """Python to be pasted into a test."""
        asked = ["lab", *map(repr, self.stores), *_keywords(self.setting)]
        parts = [f"{store} = {PARTS[store].__name__}(stage)" for store in self.stores]
        return "\n".join([f"stage = await Stage.open({', '.join(asked)})", *parts, *self.lines()])


@dataclass(frozen=True)
class Failure:
    """What a program raised, and at which of its steps; further ones are left out."""

    program: Program
    at: int
    error: Exception

    def told(self, seed: int) -> Exception:
        """The error, to be raised, with notes that say where it happened in which program."""
        where = self.program.lines()[self.at]
        self.error.add_note(f"It happened at: {where}")
        self.error.add_note(f"With seed {seed}; paste this into a test:\n\n{self.program}")
        return self.error


def _keywords(fields: dict[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in fields.items()]


@st.composite
def programs(
    draw: st.DrawFn, stores: tuple[str, ...], length: int, setting: dict[str, Any]
) -> Program:
    """Programs of ``length`` steps on average, and twice as many at most.

    Of how many tenants and clients is drawn too, unless ``setting`` says so.
    """
    drawn: dict[str, Any] = {"tenants": draw(_ONE_OR_TWO), "clients": draw(_ONE_OR_TWO)}
    setting = {**drawn, **setting}
    # A single list would be short on average, however long it may be.
    parts = st.lists(_steps(stores), max_size=10)
    steps = [step for _ in range(length // 5) for step in draw(parts)]
    return Program(stores, setting, _named(steps, setting, draw(_POOL)))


@st.composite
def _steps(draw: st.DrawFn, stores: tuple[str, ...]) -> Step:
    kind = draw(_kinds(stores))
    drawn = {name: draw(values) for name, values in _fields(kind)}
    fields = {name: value for name, value in drawn.items() if value is not DEFAULT}
    return kind.part, kind.name, fields


_ONE_OR_TWO = st.sampled_from((1, 2))
_POOL = st.sampled_from(POOLS)


@cache
def _kinds(stores: tuple[str, ...]) -> st.SearchStrategy[Kind]:
    kinds = [kind for part in (*stores, "stage") for kind in KINDS[part]]
    return st.sampled_from([kind for kind in kinds for _ in range(kind.weight)])


_known_fields: dict[str, list[tuple[str, st.SearchStrategy[Any]]]] = {}


def _fields(kind: Kind) -> list[tuple[str, st.SearchStrategy[Any]]]:
    name = f"{kind.part}.{kind.name}"
    if name not in _known_fields:
        fields = kind.fields.items()
        _known_fields[name] = [(field, st.sampled_from(values)) for field, values in fields]
    return _known_fields[name]


def _named(steps: list[Step], setting: dict[str, Any], names: tuple[str, ...]) -> list[Step]:
    """The steps with names in place of numbers. Most are to meet a run that is there."""
    standing: dict[int, list[str]] = {tenant: [] for tenant in range(setting["tenants"])}

    def named(value: Any, there: list[str]) -> Any:
        if isinstance(value, Name):
            return names[value.number]
        if isinstance(value, Standing):
            return there[value.number % len(there)] if there else names[value.number]
        if isinstance(value, tuple):
            return tuple(named(part, there) for part in cast("tuple[Any, ...]", value))
        return value

    done: list[Step] = []
    for part, name, fields in steps:
        seat = fields.get("client", 0) % (setting["tenants"] * setting["clients"])
        there = standing[seat // setting["clients"]]
        fields = {field: named(value, there) for field, value in fields.items()}
        done.append((part, name, fields))
        if part == "runs":
            _keep_standing(name, fields, there)
    return done


def _keep_standing(name: str, fields: dict[str, Any], there: list[str]) -> None:
    run = fields.get("run", "")
    new = {"create": run or "made", "fork": fields.get("to") or "made", "descend": "leaf"}
    if name in new and new[name] not in there and (name == "create" or run in there):
        there.append(new[name])
    if name == "delete" and run in there and not fields.keys() - {"client", "run"}:
        there.remove(run)
